"""What an execution has used, tokens and money: its own attempts, and its children all the way down."""

from __future__ import annotations

import msgspec

from stepd.engine.model import Execution
from stepd.engine.pricing import COUNTS, capped, moved


class Spent(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens in five disjoint counts, and what those of them cost that have a price."""

    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cost_nano: int = 0
    unpriced_tokens: int = 0
    currency: str | None = None
    """None while nothing was priced."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """All that can be summed, in the order of the fields."""
        return tuple(getattr(self, name) for name in NUMBERS)

    @property
    def tokens(self) -> int:
        """All tokens, whatever they cost."""
        return capped(sum(self.numbers[: len(COUNTS)]))


class UsageRow(msgspec.Struct):
    """A line of the log of usage: what an attempt used of a model, with what sums are asked for by."""

    attempt_id: str
    line: int
    """Its place among the attempt's lines."""
    execution_id: str
    workflow: str
    version: str
    step: str
    tenant: str | None
    labels: bytes
    at: int
    """When the attempt's usage was last reported."""
    model: str
    input_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cost_nano: int | None
    currency: str | None
    prices: int | None
    unpriced_tokens: int
    of_model: int
    """Its place among the attempt's lines of this model: the first ones tell how many attempts used it."""


NOTHING = Spent()
NUMBERS = (*COUNTS, "cost_nano", "unpriced_tokens")

read_spent = msgspec.json.Decoder(Spent).decode
"""Reads what ``keep_spent`` wrote."""
keep_spent = msgspec.json.Encoder().encode


def own(execution: Execution) -> Spent:
    """What its own attempts used."""
    return Spent(**{name: getattr(execution, name) for name in NUMBERS}, currency=execution.currency)


def below(execution: Execution) -> Spent:
    """What its children used, all the way down, as far as it has been told."""
    return NOTHING if execution.below is None else read_spent(execution.below)


def whole(execution: Execution) -> Spent:
    """What it used with its children."""
    mine = own(execution)
    return mine if execution.below is None else changed(mine, NOTHING, below(execution))


def changed(total: Spent, before: Spent, after: Spent) -> Spent:
    """A total after one of its parts has become another, both of them in the total's currency."""
    after = in_currency(after, total.currency)
    parts = zip(NUMBERS, total.numbers, before.numbers, after.numbers, strict=True)
    sums = {name: moved(sum_, new - old) for name, sum_, old, new in parts}
    return msgspec.structs.replace(total, **sums, currency=total.currency or after.currency)


def in_currency(spent: Spent, currency: str | None) -> Spent:
    """The same as a part of what is counted in a currency (None: in none yet). Money in another one is not added up:
    there all tokens have no price.
    """
    if currency is None or spent.currency in (None, currency):
        return spent
    return msgspec.structs.replace(spent, cost_nano=0, unpriced_tokens=spent.tokens, currency=None)
