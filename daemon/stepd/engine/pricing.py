"""What tokens cost: a table of prices, and the one rule that prices the lines of a usage by it.

Money is whole nano-units (10⁻⁹) of the table's currency; no float comes near it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

COUNTS: Final = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")
SUM_MAX: Final = 2**63 - 1
"""Where a sum of tokens or of money would be more, it is this: what a store's whole numbers can hold."""
PER_TOKENS: Final = 1_000_000
"""Prices are for so many tokens."""
ANY_REST: Final = "*"
"""At the end of a model's name in a price: whatever follows."""
NANO: Final = 1_000_000_000


def units(nano: int) -> str:
    """Nano-units as a number of whole units, digit for digit."""
    whole, rest = divmod(nano, NANO)
    return f"{whole}.{rest:09}".rstrip("0").rstrip(".")


class Line(msgspec.Struct, omit_defaults=True):
    """What one model used, in five disjoint counts, and what that cost when it was first reported."""

    model: str
    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cost: int | None = None
    """Nano-units; None where none of its tokens has a price."""
    unpriced: int = 0
    """Its tokens that have no price."""
    prices: int | None = None
    """The version of the table that priced it."""

    def __post_init__(self) -> None:
        if self.cost is None:
            self.unpriced = self.tokens

    @property
    def counts(self) -> tuple[int, ...]:
        """The five counts, in the order of ``COUNTS``."""
        return tuple(getattr(self, name) for name in COUNTS)

    @property
    def named_counts(self) -> dict[str, int]:
        """The five counts by their names."""
        return dict(zip(COUNTS, self.counts, strict=True))

    @property
    def tokens(self) -> int:
        """All of its tokens."""
        return sum(self.counts)


class Price(msgspec.Struct, frozen=True):
    """What a model's tokens cost from a time on."""

    model: str
    """Its name, or the beginning of names and ``*``."""
    valid_from: int
    """Milliseconds since the epoch."""
    rates: tuple[int | None, ...]
    """For each of ``COUNTS``: nano-units for a million tokens; None where such tokens have no price."""


class PriceTable:
    """The prices of one version, ready to be looked up."""

    def __init__(self, version: int, currency: str, prices: Iterable[Price]) -> None:
        self.version = version
        self.currency = currency
        self._by_name: dict[str, list[Price]] = {}
        for price in sorted(prices, key=lambda price: price.valid_from, reverse=True):
            self._by_name.setdefault(price.model, []).append(price)
        beginnings = (name.removesuffix(ANY_REST) for name in self._by_name if name.endswith(ANY_REST))
        self._beginnings = sorted(beginnings, key=len, reverse=True)

    def find(self, model: str, at: int) -> Price | None:
        """The price of a model at a time (ms): its own before one of a beginning, the longest beginning first.

        Of several under one name the latest that is valid at that time; a name with none valid is passed over.
        """
        names = [model, *(begin + ANY_REST for begin in self._beginnings if model.startswith(begin))]
        found = (price for name in names for price in self._by_name.get(name, ()) if price.valid_from <= at)
        return next(found, None)


def priced(lines: Sequence[Line], table: PriceTable | None, at: int, known: Iterable[Line] = ()) -> list[Line]:
    """The lines with what they cost at a time (ms).

    A line that stood among ``known`` already, with the same model and counts, keeps what it was priced at then.
    """
    before: dict[tuple[object, ...], list[Line]] = {}
    for line in known:
        before.setdefault((line.model, *line.counts), []).append(line)
    done = []
    for line in lines:
        same = before.get((line.model, *line.counts))
        done.append(same.pop(0) if same else _price(line, table, at))
    return done


def merged(lines: Iterable[Line]) -> list[Line]:
    """The same usage with one line a model and version of prices: what has a cost is kept apart from what has none."""
    sums: dict[tuple[str, int | None], Line] = {}
    for line in lines:
        key = (line.model, None if line.cost is None else line.prices)
        sums[key] = line if key not in sums else _sum(sums[key], line)
    return list(sums.values())


def capped(number: int) -> int:
    """A sum as it is kept."""
    return min(number, SUM_MAX)


def moved(total: int, change: int) -> int:
    """A total after one of its parts has changed. One that has come to ``SUM_MAX`` stays there."""
    return total if total >= SUM_MAX else capped(total + change)


def _price(line: Line, table: PriceTable | None, at: int) -> Line:
    price = None if table is None else table.find(line.model, at)
    if table is None or price is None:
        return msgspec.structs.replace(line, cost=None, prices=None)
    parts = list(zip(line.counts, price.rates, strict=True))
    unpriced = sum(count for count, rate in parts if rate is None)
    if unpriced and unpriced == line.tokens:
        return msgspec.structs.replace(line, cost=None, prices=table.version)
    cost = _half_even(sum(count * rate for count, rate in parts if rate is not None))
    return msgspec.structs.replace(line, cost=capped(cost), unpriced=unpriced, prices=table.version)


def _half_even(millionths: int) -> int:
    whole, rest = divmod(millionths, PER_TOKENS)
    double = 2 * rest
    return whole + (double > PER_TOKENS or (double == PER_TOKENS and whole % 2 == 1))


def _sum(one: Line, other: Line) -> Line:
    sums = {name: capped(a + b) for name, a, b in zip(COUNTS, one.counts, other.counts, strict=True)}
    cost = None if one.cost is None or other.cost is None else capped(one.cost + other.cost)
    return msgspec.structs.replace(one, **sums, cost=cost, unpriced=capped(one.unpriced + other.unpriced))
