"""What an execution may use, as a definition says it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

import msgspec

from stepd.engine.definition_fields import Fields, shown
from stepd.engine.pricing import NANO
from stepd_protocol.limits import BUDGET_COST_MAX, TOKENS_MAX

BUDGET_FIELDS: Final = frozenset({"cost", "tokens"})


class Budget(msgspec.Struct, frozen=True):
    """The bounds of what an execution and its children may use; None where there is none."""

    nano: int | None = None
    """Nano-units of the currency in which prices are."""
    tokens: int | None = None
    """Of all five counts."""


def read_budget(top: Fields) -> Budget:
    """A definition's ``budget``; without bounds where it has none. It stands in the digest only where it is given."""
    if top.given.get("budget") is None:
        return Budget()
    fields = top.object("budget")
    if fields is None:
        return Budget()
    fields.refuse_others(BUDGET_FIELDS)
    nano, tokens = _nano(fields), _tokens(fields)
    if fields.given.get("cost") is None and fields.given.get("tokens") is None:
        fields.fault(None, "a budget has cost, tokens or both")
    top.full["budget"] = fields.full
    return Budget(nano, tokens)


def nano_of(value: int | float | str) -> int:
    """A cost in nano-units, exactly; text is a JSON number's. Raises ValueError, which says what it must be."""
    nano = Fraction(repr(value) if isinstance(value, float) else value) * NANO
    if not 0 <= nano <= BUDGET_COST_MAX * NANO:
        raise ValueError(f"is no number from 0 to {BUDGET_COST_MAX}")
    if nano.denominator != 1:
        raise ValueError("has more than nine decimals")
    return int(nano)


def _nano(fields: Fields) -> int | None:
    value: Any = fields.take("cost", None)
    if value is None:
        return None
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return nano_of(value)
        fields.fault("cost", f"{shown(value)} is no number from 0 to {BUDGET_COST_MAX}")
    except ValueError as fault:
        fields.fault("cost", f"{shown(value)} {fault}")
    return None


def _tokens(fields: Fields) -> int | None:
    if fields.given.get("tokens") is None:
        fields.full["tokens"] = None
        return None
    return fields.integer("tokens", 0, TOKENS_MAX, 0)
