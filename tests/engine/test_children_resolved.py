"""Children that need an operator, and parents that do because of theirs."""

from __future__ import annotations

import msgspec

from stepd.engine.resolutions import Resolved, Unresolvable
from tests.engine.family import Family
from tests.engine.parents import READ, WRITE, do, doubtful, error_of, family
from tests.engine.world import result


def test_a_child_in_reconciliation_shows_on_its_parent() -> None:
    run = doubtful()
    assert run.child.execution.status == "reconciliation_required"
    assert run.root.status("sub") == "waiting"
    assert run.root.row("sub").child_blocked_at == run.child.now
    assert run.root.execution.blocked_child == run.child.execution.id
    run.check()


def test_an_ending_parent_waits_for_a_child_in_reconciliation() -> None:
    run = doubtful()
    run.root.cancel()
    run.carry()
    assert run.root.execution.status == "cancelling"
    assert run.root.execution.blocked_child == run.child.execution.id
    assert run.child.execution.direction == "cancel"


def failed_above_a_write() -> Family:
    """A parent in reconciliation because a child failed after a write."""
    run = family([WRITE, {**READ, "id": "after"}])
    do(run.child)
    granted = run.child.claim()
    assert granted is not None
    run.child.fail(granted.attempt, "fatal")
    run.carry()
    assert run.root.execution.status == "reconciliation_required"
    return run


def test_a_step_above_a_write_must_be_named_to_go_on() -> None:
    run = failed_above_a_write()
    refused = run.root.resume_with()
    assert isinstance(refused, Unresolvable)
    assert "a write of its child stands" in refused.faults[0][1]
    assert isinstance(run.root.resume_with(result("sub", "succeeded", 5)), Resolved)
    assert run.root.execution.status == "completed"
    assert run.root.payloads["output"] == b"5"


def test_one_told_absent_gets_another_child() -> None:
    run = failed_above_a_write()
    assert isinstance(run.root.resume_with(result("sub", "absent")), Resolved)
    run.carry()
    first, second = (world.execution for world in run.children)
    assert first.id != second.id
    assert run.root.row("sub").child_id == second.id
    run.check()


def test_a_step_whose_child_was_cancelled_with_it_gets_another_one() -> None:
    run = family([READ], then=[{**WRITE, "needs": []}])
    granted = run.root.claim()
    assert granted is not None
    run.root.fail(granted.attempt, "fatal", "unknown")
    run.carry()
    assert run.child.execution.status == "cancelled"
    assert run.root.execution.status == "reconciliation_required"
    assert isinstance(run.root.resume_with(result("write", "succeeded", 1)), Resolved)
    run.carry()
    do(run.children[1], 8)
    run.carry()
    assert run.root.execution.status == "completed"
    assert run.root.payloads["output"] == b"8"


def test_a_child_that_is_resolved_gives_its_parent_the_rest() -> None:
    run = doubtful()
    run.child.resume_with(result("write", "succeeded", 3))
    run.carry()
    assert run.root.execution.status == "completed"
    assert run.root.execution.blocked_child is None


def test_a_child_that_goes_on_blocks_its_parent_no_more() -> None:
    run = doubtful()
    run.child.resume_with(result("write", "absent"))
    run.carry()
    assert run.root.execution.blocked_child is None
    assert run.root.row("sub").child_blocked_at is None
    assert run.root.status("sub") == "waiting"


def test_what_was_accepted_below_stands_above() -> None:
    run = doubtful()
    run.child.close("accepted")
    run.carry()
    assert error_of(run.root)["class"] == "child_failed"
    assert run.root.execution.status == "reconciliation_required"
    assert msgspec.json.decode(run.root.events[-1].data)["standing_writes"] == ["sub"]


def test_nothing_is_undone_of_a_child_that_is_told_absent() -> None:
    run = family(
        [WRITE, {**READ, "id": "after"}],
        step={"compensate": "undo"},
        then=[{**WRITE, "id": "undo"}],
        on_failure="compensate",
    )
    do(run.child)
    granted = run.child.claim()
    assert granted is not None
    run.child.fail(granted.attempt, "fatal")
    run.carry()
    undoing = run.root.claim()
    assert undoing is not None
    run.root.fail(undoing.attempt, "fatal", "none")
    assert run.root.execution.status == "reconciliation_required"
    answer = run.root.resume_with(result("sub", "absent"))
    assert isinstance(answer, Resolved)
    assert (answer.status, answer.standing_writes) == ("failed", ())
    assert run.root.claim() is None
