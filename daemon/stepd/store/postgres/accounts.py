"""Prices and the log of usage in PostgreSQL."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import astuple

from stepd.engine.model import Audit
from stepd.store.accounts import PricesRow, UsageFilter, UsageSum
from stepd.store.postgres.connections import Session
from stepd.store.postgres.records import write_audit
from stepd.store.postgres.tables import PRICES, numbered
from stepd.store.summing import PRICED, usage_query, usage_sum

NEWEST: Final = f"{PRICES.select} where version > $1 order by version desc limit 1"
VERSION: Final = f"{PRICES.select} where version = $1 and version > $2"
INSERT: Final = f"insert into prices ({PRICES.listed}) values ($1, $2, $3, $4, $5)"


async def prices(session: Session, version: int | None, newer_than: int) -> PricesRow | None:
    """A version of the table of prices, or the newest one."""
    if version is None:
        values = await session.fetchrow(NEWEST, newer_than)
    else:
        values = await session.fetchrow(VERSION, version, newer_than)
    return None if values is None else PRICES.read(values)


async def put_prices(session: Session, row: PricesRow, audit: Audit) -> PricesRow | str:
    """Keeps a new version; answers the currency where something was priced in another one.

    Where another daemon keeps one at the same time, the number is taken, and the whole is run again.
    """
    before = await prices(session, None, 0)
    if before is not None and before.currency != row.currency:
        for statement in PRICED:
            if (found := await session.fetchval(statement)) is not None:
                return str(found)
    kept = msgspec.structs.replace(row, version=1 if before is None else before.version + 1)
    await session.execute(INSERT, *astuple(kept))
    await write_audit(session, [msgspec.structs.replace(audit, object=str(kept.version))])
    return kept


async def usage(session: Session, filter_: UsageFilter, tenants: tuple[str, ...] | None, limit: int) -> list[UsageSum]:
    """Sums over the log of usage."""
    statement, parameters = usage_query(filter_, tenants, limit, _Labels())
    found = await session.fetch(numbered(statement), *parameters)
    return [usage_sum(filter_, tuple(values)) for values in found]


class _Labels:
    """How PostgreSQL looks into labels; the driver writes and reads the marks."""

    def look(self, key: str) -> tuple[str, object]:
        return "coalesce(convert_from(labels, 'UTF8')::json ->> ?::text, '') collate \"C\"", key

    def value(self, text: str) -> object:
        return text
