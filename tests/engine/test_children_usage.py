"""What children use is told upward, while they run and when they end, and counted once."""

from __future__ import annotations

from typing import Any

import msgspec

from stepd.engine import commands as c
from stepd.engine.kinship import news_of
from stepd.engine.pricing import Price, PriceTable
from stepd.engine.spending import below, own, whole
from tests.engine.family import Family
from tests.engine.parents import READ, family
from tests.engine.world import World

DOLLARS = PriceTable(1, "USD", [Price("m", 0, (1_000_000_000, None, None, None, None))])
FRANCS = PriceTable(2, "CHF", [Price("m", 0, (1_000_000_000, None, None, None, None))])


def used(tokens: int, prices: PriceTable | None = DOLLARS) -> c.Reported:
    return c.Reported(usage=msgspec.json.encode([{"model": "m", "input_tokens": tokens}]), prices=prices)


def claim(world: World) -> Any:
    granted = world.claim()
    assert granted is not None
    return granted.attempt


def numbers(world: World) -> tuple[int, int, str | None]:
    spent = whole(world.execution)
    return spent.tokens, spent.cost_nano, spent.currency


def test_a_child_tells_while_it_runs() -> None:
    run = family([READ])
    attempt = claim(run.child)
    run.child.heartbeat(attempt, reported=used(5))
    run.carry()
    assert numbers(run.root) == (5, 5_000, "USD")
    run.child.heartbeat(attempt, reported=used(3))
    run.carry()
    assert numbers(run.root) == (3, 3_000, "USD"), "what replaces counts once"
    run.child.complete(attempt, reported=used(7))
    run.carry()
    assert numbers(run.root) == (7, 7_000, "USD")
    assert own(run.root.execution).tokens == 0
    assert run.root.execution.status == "completed"


def test_the_same_news_twice_counts_once() -> None:
    run = family([READ])
    run.child.heartbeat(claim(run.child), reported=used(5))
    assert run.carry_one(lose=True)
    run.carry()
    assert numbers(run.root)[0] == 5


def test_older_news_that_come_later_change_nothing() -> None:
    run = family([READ])
    attempt = claim(run.child)
    run.child.heartbeat(attempt, reported=used(5))
    older = news_of(run.child.execution, None)
    run.child.heartbeat(attempt, reported=used(9))
    run.carry()
    run.root.run(older)
    assert numbers(run.root)[0] == 9
    run.child.run(c.NewsTaken(older.seq, older.usage_seq))
    assert run.errands() == []


def test_a_child_that_used_more_since_tells_again() -> None:
    run = family([READ])
    attempt = claim(run.child)
    run.child.heartbeat(attempt, reported=used(5))
    told = news_of(run.child.execution, None)
    run.root.run(told)
    run.child.heartbeat(attempt, reported=used(6))
    run.child.run(c.NewsTaken(told.seq, told.usage_seq))
    assert [kind for _, kind, _ in run.errands()] == ["tell"]
    run.carry()
    assert numbers(run.root)[0] == 6


def test_it_goes_all_the_way_up() -> None:
    call = {"id": "sub", "kind": "workflow"}
    steps: dict[str, Any] = {"steps": [{**call, "workflow": "child"}]}
    run = Family({"parent": steps, "child": {"steps": [{**call, "workflow": "low"}, READ]}, "low": {"steps": [READ]}})
    run.carry()
    child, low = run.children
    low.complete(claim(low), reported=used(5))
    run.carry()
    child.complete(claim(child), reported=used(20))
    run.carry()
    assert [numbers(world)[0] for world in (run.root, child, low)] == [25, 25, 5]
    assert (own(child.execution).tokens, below(child.execution).tokens) == (20, 5)


def test_each_round_s_child_counts() -> None:
    run = family([READ], step={"repeat": {"until": "index >= 1", "max": 2}})
    for world_number, tokens in ((0, 5), (1, 7)):
        world = run.children[world_number]
        world.complete(claim(world), reported=used(tokens))
        run.carry()
    assert numbers(run.root) == (12, 12_000, "USD")


def test_money_in_another_currency_is_not_added_up() -> None:
    run = family([READ], before=[{"id": "own", "effect": "read_only"}])
    run.root.complete(claim(run.root), reported=used(5))
    run.carry()
    run.child.complete(claim(run.child), reported=used(7, FRANCS))
    run.carry()
    spent = whole(run.root.execution)
    assert (spent.cost_nano, spent.currency, spent.unpriced_tokens) == (5_000, "USD", 7)


def test_without_usage_nothing_more_is_told() -> None:
    run = family([READ])
    attempt = claim(run.child)
    run.child.heartbeat(attempt)
    assert run.errands() == []
    run.child.complete(attempt)
    run.carry()
    assert run.root.execution.below is None
