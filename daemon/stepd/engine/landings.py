"""What is said of spans that come outside of a lease's calls, and where those are kept that hang under no attempt."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, TypeAlias

import msgspec

if TYPE_CHECKING:
    from stepd.engine.commands import Reported, SpanReport

LOOSE_MARK = "@"
"""Begins what stands in an attempt's place for spans of which it isn't known yet whose they are."""
_PRINCIPAL_DIGITS = 16


class LandSpans(msgspec.Struct, frozen=True):
    """Spans of one attempt of this principal; those of them that were kept loose are so no more."""

    attempt_id: str
    principal: str
    reported: Reported
    loose: tuple[tuple[str, str], ...] = ()
    """Key and span id of each that is kept loose in the same execution."""


class KeepLoose(msgspec.Struct, frozen=True):
    """Spans that belong to the execution, and to nobody knows which attempt: each with the key it is kept under."""

    spans: tuple[tuple[str, SpanReport], ...]


class DropLoose(msgspec.Struct, frozen=True):
    """These spans, by key and id, have landed in another execution."""

    spans: tuple[tuple[str, str], ...]


Landing: TypeAlias = LandSpans | KeepLoose | DropLoose


class Landed(msgspec.Struct, frozen=True):
    """The spans were taken."""

    fresh: frozenset[str]
    """Those that were not known before."""
    beyond: frozenset[str] = frozenset()
    """Those that were not taken, since as many are kept already as may be."""


def loose_key(principal: str, parent: str | None) -> str:
    """Where this principal's loose spans below this parent are kept. It tells nobody who that is."""
    return f"{loose_owner(principal)}{parent or ''}"


def loose_owner(principal: str) -> str:
    """What all of this principal's keys begin with."""
    return f"{LOOSE_MARK}{sha256(principal.encode()).hexdigest()[:_PRINCIPAL_DIGITS]}:"
