"""Children of `workflow` steps: how their ends, failures and standing writes reach the parent, whatever gets lost."""

from __future__ import annotations

import msgspec
import pytest

from stepd.engine import commands as c
from stepd.engine.children import DEPTH_MAX
from tests.engine.family import Family
from tests.engine.parents import READ, WRITE, do, doubtful, error_of, family
from tests.engine.world import ACTOR, result


def test_a_child_takes_its_input_and_gives_its_output() -> None:
    step = {"input": {"n": {"$cel": "input.n + 1"}}}
    run = family([READ], input={"n": 1}, correlation="case", priority=7, step=step)
    child = run.child.execution
    assert run.root.status("sub") == "waiting"
    assert run.child.payloads["input"] == b'{"n":2}'
    assert (child.correlation, child.priority, child.principal, child.depth) == ("case", 7, ACTOR.principal, 1)
    do(run.child, {"found": 3})
    assert run.root.status("sub") == "waiting"
    run.carry()
    assert run.root.execution.status == "completed"
    assert run.root.payloads["output"] == b'{"found":3}'
    assert run.root.types()[:4] == ["execution.created", "wait.armed", "child.started", "child.ended"]
    run.check()


def test_the_child_is_told_of_by_id_before_and_after_it_begins() -> None:
    run = family([READ])
    armed, started = (msgspec.json.decode(event.data) for event in run.root.events[1:3])
    assert armed["child"] == started["execution"] == run.child.execution.id
    created = msgspec.json.decode(run.child.events[0].data)
    assert created["parent"] == {"execution": run.root.execution.id, "step": "sub", "index": None}
    assert not run.child.execution.id.startswith(run.root.execution.id[:8])


def test_a_child_that_failed_fails_the_step() -> None:
    run = family([READ])
    granted = run.child.claim()
    assert granted is not None
    run.child.fail(granted.attempt, "fatal")
    run.carry()
    error = error_of(run.root)
    assert error["class"] == "child_failed"
    assert error["details"]["execution"] == run.child.execution.id
    assert error["details"]["status"] == "failed"
    assert error["details"]["error"]["class"] == "fatal"
    assert run.root.execution.status == "failed"


def test_catch_takes_a_failed_child() -> None:
    run = family([READ], step={"catch": [{"class": "child_failed", "value": "instead"}]})
    granted = run.child.claim()
    assert granted is not None
    run.child.fail(granted.attempt, "fatal")
    run.carry()
    assert run.root.execution.status == "completed"
    assert run.root.payloads["output"] == b'"instead"'


def test_a_cancelled_child_fails_the_step() -> None:
    run = family([READ])
    run.child.cancel()
    run.carry()
    assert error_of(run.root)["class"] == "child_failed"
    assert run.root.execution.status == "failed"


@pytest.mark.parametrize("workflow", ["nowhere", "parent"])
def test_a_child_that_can_not_be_started_fails_the_step(workflow: str) -> None:
    definition = {"steps": [{"id": "sub", "kind": "workflow", "workflow": workflow}], "input_schema": {"type": "null"}}
    run = Family({"parent": definition})
    run.definitions.pop("parent") if workflow == "nowhere" else None
    for _ in range(DEPTH_MAX + 5):
        run.carry()
    assert len(run.children) == (0 if workflow == "nowhere" else DEPTH_MAX)
    assert run.root.execution.status == "failed"
    assert error_of(run.root)["class"] == "child_failed"
    assert run.root.execution.children == 0


def test_the_depth_is_bounded() -> None:
    run = Family({"parent": {"steps": [{"id": "sub", "kind": "workflow", "workflow": "parent"}]}})
    run.carry()
    deepest = run.children[-1]
    assert deepest.execution.depth == DEPTH_MAX
    assert f"more than {DEPTH_MAX}" in error_of(deepest)["message"]
    assert {world.execution.status for world in run.worlds.values()} == {"failed"}


def test_an_output_that_does_not_fit_fails_the_step() -> None:
    run = family([READ], step={"output_schema": {"type": "string"}})
    do(run.child, 5)
    run.carry()
    assert error_of(run.root)["class"] == "invalid_output"
    assert run.root.execution.status == "failed"


# -- writes that stand ------------------------------------------------------------------------------------------------


def test_a_write_below_stands_for_the_parent() -> None:
    run = family([WRITE], then=[READ])
    do(run.child)
    run.carry()
    granted = run.root.claim()
    assert granted is not None
    run.root.fail(granted.attempt, "fatal")
    assert run.root.execution.status == "reconciliation_required"
    data = msgspec.json.decode(run.root.events[-1].data)
    assert data["standing_writes"] == ["sub"]


@pytest.mark.parametrize("caught", [False, True])
def test_a_write_of_a_failed_child_stands_also_where_it_was_caught(caught: bool) -> None:
    catch = [{"class": "*", "value": None}] if caught else []
    run = family([WRITE, {**READ, "id": "after"}], then=[READ], step={"catch": catch})
    do(run.child)
    granted = run.child.claim()
    assert granted is not None
    run.child.fail(granted.attempt, "fatal")
    run.carry()
    if caught:
        last = run.root.claim()
        assert last is not None
        run.root.fail(last.attempt, "fatal")
    assert run.root.execution.status == "reconciliation_required"
    assert msgspec.json.decode(run.root.events[-1].data)["standing_writes"] == ["sub"]


def test_a_child_without_writes_leaves_nothing_standing() -> None:
    run = family([READ], then=[{**READ, "id": "after"}])
    do(run.child)
    run.carry()
    granted = run.root.claim()
    assert granted is not None
    run.root.fail(granted.attempt, "fatal")
    assert run.root.execution.status == "failed"


# -- ending -----------------------------------------------------------------------------------------------------------


def test_an_ending_parent_cancels_its_child_and_waits_for_it() -> None:
    run = family([WRITE])
    granted = run.child.claim()
    assert granted is not None
    run.root.cancel()
    assert run.root.execution.status == "cancelling"
    run.carry()
    assert run.child.execution.status == "cancelling"
    assert run.root.execution.status == "cancelling"
    run.child.fail(granted.attempt, "cancelled", "none")
    run.carry()
    assert run.child.execution.status == "cancelled"
    assert run.root.execution.status == "cancelled"
    assert run.root.status("sub") == "cancelled"
    run.check()


def test_a_child_that_completes_in_spite_of_the_cancel_is_recorded() -> None:
    run = family([WRITE])
    granted = run.child.claim()
    assert granted is not None
    run.root.cancel()
    run.carry()
    run.child.complete(granted.attempt, 1)
    run.carry()
    assert run.child.execution.status == "cancelled"
    assert run.root.execution.status == "cancelled"
    assert msgspec.json.decode(run.root.events[-1].data)["standing_writes"] == ["sub"]


def test_a_child_that_was_not_begun_never_is() -> None:
    run = family([WRITE], before=[READ])
    do(run.root)
    run.root.cancel()
    assert run.root.execution.status == "cancelled"
    run.carry()
    assert run.children == []


def test_force_reaches_the_child() -> None:
    run = family([WRITE])
    granted = run.child.claim()
    assert granted is not None
    run.root.cancel()
    run.carry()
    run.root.cancel(force=True)
    run.carry()
    assert run.child.execution.forced
    assert run.child.execution.status == "reconciliation_required"
    assert run.root.execution.blocked_child == run.child.execution.id


def test_a_failure_beside_it_cancels_the_child() -> None:
    run = family([READ], then=[{**READ, "id": "other", "needs": []}])
    granted = run.root.claim()
    assert granted is not None
    run.root.fail(granted.attempt, "fatal")
    assert run.root.execution.status == "failing"
    run.carry()
    assert run.child.execution.status == "cancelled"
    assert run.root.execution.status == "failed"


# -- time and pause ---------------------------------------------------------------------------------------------------


def test_a_step_that_times_out_fails_once_its_child_has_ended() -> None:
    run = family([WRITE], step={"timeout_seconds": 10})
    granted = run.child.claim()
    assert granted is not None
    run.root.pass_time(10_000)
    run.carry()
    assert run.root.status("sub") == "waiting"
    assert run.child.execution.status == "cancelling"
    run.child.fail(granted.attempt, "cancelled", "none")
    run.carry()
    assert error_of(run.root)["class"] == "timeout"
    assert run.root.execution.status == "failed"
    assert "timer.fired" in run.root.types()


def test_a_child_that_completes_first_beats_the_time_out() -> None:
    run = family([READ], step={"timeout_seconds": 10})
    do(run.child, 1)
    run.root.pass_time(10_000)
    run.carry()
    assert run.root.execution.status == "completed"


def test_a_child_goes_on_while_its_parent_is_paused() -> None:
    run = family([READ], then=[{**READ, "id": "after"}])
    run.root.run(c.Pause(ACTOR))
    do(run.child, 1)
    run.carry()
    assert run.root.status("sub") == "succeeded"
    assert run.root.execution.status == "paused"
    assert run.root.claim() is None
    run.root.run(c.Resume(ACTOR))
    do(run.root)
    assert run.root.execution.status == "completed"


# -- what gets lost ---------------------------------------------------------------------------------------------------


def test_news_told_twice_change_nothing_more() -> None:
    run = family([READ], then=[{**READ, "id": "after"}])
    do(run.child, 1)
    assert run.carry_one(lose=True)
    seq = run.root.execution.seq
    assert run.carry_one()
    assert run.root.execution.seq == seq
    assert run.errands() == []
    run.check()


def test_older_news_are_passed_over() -> None:
    run = doubtful()
    late = c.ChildNews("sub", -1, run.child.execution.id, run.child.execution.seq - 1, "waiting", 0, None, None, False)
    run.root.run(late)
    assert run.root.execution.blocked_child is not None


def test_nothing_removes_a_child_before_its_parent_has_heard() -> None:
    run = family([READ])
    do(run.child, 1)
    assert run.child.execution.remove_at is None
    assert run.carry_one(lose=True)
    assert run.child.execution.remove_at is None
    run.carry()
    assert run.child.execution.remove_at is not None


# -- rounds -----------------------------------------------------------------------------------------------------------

REPEAT = {"until": "last.done", "max": 3, "next": {"n": {"$cel": "last.n"}}}


def rounds() -> Family:
    """A parent that repeats its child until that says `done`."""
    return family([READ], input={"n": 0}, step={"repeat": REPEAT})


def test_a_child_is_repeated_until_its_output_says_so() -> None:
    run = rounds()
    for number in range(3):
        child = run.children[number]
        assert child.payloads["input"] == b'{"n":%d}' % number
        assert child.execution.parent_index == number
        assert run.root.status("sub") == "waiting"
        do(child, {"done": number == 2, "n": number + 1})
        run.carry()
    assert run.root.execution.status == "completed"
    assert run.root.payloads["output"] == b'{"done":true,"n":3}'
    assert len({child.execution.id for child in run.children}) == 3
    run.check()


def test_a_child_that_never_says_so_ends_in_repeat_limit() -> None:
    run = rounds()
    for number in range(3):
        do(run.children[number], {"done": False, "n": 0})
        run.carry()
    assert len(run.children) == 3
    assert run.root.execution.status == "failed"
    assert run.root.execution.error is not None
    assert msgspec.json.decode(run.root.execution.error)["class"] == "repeat_limit"


def test_a_round_that_fails_fails_the_step() -> None:
    run = rounds()
    do(run.children[0], {"done": False, "n": 0})
    run.carry()
    granted = run.children[1].claim()
    assert granted is not None
    run.children[1].fail(granted.attempt, "fatal")
    run.carry()
    assert run.root.execution.status == "failed"
    assert error_of(run.root)["class"] == "child_failed"


def test_the_child_of_a_round_is_cancelled_with_its_parent() -> None:
    run = rounds()
    do(run.children[0], {"done": False, "n": 0})
    run.carry()
    assert run.children[1].claim() is not None
    run.root.cancel()
    run.carry()
    assert run.children[1].execution.status == "cancelled"
    assert run.root.execution.status == "cancelled"
    assert run.root.status("sub") == "cancelled"


def test_a_write_in_any_round_stands() -> None:
    run = family([WRITE], input={"n": 0}, step={"repeat": REPEAT}, then=[READ])
    do(run.children[0], {"done": False, "n": 0})
    run.carry()
    run.children[1].cancel()
    run.carry()
    assert run.root.execution.status == "reconciliation_required"
    assert msgspec.json.decode(run.root.events[-1].data)["standing_writes"] == ["sub"]


def test_the_last_round_s_child_shows_on_the_step() -> None:
    run = family([WRITE], input={"n": 0}, step={"repeat": REPEAT}, child_on_failure="reconcile")
    do(run.children[0], {"done": False, "n": 0})
    run.carry()
    assert run.root.row("sub").child_id == run.children[1].execution.id
    granted = run.children[1].claim()
    assert granted is not None
    run.children[1].fail(granted.attempt, "fatal", "unknown")
    run.carry()
    assert run.root.row("sub").child_blocked_at == run.root.execution.created_at
    run.children[1].resume_with(result("write", "succeeded", {"done": True}))
    run.carry()
    assert run.root.row("sub").child_blocked_at is None
    assert run.root.execution.status == "completed"
