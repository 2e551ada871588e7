"""Compensations: what undoes a write when the execution ends badly, in which order, and what stops it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stepd.engine.model import Attempt
from tests.engine.replay import Replayed
from tests.engine.test_endings import leased, step
from tests.engine.world import World, result


def booking(*more: dict[str, Any], **definition: Any) -> World:
    """Three writes, of which the first and the last can be undone, and a read after them."""
    steps = [
        step("flight", "idempotent_write", compensate="cancel-flight"),
        step("cancel-flight", "idempotent_write"),
        step("car", "idempotent_write"),
        step("hotel", "idempotent_write", compensate="cancel-hotel"),
        step("cancel-hotel", "idempotent_write", **definition.pop("undo", {})),
        step("confirm"),
        *more,
    ]
    return World({"steps": steps, "on_failure": "compensate", **definition}, input={"trip": 7})


def undoable(**undo: Any) -> World:
    """One write that can be undone, and a read after it."""
    steps = [step("book", "idempotent_write", compensate="undo"), step("undo", "idempotent_write", **undo)]
    return World({"steps": [*steps, step("confirm")], "on_failure": "compensate"}, input={"trip": 7})


def failed(world: World, *writes: str) -> World:
    """Completes the writes, each with its name, and fails the read after them."""
    for name in writes:
        world.complete(leased(world, name), {"booked": name})
    world.fail(leased(world, "confirm"), "fatal")
    return world


def given(world: World, attempt: Attempt) -> Any:
    """The input that the lease shows."""
    return msgspec.json.decode(world.payloads[f"in:{attempt.ordinal}:{attempt.index}"])


def test_a_compensation_is_pending_until_called_and_skipped_where_it_was_not() -> None:
    world = undoable()
    assert world.status("undo") == "pending"
    world.complete(leased(world, "book"), 1)
    world.complete(leased(world, "confirm"), 1)
    assert (world.execution.status, world.status("undo")) == ("completed", "skipped")


def test_a_failure_undoes_what_succeeded_and_then_the_execution_has_failed() -> None:
    world = failed(undoable(), "book")
    assert (world.execution.status, world.execution.direction) == ("failing", "compensate")
    assert "step.compensating" in world.types()
    undo = leased(world, "undo")
    assert given(world, undo) == {"input": {"trip": 7}, "output": {"booked": "book"}}
    assert world.heartbeat(undo).cancel is None
    world.complete(undo, "undone")
    assert (world.execution.status, world.status("undo")) == ("failed", "succeeded")
    assert world.types()[-1] == "execution.failed"
    assert msgspec.json.decode(world.events[-1].data)["standing_writes"] == []


def test_a_cancel_undoes_too_and_then_the_execution_is_cancelled() -> None:
    world = undoable()
    world.complete(leased(world, "book"), 1)
    world.cancel()
    assert (world.execution.status, world.execution.direction) == ("cancelling", "compensate")
    world.complete(leased(world, "undo"))
    assert world.execution.status == "cancelled"


def test_the_latest_success_is_undone_first_and_one_at_a_time() -> None:
    branches = [step(name, "idempotent_write", needs=[], compensate=f"undo-{name}") for name in "abc"]
    undoing = [step(f"undo-{name}", "idempotent_write") for name in "abc"]
    last = step("confirm", needs=["a", "b", "c"])
    world = World({"steps": [*branches, *undoing, last], "on_failure": "compensate"})
    for name in "bca":
        world.complete(leased(world, name), name)
    world.fail(leased(world, "confirm"), "fatal")
    for name in "acb":
        assert [one for one in "abc" if world.status(f"undo-{one}") == "queued"] == [name]
        world.complete(leased(world, f"undo-{name}"))
    assert world.execution.status == "failed"


def test_a_write_without_a_compensation_needs_an_operator() -> None:
    world = failed(booking(), "flight", "car", "hotel")
    world.complete(leased(world, "cancel-hotel"))
    assert world.execution.status == "reconciliation_required"
    assert msgspec.json.decode(world.events[-1].data)["standing_writes"] == ["flight", "car"]
    assert world.status("cancel-flight") == "pending"


def test_a_compensation_is_retried_like_any_task() -> None:
    world = failed(undoable(), "book")
    assert world.fail(leased(world, "undo"), "retryable").disposition == "retry_scheduled"
    assert (world.status("undo"), world.execution.status) == ("retry_wait", "failing")
    world.pass_time(2_000)
    leased(world, "undo")
    world.pass_time(45_000)
    assert (world.status("undo"), world.execution.status) == ("queued", "failing")
    assert world.fail(leased(world, "undo"), "interrupted").disposition == "requeued"
    world.complete(leased(world, "undo"))
    assert world.execution.status == "failed"


@pytest.mark.parametrize(
    ("class_", "effect", "status"), [("fatal", "none", "failed"), ("fatal", "unknown", "uncertain")]
)
def test_a_compensation_that_does_not_succeed_needs_an_operator(class_: str, effect: str, status: str) -> None:
    world = failed(undoable(), "book")
    world.fail(leased(world, "undo"), class_, effect)
    assert (world.status("undo"), world.execution.status) == (status, "reconciliation_required")


def test_a_compensation_whose_input_cannot_be_had_needs_an_operator() -> None:
    world = failed(undoable(input={"$cel": "steps.book.output.missing + 1"}), "book")
    assert (world.status("undo"), world.execution.status) == ("failed", "reconciliation_required")


def test_a_compensation_may_name_what_it_undoes() -> None:
    world = failed(undoable(input={"id": {"$cel": "steps.book.output.booked"}}), "book")
    assert given(world, leased(world, "undo")) == {"id": "book"}


def test_a_caught_compensation_has_succeeded() -> None:
    world = failed(undoable(catch=[{"class": "gone", "value": "it was gone"}]), "book")
    assert world.fail(leased(world, "undo"), "gone", "none").disposition == "caught"
    assert world.execution.status == "failed"


def test_a_cancel_lets_compensations_run_on() -> None:
    world = failed(undoable(), "book")
    undo = leased(world, "undo")
    world.cancel()
    assert (world.execution.status, world.execution.direction) == ("cancelling", "compensate")
    assert world.heartbeat(undo).cancel is None
    assert world.fail(undo, "cancelled", "none").disposition == "step_failed", "nobody had asked it to stop"
    assert world.execution.status == "reconciliation_required"


def test_force_makes_a_compensation_in_flight_uncertain() -> None:
    world = failed(undoable(), "book")
    undo = leased(world, "undo")
    world.cancel(force=True)
    assert (world.status("undo"), world.execution.status) == ("uncertain", "reconciliation_required")
    world.complete(undo, "undone after all")
    assert world.attempts[undo.id].stale


def test_an_ending_that_was_forced_before_can_be_forced_again() -> None:
    world = undoable()
    world.complete(leased(world, "book"), 1)
    world.cancel(force=True)
    leased(world, "undo")
    assert world.execution.status == "cancelling"
    world.cancel(force=True)
    assert (world.status("undo"), world.execution.status) == ("uncertain", "reconciliation_required")
    world.resume_with(result("undo", "absent"))
    leased(world, "undo")
    world.cancel(force=True)
    assert world.status("undo") == "uncertain"


def test_force_leaves_a_compensation_that_has_not_begun() -> None:
    world = failed(undoable(delivery="at_most_once"), "book")
    undo = leased(world, "undo", started=False)
    world.cancel(force=True)
    assert (world.status("undo"), world.execution.status) == ("leased", "cancelling")
    world.complete(undo)
    assert world.execution.status == "cancelled"


def test_the_executions_time_out_does_not_bound_compensations() -> None:
    steps = [step("book", "idempotent_write", compensate="undo"), step("undo", "idempotent_write"), step("confirm")]
    world = World({"steps": steps, "on_failure": "compensate", "timeout_seconds": 10})
    world.complete(leased(world, "book"), 1)
    world.pass_time(10_000)
    assert (world.execution.status, world.execution.direction) == ("failing", "compensate")
    world.pass_time(100_000)
    world.complete(leased(world, "undo"))
    assert world.execution.status == "failed"


def test_a_caught_write_is_not_undone() -> None:
    caught = step("book", "idempotent_write", compensate="undo", catch=[{"class": "*", "value": None}])
    world = World({"steps": [caught, step("undo", "idempotent_write"), step("b")], "on_failure": "compensate"})
    world.fail(leased(world, "book"), "fatal", "none")
    world.fail(leased(world, "b"), "fatal")
    assert (world.execution.status, world.status("undo")) == ("failed", "skipped")


def test_a_checkpoint_that_is_not_the_steps_is_not_undone() -> None:
    world = undoable()
    world.complete(leased(world, "book"), 1)
    world.row("book").input_hash = "another"
    world.fail(leased(world, "confirm"), "fatal")
    assert world.execution.status == "reconciliation_required"
    assert b'"checkpoint_mismatch"' in (world.row("undo").error or b"")


def test_what_is_in_doubt_is_settled_before_anything_is_undone() -> None:
    steps = [step("book", "idempotent_write", compensate="undo"), step("undo", "idempotent_write")]
    world = World({"steps": [*steps, step("pay", "non_idempotent_write")], "on_failure": "compensate"})
    world.complete(leased(world, "book"), 1)
    world.fail(leased(world, "pay"), "fatal", "unknown")
    assert (world.execution.status, world.execution.direction) == ("reconciliation_required", "forward")
    assert world.status("undo") == "pending"


def items(**book: Any) -> World:
    """A write for each item of a list, each of which can be undone, and a read after them."""
    each = {"foreach": "input.list", "compensate": "undo", **book}
    undo = {"input": {"item": {"$cel": "item"}, "at": {"$cel": "index"}}}
    steps = [step("book", "idempotent_write", **each), step("undo", "idempotent_write", **undo), step("confirm")]
    return World({"steps": steps, "on_failure": "compensate"}, input={"list": ["a", "b", "c"]})


def undone(world: World) -> list[int]:
    """Undoes all that is to be undone; in which order, by index."""
    order = []
    while world.execution.status == "failing":
        attempt = leased(world, "undo")
        assert given(world, attempt) == {"item": "abc"[attempt.index], "at": attempt.index}
        assert world.steps[(attempt.ordinal, attempt.index)].idempotency_key == f"execution:undo[{attempt.index}]"
        order.append(attempt.index)
        world.complete(attempt)
        told = Replayed(world.events, world.definition.by_id)
        assert told.steps == {name: world.status(name) for name in told.steps}
    return order


def test_each_item_is_undone_the_latest_success_first() -> None:
    world = items()
    attempts = [leased(world, "book") for _ in range(3)]
    for attempt in (attempts[1], attempts[2], attempts[0]):
        world.complete(attempt, attempt.index)
    world.fail(leased(world, "confirm"), "fatal")
    assert undone(world) == [0, 2, 1]
    assert (world.execution.status, world.status("undo")) == ("failed", "succeeded")
    assert msgspec.json.decode(world.events[-1].data)["standing_writes"] == []


def test_of_a_step_that_failed_the_items_that_succeeded_are_undone() -> None:
    world = items(max_parallel=1)
    world.complete(leased(world, "book"), 0)
    world.complete(leased(world, "book"), 1)
    world.fail(leased(world, "book"), "fatal", "none")
    assert undone(world) == [1, 0]
    assert (world.execution.status, world.status("book")) == ("failed", "failed")


@pytest.mark.parametrize("index", [2, -1])
def test_an_item_that_cannot_be_undone_is_told_and_the_others_are_undone(index: int) -> None:
    world = items()
    for _ in range(3):
        world.complete(leased(world, "book"), 1)
    world.fail(leased(world, "confirm"), "fatal")
    world.fail(leased(world, "undo"), "fatal", "unknown")
    assert (world.status("undo"), world.execution.status) == ("uncertain", "reconciliation_required")
    assert world.resume_with(result("undo", "succeeded", index=index)).status == "failing"
    assert undone(world) == [1, 0]
    assert world.execution.status == "failed"


def test_rounds_are_undone_too() -> None:
    rounds = {"repeat": {"until": "index == 2", "max": 5}, "compensate": "undo"}
    steps = [step("book", "idempotent_write", **rounds), step("undo", "idempotent_write"), step("confirm")]
    world = World({"steps": steps, "on_failure": "compensate"}, input={"n": 1})
    for number in range(3):
        world.complete(leased(world, "book"), number)
    world.fail(leased(world, "confirm"), "fatal")
    outputs = []
    while world.execution.status == "failing":
        attempt = leased(world, "undo")
        outputs.append(given(world, attempt))
        world.complete(attempt)
    assert outputs == [{"input": {"n": 1}, "output": number} for number in (2, 1, 0)]
