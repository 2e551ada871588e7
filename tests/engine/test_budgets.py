"""Budgets: what has used up what it may is paused at once, and nothing begins until it is raised."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stepd.engine import commands as c
from stepd.engine.budgets import is_used_up
from stepd.engine.definition_budget import Budget, nano_of
from stepd.engine.model import Execution
from stepd.engine.pricing import Price, PriceTable
from stepd.engine.resolutions import Resolved
from tests.engine.definitions import compiled, faults_of, read
from tests.engine.family import Family
from tests.engine.world import ACTOR, World, result

DOLLARS = PriceTable(1, "USD", [Price("m", 0, (1_000_000_000,) * 5)])
TWO = [read("a", retry={"initial_seconds": 0}), read("b")]
EXCEEDED = ("paused", "budget_exceeded")


def used(tokens: int, *, prices: PriceTable | None = None) -> c.Reported:
    return c.Reported(usage=msgspec.json.encode([{"model": "m", "output_tokens": tokens}]), prices=prices)


def begin(*steps: dict[str, Any], budget: dict[str, Any] | None = None, **more: Any) -> World:
    return World({"steps": list(steps) or TWO, "budget": {"tokens": 10} if budget is None else budget, **more})


def claim(world: World) -> Any:
    granted = world.claim()
    assert granted is not None
    return granted.attempt


def standing(world: World) -> tuple[str, str | None]:
    return world.execution.status, world.execution.pause_reason


def resume(world: World, **bounds: Any) -> Any:
    return world.run(c.Resume(ACTOR, **bounds))


# -- when it is used up -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "tokens", "cost", "expected"),
    [
        ({}, 10**9, 10**9, False),
        ({"tokens": 5}, 4, 10**9, False),
        ({"tokens": 5}, 5, 0, True),
        ({"tokens": 5}, 6, 0, True),
        ({"nano": 5}, 10**9, 4, False),
        ({"nano": 5}, 0, 5, True),
        ({"nano": 5, "tokens": 5}, 5, 0, True),
        ({"nano": 5, "tokens": 5}, 0, 5, True),
        ({"nano": 5, "tokens": 5}, 4, 4, False),
        ({"nano": 0}, 0, 0, True),
        ({"tokens": 0}, 0, 0, True),
    ],
)
def test_a_bound_that_is_reached_is_enough(budget: dict[str, int], tokens: int, cost: int, expected: bool) -> None:
    execution = begin().execution
    execution.input_tokens, execution.cost_nano = tokens, cost
    execution.budget_nano, execution.budget_tokens = budget.get("nano"), budget.get("tokens")
    assert is_used_up(execution) is expected


@pytest.mark.parametrize(
    "field", ["input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens"]
)
def test_all_five_counts_are_tokens(field: str) -> None:
    execution: Execution = begin().execution
    setattr(execution, field, 10)
    assert is_used_up(execution)


# -- where it is paused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tokens", [10, 11])
def test_the_completion_that_reaches_it_pauses(tokens: int) -> None:
    world = begin()
    told = world.complete(claim(world), reported=used(tokens))
    assert (told.execution_status, *standing(world)) == ("paused", *EXCEEDED)
    assert world.types()[-1] == "execution.paused"
    assert msgspec.json.decode(world.events[-1].data) == {"reason": "budget_exceeded"}
    assert world.execution.paused_at == world.now
    assert world.claim() is None


def test_the_last_completion_ends_it_whatever_it_used() -> None:
    world = begin(read())
    world.complete(claim(world), reported=used(1000))
    assert world.execution.status == "completed"
    assert "execution.paused" not in world.types()


def test_a_failure_that_ends_it_ends_it() -> None:
    world = begin()
    world.fail(claim(world), "fatal", reported=used(10))
    assert world.execution.status == "failed"


def test_a_retry_is_kept_back() -> None:
    world = begin()
    told = world.fail(claim(world), reported=used(10))
    assert (told.disposition, *standing(world)) == ("retry_scheduled", *EXCEEDED)
    world.pass_time(60_000)
    assert world.claim() is None
    resume(world, tokens=11)
    world.pass_time(0)
    assert claim(world).number == 2


def test_a_scheduled_one_without_anything_to_use_stops_when_its_time_comes() -> None:
    world = World({"steps": TWO, "budget": {"tokens": 0}}, start_at=1_005_000)
    assert world.execution.status == "scheduled"
    world.pass_time(5_000)
    assert standing(world) == EXCEEDED


def test_what_is_told_less_later_does_not_end_the_pause() -> None:
    world = begin()
    attempt = claim(world)
    world.heartbeat(attempt, reported=used(10))
    world.heartbeat(attempt, reported=used(1))
    assert standing(world) == EXCEEDED
    assert isinstance(resume(world), c.Done), "it may use something again"


def test_a_signal_waits_for_the_resume() -> None:
    world = begin(read("a"), {"id": "w", "kind": "wait", "event": "go", "needs": []}, read("b", needs=["a", "w"]))
    world.complete(claim(world), reported=used(10))
    assert isinstance(world.signal("go", 1), c.Done)
    assert world.status("w") == "waiting"
    resume(world, tokens=11)
    assert (world.status("w"), world.status("b")) == ("succeeded", "queued")


# -- the ways out -----------------------------------------------------------------------------------------------------


def exceed(**more: Any) -> World:
    world = begin(**more)
    world.complete(claim(world), reported=used(10, prices=DOLLARS))
    assert standing(world) == EXCEEDED
    return world


@pytest.mark.parametrize("bounds", [{}, {"tokens": 10}, {"tokens": 3}, {"nano": 10**9}])
def test_a_resume_that_leaves_it_used_up_is_refused(bounds: dict[str, int]) -> None:
    world = exceed()
    seq, before = world.execution.seq, world.execution.budget_tokens
    refused = resume(world, **bounds)
    assert isinstance(refused, c.Conflict)
    assert (refused.code, refused.status) == ("not_pausable", "paused")
    assert "10 of" in str(refused.why)
    assert (world.execution.seq, world.execution.budget_tokens, *standing(world)) == (seq, before, *EXCEEDED)


@pytest.mark.parametrize("bounds", [{"tokens": 11}, {"tokens": None}, {"tokens": None, "nano": 10_001}])
def test_a_greater_one_lets_it_go_on(bounds: dict[str, int | None]) -> None:
    world = exceed()
    assert resume(world, **bounds) == c.Done("running")
    assert (world.execution.pause_reason, world.execution.paused_at) == (None, None)
    world.complete(claim(world))
    assert world.execution.status == "completed"


def test_it_names_money_to_the_last_digit() -> None:
    world = exceed(budget={"cost": 0.00001})
    refused = resume(world)
    assert "0.00001 USD of 0.00001 USD" in refused.why
    assert '"cost": more than 0.00001' in refused.why
    assert resume(world, nano=10_001) == c.Done("running")


def test_a_pause_that_was_asked_for_ends_only_with_something_left() -> None:
    world = begin()
    attempt = claim(world)
    world.run(c.Pause(ACTOR))
    world.complete(attempt, reported=used(10))
    assert standing(world) == ("paused", None)
    assert isinstance(resume(world), c.Conflict)
    resume(world, tokens=11)
    assert world.status("b") == "queued"


def test_cancel_and_time_out_end_the_pause() -> None:
    world = exceed()
    world.cancel()
    assert standing(world) == ("cancelled", None)
    world = exceed(timeout_seconds=20)
    world.pass_time(20_000)
    assert standing(world) == ("failed", None)


def test_a_resolution_goes_on_only_as_far_as_the_budget_does() -> None:
    world = begin({"id": "a", "effect": "non_idempotent_write"}, read("b"))
    attempt = claim(world)
    world.heartbeat(attempt, started=True)
    world.fail(attempt, "fatal", reported=used(10))
    assert world.execution.status == "reconciliation_required"
    answer = world.resume_with(result("a", "succeeded"))
    assert isinstance(answer, Resolved)
    assert standing(world) == EXCEEDED
    assert world.claim() is None
    resume(world, tokens=11)
    assert world.claim("b") is not None


def test_it_may_be_raised_before_the_resolution() -> None:
    world = begin({"id": "a", "effect": "non_idempotent_write"}, read("b"))
    attempt = claim(world)
    world.heartbeat(attempt, started=True)
    world.fail(attempt, "fatal", reported=used(10))
    assert isinstance(resume(world, tokens=10), c.Conflict)
    assert resume(world, tokens=11) == c.Done("reconciliation_required")
    world.resume_with(result("a", "succeeded"))
    assert world.claim("b") is not None


def test_what_has_ended_gets_no_budget() -> None:
    world = exceed()
    world.cancel()
    assert resume(world, tokens=11).code == "already_ended"
    assert resume(world) == c.Done("cancelled")


def test_a_restart_leaves_the_pause() -> None:
    world = exceed(on_restart="fail")
    world.run(c.Recover(1000))
    assert standing(world) == EXCEEDED


# -- children ---------------------------------------------------------------------------------------------------------


def family(*steps: dict[str, Any]) -> Family:
    run = Family({"parent": {"steps": list(steps), "budget": {"tokens": 10}}, "child": {"steps": TWO}})
    run.carry()
    return run


SUB = {"id": "sub", "kind": "workflow", "workflow": "child"}


def test_what_a_child_used_pauses_its_parent() -> None:
    run = family(SUB, read("c"))
    run.child.heartbeat(claim(run.child), reported=used(10))
    assert run.root.execution.status == "queued"
    run.carry()
    assert standing(run.root) == EXCEEDED
    assert run.child.execution.status == "running", "it has begun, and goes on"


@pytest.mark.parametrize("more", [{}, {"repeat": {"until": "last == 9", "max": 5}}])
def test_no_further_child_begins(more: dict[str, Any]) -> None:
    second = [] if more else [{**SUB, "id": "second"}]
    run = family({**SUB, **more}, *second)
    for tokens in (10, 0):
        run.child.complete(claim(run.child), 1, reported=used(tokens))
    run.carry()
    assert standing(run.root) == EXCEEDED
    assert len(run.children) == 1
    assert run.root.execution.children == 0
    assert isinstance(resume(run.root), c.Conflict)
    resume(run.root, tokens=11)
    run.carry()
    assert len(run.children) == 2


# -- what a definition says -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (None, Budget()),
        ({"tokens": 5}, Budget(None, 5)),
        ({"cost": 5}, Budget(5_000_000_000, None)),
        ({"cost": 0.000000001, "tokens": None}, Budget(1, None)),
        ({"cost": 0.1, "tokens": 0}, Budget(100_000_000, 0)),
    ],
)
def test_a_definition_says_it(budget: Any, expected: Budget) -> None:
    assert compiled(read(), budget=budget).budget == expected


@pytest.mark.parametrize(
    ("budget", "pointer"),
    [
        ({}, "/budget"),
        ({"tokens": None}, "/budget"),
        ([], "/budget"),
        ({"tokens": 5, "max": 1}, "/budget/max"),
        ({"tokens": -1}, "/budget/tokens"),
        ({"tokens": 5.5}, "/budget/tokens"),
        ({"cost": -1}, "/budget/cost"),
        ({"cost": "1"}, "/budget/cost"),
        ({"cost": 1e-10}, "/budget/cost"),
        ({"cost": 10**400}, "/budget/cost"),
        ({"cost": False}, "/budget/cost"),
    ],
)
def test_what_is_no_budget_is_refused(budget: Any, pointer: str) -> None:
    assert list(faults_of({"steps": [read()], "budget": budget})) == [pointer]


def test_its_digest_has_it_only_where_it_is_given() -> None:
    plain, null = compiled(read()), compiled(read(), budget=None)
    some, other = compiled(read(), budget={"tokens": 5}), compiled(read(), budget={"tokens": 5, "cost": None})
    assert plain.digest == null.digest != some.digest == other.digest


@pytest.mark.parametrize(("given", "nano"), [("1e-9", 1), (0.3, 300_000_000), ("1000000000", 10**18), (0, 0)])
def test_money_is_read_exactly(given: Any, nano: int) -> None:
    assert nano_of(given) == nano
