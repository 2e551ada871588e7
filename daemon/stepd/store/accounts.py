"""Prices and the log of usage as they cross the seam to a store."""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from stepd.engine.model import Audit

GROUPS: Final = ("day", "workflow", "version", "step", "model", "tenant")
"""What a sum may be grouped by, beside labels."""
LABEL: Final = "label:"
"""In front of a label's key, in a group."""


class PricesRow(msgspec.Struct):
    """A version of the table of prices."""

    version: int
    """Counts from 1."""
    at: int
    principal: str
    currency: str
    body: bytes
    """JSON, as the service reads it."""


class UsageFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What usage is to be summed, and how; times in ms."""

    group_by: tuple[str, ...] = ()
    """Of ``GROUPS``, or ``label:`` and a key."""
    workflow: str | None = None
    tenant: str | None = None
    model: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    at_from: int | None = None
    at_before: int | None = None
    currency: str = ""
    """Money in another one is not added up: there all tokens have no price."""
    cursor: tuple[int | str, ...] | None = None
    """The group behind which the page begins."""


class UsageSum(msgspec.Struct, frozen=True):
    """What one group used."""

    group: tuple[int | str, ...]
    """In the order of ``group_by``; a day is a number of days since the epoch, no tenant and no label an empty text."""
    counts: tuple[int, ...]
    cost: int
    unpriced: int
    is_priced: bool
    """Whether anything of it has a cost."""
    attempts: int


class Accounts(Protocol):
    """What a store keeps of prices and of usage. Every method may raise StoreUnavailable."""

    async def prices(self, version: int | None = None, *, newer_than: int = 0) -> PricesRow | None:
        """A version of the table of prices, or the newest one, if it is newer than that; None where there is none."""

    async def put_prices(self, row: PricesRow, audit: Audit) -> PricesRow | str:
        """Keeps a new version of the table and numbers it; told after the commit. Answers the row as it is kept.

        Where something was priced in another currency already, nothing is kept, and that currency is answered.
        """

    async def usage(self, filter_: UsageFilter, tenants: tuple[str, ...] | None, limit: int) -> list[UsageSum]:
        """Sums over the log of usage, of these tenants only (None: everything), a group each, in their order."""
