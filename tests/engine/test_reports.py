"""What attempts report is priced once and summed into their execution, whatever is sent in whatever order."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from stepd.engine import commands as c
from stepd.engine.pricing import COUNTS, SUM_MAX, Line, Price, PriceTable
from stepd.engine.reports import read_lines
from stepd.engine.spending import own, whole
from tests.engine.world import World

ONE = {"steps": [{"id": "a", "effect": "read_only", "retry": {"initial_seconds": 0}}]}
UNIT = 1_000_000_000
CHEAP = PriceTable(1, "USD", [Price("m*", 0, (UNIT, UNIT, UNIT, UNIT, UNIT))])
DEAR = PriceTable(2, "USD", [Price("m*", 0, (2 * UNIT, None, UNIT, 3, UNIT))])
FRANCS = PriceTable(3, "CHF", [Price("m*", 0, (UNIT, UNIT, UNIT, UNIT, UNIT))])


def usage(*counts: int, model: str = "m") -> dict[str, Any]:
    return {"model": model, **dict(zip(COUNTS, counts, strict=False))}


def given_usage(*lines: dict[str, Any], prices: PriceTable | None = CHEAP) -> c.Reported:
    return c.Reported(usage=msgspec.json.encode(lines), prices=prices)


def span(name: str, *lines: dict[str, Any], parent: str | None = None) -> c.SpanReport:
    return c.SpanReport(name, parent, b"{}", msgspec.json.encode(lines) if lines else None)


def spans(*sent: c.SpanReport, prices: PriceTable | None = CHEAP) -> c.Reported:
    return c.Reported(spans=sent, prices=prices)


def start() -> tuple[World, Any]:
    world = World(ONE)
    granted = world.claim()
    assert granted is not None
    return world, granted.attempt


def money(world: World) -> tuple[int, int, str | None]:
    spent = whole(world.execution)
    return spent.cost_nano, spent.unpriced_tokens, spent.currency


def test_without_prices_all_tokens_are_unpriced() -> None:
    world, attempt = start()
    world.heartbeat(attempt, reported=given_usage(usage(5, 4, 3, 2, 1), prices=None))
    assert money(world) == (0, 15, None)


def test_a_price_counts_from_the_first_report_on() -> None:
    world, attempt = start()
    world.heartbeat(attempt, reported=given_usage(usage(5)))
    world.heartbeat(attempt, reported=given_usage(usage(5), prices=DEAR))
    assert money(world) == (5_000, 0, "USD")
    world.complete(attempt, reported=given_usage(usage(6), prices=DEAR))
    assert money(world) == (12_000, 0, "USD")


def test_a_span_is_priced_when_it_is_first_sent() -> None:
    world, attempt = start()
    world.heartbeat(attempt, reported=spans(span("1", usage(5))))
    world.heartbeat(attempt, reported=spans(span("1", usage(5)), span("2", usage(5)), prices=DEAR))
    assert money(world) == (15_000, 0, "USD")
    (first, second) = read_lines(world.attempts[attempt.id].usage or b"")
    assert (first.prices, second.prices) == (1, 2)


def test_every_attempt_counts_whatever_became_of_it() -> None:
    world, attempt = start()
    world.fail(attempt, reported=given_usage(usage(1)))
    world.pass_time(1)
    lost = world.claim()
    assert lost is not None
    world.heartbeat(lost.attempt, reported=given_usage(usage(10)))
    world.pass_time(60_000)
    world.pass_time(60_000)
    last = world.claim()
    assert last is not None
    world.complete(last.attempt, reported=given_usage(usage(100)))
    assert money(world) == (111_000, 0, "USD")
    assert world.attempts[lost.attempt.id].status == "lost"


def test_two_currencies_are_never_added_up() -> None:
    world, attempt = start()
    world.heartbeat(attempt, reported=spans(span("1", usage(5))))
    world.complete(attempt, reported=spans(span("2", usage(7)), prices=FRANCS))
    assert money(world) == (5_000, 7, "USD")


def test_spans_in_a_circle_count_once() -> None:
    world, attempt = start()
    world.heartbeat(attempt, reported=spans(span("1", usage(5), parent="2"), span("2", usage(7), parent="1")))
    assert own(world.execution).tokens == 5
    world.heartbeat(attempt, reported=spans(span("3", usage(1), parent="3")))
    assert own(world.execution).tokens == 6


def test_full_sums_stay_full() -> None:
    world, attempt = start()
    huge = [usage(*[2**53] * 5, model=f"m{number}") for number in range(1_100)]
    dear = PriceTable(1, "USD", [Price("m*", 0, (10**18,) * 5)])
    world.heartbeat(attempt, reported=given_usage(*huge, prices=dear))
    assert money(world) == (SUM_MAX, 0, "USD")
    assert world.execution.input_tokens == SUM_MAX
    world.complete(attempt, reported=given_usage(usage(1)))
    assert money(world) == (SUM_MAX, 0, "USD")


LINES = st.lists(st.builds(usage, *[st.integers(0, 50)] * 5, model=st.sampled_from("mn")), max_size=3)
SPANS = st.lists(
    st.builds(
        lambda name, lines, parent: span(name, *lines, parent=parent),
        st.sampled_from("1234"),
        LINES,
        st.none() | st.sampled_from("1234"),
    ),
    max_size=3,
)
TABLES = st.sampled_from([None, CHEAP, DEAR, FRANCS])
REPORTS = st.lists(
    st.tuples(st.sampled_from(["heartbeat", "fail", "lose"]), st.none() | LINES, SPANS, TABLES), max_size=8
)


@given(REPORTS)
@settings(deadline=None)
def test_the_sums_are_those_of_what_attempts_keep(reports: list[tuple[str, Any, list[c.SpanReport], Any]]) -> None:
    world, attempt = start()
    for what, lines, sent, table in reports:
        reported = c.Reported(
            usage=None if lines is None else msgspec.json.encode(lines), spans=tuple(sent), prices=table
        )
        if what == "fail":
            world.fail(attempt, "interrupted", reported=reported)
        else:
            world.heartbeat(attempt, reported=reported)
            if what == "lose":
                world.pass_time(60_000)
        granted = None if what == "heartbeat" else world.claim()
        if granted is None and what != "heartbeat":
            break
        attempt = attempt if granted is None else granted.attempt
        _check(world)
    _check(world)


def _check(world: World) -> None:
    kept: list[Line] = []
    for attempt in world.attempts.values():
        kept += [] if attempt.usage is None else read_lines(attempt.usage)
    spent = own(world.execution)
    for place, name in enumerate(COUNTS):
        assert getattr(spent, name) == sum(line.counts[place] for line in kept)
    assert spent.cost_nano == sum(line.cost or 0 for line in kept)
    assert spent.unpriced_tokens == sum(line.unpriced for line in kept)
    assert spent.currency is not None or all(line.cost is None for line in kept)
