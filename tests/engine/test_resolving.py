"""Resolving what needs reconciliation: what an operator may say, and what becomes of the execution."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stepd.engine.model import Attempt
from stepd.engine.resolutions import Resolved, Result, Unresolvable
from tests.engine.test_compensations import booking, failed, undoable
from tests.engine.test_endings import leased, side_by_side, step
from tests.engine.world import World, result


def doubtful(**more: Any) -> World:
    """A read, then a write of which nobody knows whether it happened, then another read."""
    pay = step("pay", "non_idempotent_write", **more)
    world = World({"steps": [step("ask"), pay, step("tell")]})
    world.complete(leased(world, "ask"), "yes")
    world.fail(leased(world, "pay"), "fatal", "unknown")
    assert world.execution.status == "reconciliation_required"
    return world


def reported(effect: str = "non_idempotent_write", **more: Any) -> tuple[World, Attempt]:
    """A write that was given up while it ran; its worker is still there."""
    world = World({"steps": [step("pay", effect, **more), step("tell")]})
    attempt = leased(world, "pay")
    world.pass_time(45_000)
    if world.execution.status != "reconciliation_required":
        world.cancel(force=True)
    return world, attempt


def codes(answer: Any) -> dict[str, str]:
    assert isinstance(answer, Unresolvable), answer
    return dict(answer.faults)


# -- resume ---------------------------------------------------------------------------------------------------------


def test_succeeded_is_the_steps_checkpoint_and_the_graph_goes_on() -> None:
    world = doubtful()
    fence = world.row("pay").fence
    answer = world.resume_with(result("pay", "succeeded", {"id": 7}, state={"paid": True}))
    assert isinstance(answer, Resolved)
    assert (answer.status, answer.direction, answer.standing_writes) == ("running", "forward", ("pay",))
    assert (world.status("pay"), world.status("tell")) == ("succeeded", "queued")
    assert world.row("pay").fence == fence + 1
    assert world.payloads["out:1:-1"] == b'{"id":7}'
    assert msgspec.json.decode(world.payloads["state"]) == {"paid": True}
    assert world.execution.revision == 2
    world.complete(leased(world, "tell"))
    assert world.execution.status == "completed"
    assert world.types().count("attempt.leased") == 3


def test_absent_queues_the_step_again_with_its_input_and_a_fresh_budget() -> None:
    world = doubtful(retry={"max_attempts": 1})
    world.resume_with(result("pay", "absent"))
    row = world.row("pay")
    assert (row.status, row.effect, row.spent) == ("queued", "none", 0)
    before = world.payloads["in:1:-1"] if row.own_input else None
    attempt = leased(world, "pay")
    assert (attempt.number, attempt.fence) == (1, row.fence + 1)
    assert (world.payloads.get("in:1:-1"), world.execution.error) == (before, None)
    world.complete(attempt)
    world.complete(leased(world, "tell"))
    assert world.execution.status == "completed"


def test_a_failed_step_that_is_not_named_is_queued_again_and_held_ones_are_released() -> None:
    world = side_by_side(step("a", "idempotent_write"), step("b"), step("c"), step("d"))
    world.complete(leased(world, "a"))
    read = leased(world, "c")
    world.fail(leased(world, "b"), "fatal")
    assert world.execution.status == "reconciliation_required"
    world.resume_with()
    assert [world.status(name) for name in "abcd"] == ["succeeded", "queued", "queued", "queued"]
    assert world.heartbeat(read).reason == "execution_ended"
    for name in "bcd":
        world.complete(leased(world, name))
    assert world.execution.status == "completed"


def test_a_step_that_failed_before_it_had_an_input_is_evaluated_anew_on_the_state_as_it_is_now() -> None:
    steps = [
        step("write", "non_idempotent_write", needs=[]),
        step("pay", "non_idempotent_write", needs=["write"]),
        step("count", needs=["write"], input={"n": {"$cel": "state.n + 1"}}),
    ]
    world = World({"steps": steps})
    write = leased(world, "write")
    world.complete(write)
    assert (world.status("count"), world.execution.status) == ("failed", "reconciliation_required")
    world.resume_with()
    assert world.execution.status == "reconciliation_required", "the state is as it was"
    pay = world.resume_with(result("count", "succeeded", 1, state={"n": 1}))
    assert pay.status == "running"
    world.fail(leased(world, "pay"), "fatal", "unknown")
    world.resume_with(result("pay", "absent"))
    assert world.status("pay") == "queued"


def test_the_executions_time_out_counts_anew() -> None:
    steps = [step("a", "idempotent_write"), step("b")]
    world = World({"steps": steps, "timeout_seconds": 10})
    world.complete(leased(world, "a"))
    world.pass_time(10_000)
    assert world.execution.status == "reconciliation_required"
    world.pass_time(60_000)
    world.resume_with()
    assert world.execution.deadline_at == world.now + 10_000
    world.pass_time(9_000)
    world.complete(leased(world, "b"))
    assert world.execution.status == "completed"


def test_a_retry_that_was_held_keeps_its_time() -> None:
    world = side_by_side(step("a", retry={"initial_seconds": 5}), step("b", "non_idempotent_write"))
    due_at = world.fail(leased(world, "a"), "retryable").next_attempt_at
    world.fail(leased(world, "b"), "fatal")
    world.pass_time(1_000)
    world.resume_with(result("b", "succeeded"))
    assert (world.status("a"), world.row("a").due_at) == ("retry_wait", due_at)
    world.pass_time(4_000)
    assert world.status("a") == "queued"


def test_the_checkpoint_that_stands_may_be_named_again_and_does_nothing() -> None:
    world = doubtful()
    world.resume_with(result("ask", "succeeded", "yes"), result("pay", "succeeded"))
    assert (world.status("ask"), world.row("ask").fence) == ("succeeded", 1)


@pytest.mark.parametrize(
    ("results", "place"),
    [
        ([], "/results"),
        ([result("ask", "succeeded", "no"), result("pay", "absent")], "/results/0/outcome"),
        ([result("ask", "absent"), result("pay", "absent")], "/results/0/outcome"),
        ([result("nope", "absent"), result("pay", "absent")], "/results/0/step"),
        ([result("pay", "absent"), result("pay", "absent")], "/results/1/step"),
        ([result("pay", "absent"), result("pay", "succeeded")], "/results/1/step"),
        ([result("pay", "absent"), result("tell", "absent")], "/results/1/step"),
        ([result("pay", "absent", index=0)], "/results/0/step"),
        ([result("pay", "as_reported")], "/results/0/outcome"),
        ([Result("pay", -1, "absent", b"1")], "/results/0/outcome"),
    ],
)
def test_what_cannot_be_said_is_refused_and_changes_nothing(results: list[Result], place: str) -> None:
    world = doubtful()
    seq, row = world.execution.seq, world.row("pay")
    assert place in codes(world.resume_with(*results))
    assert (world.execution.seq, world.row("pay"), world.ledger) == (seq, row, {})


def test_an_output_that_does_not_fit_is_refused() -> None:
    world = doubtful(output_schema={"type": "object"})
    answer = world.resume_with(result("pay", "succeeded", 7))
    assert list(codes(answer)) == ["/results/0/output"]
    assert answer.only_outputs


def test_an_output_cannot_be_made_up_where_the_step_says_so() -> None:
    world = doubtful(manual_result="refused")
    assert "manual_result" in codes(world.resume_with(result("pay", "succeeded")))["/results/0/outcome"]
    assert isinstance(world.resume_with(result("pay", "absent")), Resolved)


def test_an_effect_that_is_not_the_definitions_stops_a_resolution() -> None:
    world = doubtful()
    world.row("pay").declared_effect = "idempotent_write"
    answer = world.resume_with(result("pay", "absent"))
    assert (answer.code, answer.status) == ("not_resolvable", "reconciliation_required")


def test_an_expected_revision_must_be_the_executions() -> None:
    world = doubtful()
    assert world.resume_with(result("pay", "absent"), expected_revision=2).code == "not_resolvable"
    assert isinstance(world.resume_with(result("pay", "absent"), expected_revision=1), Resolved)


@pytest.mark.parametrize("class_", ["finish_invalid", "checkpoint_mismatch"])
def test_what_would_only_fail_again_cannot_be_resumed(class_: str) -> None:
    definition: dict[str, Any] = {"steps": [step("a", "idempotent_write"), step("b")]}
    if class_ == "finish_invalid":
        definition["output"] = {"$cel": "steps.a.output.missing + 1"}
    world = World(definition)
    world.complete(leased(world, "a"), {"there": 1})
    if class_ == "checkpoint_mismatch":
        world.row("a").input_hash = "another"
    world.complete(leased(world, "b"))
    assert world.resume_with().code == "not_resolvable"
    assert world.close().status == "failed"


# -- as reported -----------------------------------------------------------------------------------------------------


def test_a_late_complete_is_adopted_with_its_state() -> None:
    world, attempt = reported()
    world.complete(attempt, {"id": 7}, {"paid": 1})
    assert "paid" not in msgspec.json.decode(world.payloads["state"])
    world.resume_with(result("pay", "as_reported"))
    assert (world.status("pay"), world.payloads["out:0:-1"]) == ("succeeded", b'{"id":7}')
    assert msgspec.json.decode(world.payloads["state"]) == {"paid": 1}
    world.complete(leased(world, "tell"))
    assert world.execution.status == "completed"


@pytest.mark.parametrize(
    ("class_", "effect", "status", "execution"),
    [
        ("retryable", "none", "queued", "running"),
        ("interrupted", "none", "queued", "running"),
        ("fatal", "none", "failed", "failed"),
        ("fatal", "absent", "failed", "failed"),
        ("retryable", "absent", "queued", "running"),
    ],
)
def test_a_late_fail_is_judged_as_if_it_had_come_in_time(class_: str, effect: str, status: str, execution: str) -> None:
    world, attempt = reported()
    world.fail(attempt, class_, effect)
    answer = world.resume_with(result("pay", "as_reported"))
    assert (world.status("pay"), world.execution.status, answer.status) == (status, execution, execution)


@pytest.mark.parametrize(("class_", "effect"), [("retryable", "unknown"), ("fatal", None), ("fatal", "applied")])
def test_a_late_fail_that_leaves_doubt_is_refused(class_: str, effect: str | None) -> None:
    world, attempt = reported()
    world.fail(attempt, class_, effect)
    assert "/results/0/outcome" in codes(world.resume_with(result("pay", "as_reported")))


def test_a_late_failure_may_be_caught() -> None:
    world, attempt = reported(catch=[{"class": "declined", "value": "no"}])
    world.fail(attempt, "declined", "none")
    world.resume_with(result("pay", "as_reported"))
    assert (world.status("pay"), world.status("tell")) == ("succeeded", "queued")


def test_a_late_complete_counts_before_a_late_fail() -> None:
    world = World({"steps": [step("pay", "idempotent_write", retry={"max_attempts": 2}), step("tell")]})
    first = leased(world, "pay")
    world.pass_time(45_000)
    second = leased(world, "pay")
    world.pass_time(45_000)
    assert world.status("pay") == "uncertain"
    world.complete(first, "by the first")
    world.fail(second, "fatal", "none")
    world.resume_with(result("pay", "as_reported"))
    assert world.payloads["out:0:-1"] == b'"by the first"'


def test_other_attempts_of_the_step_still_count_when_one_is_adopted() -> None:
    world = World({"steps": [step("pay", "idempotent_write", retry={"max_attempts": 2}), step("tell")]})
    leased(world, "pay")
    world.pass_time(45_000)
    second = leased(world, "pay")
    world.pass_time(45_000)
    world.fail(second, "fatal", "none")
    assert "/results/0/outcome" in codes(world.resume_with(result("pay", "as_reported")))


# -- directions ------------------------------------------------------------------------------------------------------


def test_after_a_cancel_the_told_steps_are_settled_and_nothing_runs_any_more() -> None:
    world = doubtful()
    world.cancel()
    answer = world.resume_with(result("pay", "succeeded", 1))
    assert (answer.status, answer.direction, answer.standing_writes) == ("cancelled", "cancel", ("pay",))
    assert (world.status("pay"), world.status("tell")) == ("succeeded", "cancelled")


def test_after_a_cancel_what_is_absent_is_cancelled_with_the_execution() -> None:
    world = doubtful()
    world.cancel()
    world.resume_with(result("pay", "absent"))
    assert (world.status("pay"), world.execution.status) == ("cancelled", "cancelled")


def test_after_a_cancel_what_succeeded_is_undone() -> None:
    world = undoable()
    world.fail(leased(world, "book"), "fatal", "unknown")
    world.cancel()
    answer = world.resume_with(result("book", "succeeded", "booked"))
    assert (answer.status, answer.direction) == ("cancelling", "compensate")
    world.complete(leased(world, "undo"))
    assert (world.execution.status, world.status("undo")) == ("cancelled", "succeeded")


def test_a_mismatch_after_a_cancel_can_be_resumed_to_its_end() -> None:
    world = side_by_side(step("a", "idempotent_write"), step("b"), step("c", needs=["b"], when="steps.b.output == 1"))
    attempt = leased(world, "a")
    world.complete(leased(world, "b"), 1)
    world.complete(attempt)
    world.row("b").input_hash = "another"
    world.complete(leased(world, "c"))
    assert world.execution.status == "reconciliation_required"
    world.cancel()
    assert world.resume_with().status == "cancelled"


def test_compensations_go_on_with_those_that_are_left() -> None:
    world = failed(booking(), "flight", "car", "hotel")
    world.fail(leased(world, "cancel-hotel"), "fatal", "unknown")
    assert world.execution.status == "reconciliation_required"
    answer = world.resume_with(result("cancel-hotel", "succeeded"))
    assert (answer.status, answer.standing_writes) == ("reconciliation_required", ("flight", "car"))
    assert world.resume_with().status == "failing", "a write without a compensation is left standing"
    world.complete(leased(world, "cancel-flight"))
    assert (world.execution.status, msgspec.json.decode(world.events[-1].data)["standing_writes"]) == (
        "failed",
        ["car"],
    )


@pytest.mark.parametrize("outcome", ["absent", "unnamed"])
def test_a_compensation_is_queued_again(outcome: str) -> None:
    world = failed(undoable(), "book")
    world.fail(leased(world, "undo"), "fatal", "unknown" if outcome == "absent" else "none")
    world.resume_with(*([result("undo", "absent")] if outcome == "absent" else []))
    assert (world.status("undo"), world.execution.status) == ("queued", "failing")
    world.complete(leased(world, "undo"))
    assert world.execution.status == "failed"


def test_a_compensation_without_an_input_is_called_anew() -> None:
    world = failed(undoable(input={"$cel": "state.n + 1"}), "book")
    assert (world.status("undo"), world.execution.status) == ("failed", "reconciliation_required")
    assert world.resume_with().status == "reconciliation_required"
    assert world.types().count("step.compensating") == 2
    assert world.resume_with(result("undo", "succeeded")).status == "failed"


def test_a_cancel_while_compensations_run_ends_as_cancelled() -> None:
    world = failed(undoable(), "book")
    world.fail(leased(world, "undo"), "fatal", "none")
    world.cancel()
    assert (world.execution.direction, world.resume_with().status) == ("compensate", "cancelling")
    world.complete(leased(world, "undo"))
    assert world.execution.status == "cancelled"
