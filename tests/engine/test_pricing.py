"""What tokens cost: which price is meant, how it is rounded, and that a line is priced once."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepd.engine.pricing import SUM_MAX, Line, Price, PriceTable, merged, moved, priced

UNIT = 1_000_000_000
COUNT = st.integers(0, 2**53)
RATE = st.none() | st.integers(0, 1_000 * UNIT)


def table(*prices: Price, version: int = 1, currency: str = "USD") -> PriceTable:
    return PriceTable(version, currency, prices)


def price(model: str, *rates: int | None, valid_from: int = 0) -> Price:
    return Price(model, valid_from, (*rates, *[None] * (5 - len(rates))))


def cost(line: Line, *prices: Price, at: int = 0) -> Line:
    (done,) = priced([line], table(*prices), at)
    return done


def test_each_count_has_its_own_price() -> None:
    done = cost(Line("m", 1, 10, 100, 1_000, 10_000), price("m", 5 * UNIT, UNIT // 2, 6 * UNIT, 25 * UNIT, 30 * UNIT))
    # 1·5 + 10·0.5 + 100·6 + 1,000·25 + 10,000·30 = 325,610 millionths of a unit
    assert (done.cost, done.unpriced, done.prices) == (325_610_000, 0, 1)


@pytest.mark.parametrize(
    ("count", "rate", "nano"), [(1, 500_000, 0), (1, 500_001, 1), (3, 500_000, 2), (5, 500_000, 2), (1, 1_500_000, 2)]
)
def test_a_line_is_rounded_half_to_even(count: int, rate: int, nano: int) -> None:
    assert cost(Line("m", count), price("m", rate)).cost == nano


def test_a_line_is_rounded_as_a_whole() -> None:
    assert cost(Line("m", 1, 1), price("m", 500_000, 500_000)).cost == 1


def test_an_unknown_model_is_unpriced_and_never_free() -> None:
    done = cost(Line("other", 5, 0, 0, 2), price("m", 1))
    assert (done.cost, done.unpriced, done.prices) == (None, 7, None)


def test_a_count_without_a_price_is_unpriced() -> None:
    done = cost(Line("m", 5, 3, 0, 2), price("m", UNIT, None, None, UNIT))
    assert (done.cost, done.unpriced) == (7_000, 3)


def test_where_no_token_has_a_price_nothing_has_a_cost() -> None:
    done = cost(Line("m", 0, 3), price("m", UNIT))
    assert (done.cost, done.unpriced) == (None, 3)
    assert cost(Line("m"), price("m", UNIT)).cost == 0


NAMES = (price("gpt-4*", 4), price("gpt-4-turbo*", 5), price("gpt-4-turbo", 6), price("*", 7))


@pytest.mark.parametrize(
    ("model", "rate"),
    [("gpt-4", 4), ("gpt-4o", 4), ("gpt-4-turbo", 6), ("gpt-4-turbo-2024", 5), ("gpt-3", 7), ("GPT-4", 7)],
)
def test_the_longest_beginning_is_meant_and_a_whole_name_before_it(model: str, rate: int) -> None:
    found = table(*NAMES).find(model, 0)
    assert found is not None
    assert found.rates[0] == rate


@pytest.mark.parametrize(("at", "rate"), [(99, None), (100, 1), (199, 1), (200, 2), (10**15, 2)])
def test_the_latest_price_that_is_valid_counts(at: int, rate: int | None) -> None:
    found = table(price("m", 2, valid_from=200), price("m", 1, valid_from=100)).find("m", at)
    assert (None if found is None else found.rates[0]) == rate


def test_a_name_whose_prices_are_not_valid_yet_leaves_it_to_the_next() -> None:
    found = table(price("m", 2, valid_from=200), price("m*", 1)).find("m", 100)
    assert found is not None
    assert found.rates[0] == 1


def test_what_was_priced_keeps_its_price() -> None:
    before = priced([Line("m", 5), Line("m", 5), Line("n", 5)], table(price("m", UNIT)), 0)
    dearer = table(price("m", 2 * UNIT), price("n", UNIT), version=2)
    after = priced([Line("m", 5), Line("m", 5), Line("m", 5), Line("n", 5), Line("m", 6)], dearer, 1, before)
    assert [(line.cost, line.prices) for line in after] == [
        (5_000, 1),
        (5_000, 1),
        (10_000, 2),
        (None, None),
        (12_000, 2),
    ]


def test_lines_of_a_model_are_merged_by_the_prices_that_they_got() -> None:
    lines = [
        Line("m", 1, cost=5, prices=1),
        Line("m", 2, cost=6, prices=1),
        Line("m", 3, cost=7, prices=2),
        Line("m", 4),
    ]
    assert [(line.input_tokens, line.cost, line.unpriced) for line in merged([*lines, Line("m", 5)])] == [
        (3, 11, 0),
        (3, 7, 0),
        (9, None, 9),
    ]


def test_nothing_grows_beyond_what_is_kept() -> None:
    done = cost(Line("m", *[2**53] * 5), price("m", *[10**18] * 5))
    assert done.cost == SUM_MAX
    most = [Line("m", 2**53, cost=SUM_MAX, prices=1)] * 2_000
    assert [(line.input_tokens, line.cost) for line in merged(most)] == [(SUM_MAX, SUM_MAX)]
    assert moved(SUM_MAX - 1, 5) == SUM_MAX
    assert moved(SUM_MAX, -5) == SUM_MAX, "what a full total lacks is not known"
    assert moved(10, -5) == 5


@given(st.lists(COUNT, min_size=5, max_size=5), st.lists(RATE, min_size=5, max_size=5))
def test_a_cost_is_what_decimal_arithmetic_says(counts: list[int], rates: list[int | None]) -> None:
    done = cost(Line("m", *counts), price("m", *rates))
    exact = sum((Decimal(count) * rate / 10**6 for count, rate in zip(counts, rates, strict=True) if rate), Decimal())
    assert done.unpriced == sum(count for count, rate in zip(counts, rates, strict=True) if rate is None)
    if done.unpriced and done.unpriced == sum(counts):
        assert done.cost is None
    else:
        assert done.cost == min(int(exact.quantize(Decimal(1), ROUND_HALF_EVEN)), SUM_MAX)
