"""How executions end badly or are cancelled: what is held, fenced, asked to stop, and what it comes to."""

from __future__ import annotations

from typing import Any

import pytest

from stepd.engine import commands as c
from stepd.engine.model import Attempt
from tests.engine.world import ACTOR, World


def step(name: str, effect: str = "read_only", **more: Any) -> dict[str, Any]:
    return {"id": name, "effect": effect, **more}


def side_by_side(*steps: dict[str, Any], **definition: Any) -> World:
    return World({"steps": [{**one, "needs": one.get("needs", [])} for one in steps], **definition})


def leased(world: World, name: str, *, started: bool = True) -> Attempt:
    granted = world.claim(name)
    assert granted is not None
    if started and granted.attempt.status == "leased":
        world.heartbeat(granted.attempt, started=True)
    return granted.attempt


def test_a_cancel_of_a_queued_execution_ends_it_at_once() -> None:
    world = World({"steps": [step("a"), step("b")]})
    world.cancel()
    assert world.execution.status == "cancelled"
    assert [world.status(name) for name in "ab"] == ["cancelled", "cancelled"]
    assert world.types()[-1] == "execution.cancelled"


def test_a_cancelled_read_is_fenced_at_once() -> None:
    world = World({"steps": [step("a")]})
    attempt = leased(world, "a")
    world.cancel()
    assert world.execution.status == "cancelled"
    answer = world.heartbeat(attempt)
    assert (answer.reason, answer.execution_status) == ("execution_ended", "cancelled")


def test_a_cancelled_write_is_asked_to_stop_and_its_success_is_recorded() -> None:
    world = World({"steps": [step("a", "idempotent_write"), step("b")]})
    attempt = leased(world, "a")
    world.cancel()
    assert world.execution.status == "cancelling"
    assert world.heartbeat(attempt).cancel == "enough"
    told = world.complete(attempt, 1)
    assert told.execution_status == "cancelled"
    assert [world.status(name) for name in "ab"] == ["succeeded", "cancelled"]


@pytest.mark.parametrize(
    ("class_", "effect", "disposition", "status"),
    [
        ("cancelled", "none", "held", "cancelled"),
        ("cancelled", "unknown", "uncertain", "reconciliation_required"),
        ("retryable", "none", "held", "cancelled"),
        ("interrupted", "none", "held", "cancelled"),
        ("retryable", "unknown", "uncertain", "reconciliation_required"),
        ("fatal", "none", "step_failed", "cancelled"),
        ("fatal", "applied", "uncertain", "reconciliation_required"),
    ],
)
def test_how_a_write_that_was_asked_to_stop_ends(class_: str, effect: str, disposition: str, status: str) -> None:
    world = World({"steps": [step("a", "idempotent_write")]})
    attempt = leased(world, "a")
    world.cancel()
    told = world.fail(attempt, class_, effect)
    assert (told.disposition, world.execution.status) == (disposition, status)


def test_an_attempt_that_ended_as_cancelled_is_not_spent() -> None:
    world = World({"steps": [step("a", "idempotent_write")]})
    attempt = leased(world, "a")
    world.cancel()
    world.fail(attempt, "cancelled", "none")
    assert (world.row("a").spent, world.attempts[attempt.id].status) == (0, "cancelled")


def test_cancelled_that_nobody_asked_for_is_fatal() -> None:
    world = World({"steps": [step("a")]})
    told = world.fail(leased(world, "a"), "cancelled")
    assert told.disposition == "step_failed"


def test_a_write_that_lapses_while_it_is_asked_to_stop_is_uncertain() -> None:
    world = World({"steps": [step("a", "idempotent_write")]})
    leased(world, "a")
    world.cancel()
    world.pass_time(46_000)
    assert (world.status("a"), world.execution.status) == ("uncertain", "reconciliation_required")


@pytest.mark.parametrize("how", ["cancelling", "failing"])
def test_force_makes_a_write_in_flight_uncertain_at_once(how: str) -> None:
    world = side_by_side(step("a", "idempotent_write"), step("b"))
    attempt = leased(world, "a")
    if how == "failing":
        world.fail(leased(world, "b"), "fatal")
        assert world.execution.status == "failing"
    world.cancel(force=True)
    assert (world.status("a"), world.execution.status) == ("uncertain", "reconciliation_required")
    assert world.heartbeat(attempt).reason == "lease_lost"
    world.complete(attempt, "it did happen")
    assert world.attempts[attempt.id].stale


def test_a_forced_cancel_leaves_a_lease_that_had_not_started_held() -> None:
    world = World({"steps": [step("a", "non_idempotent_write")]})
    attempt = leased(world, "a", started=False)
    world.cancel(force=True)
    assert (world.status("a"), world.execution.status) == ("cancelled", "cancelled")
    assert world.heartbeat(attempt, started=True).reason == "execution_ended"


def test_a_queued_write_with_a_doubtful_attempt_is_never_cancelled() -> None:
    world = World({"steps": [step("a", "idempotent_write")]})
    world.fail(leased(world, "a"), "retryable")
    world.cancel()
    assert (world.status("a"), world.execution.status) == ("uncertain", "reconciliation_required")


def test_a_failure_fences_reads_and_waits_for_writes() -> None:
    world = side_by_side(step("read"), step("write", "idempotent_write"), step("bad"))
    read, write = leased(world, "read"), leased(world, "write")
    world.fail(leased(world, "bad"), "fatal")
    assert world.execution.status == "failing"
    assert world.execution.direction == "forward"
    assert world.heartbeat(read).reason == "execution_ended"
    assert world.heartbeat(write).cancel
    world.fail(write, "cancelled", "none")
    assert world.execution.status == "failed"
    assert [world.status(name) for name in ("read", "write", "bad")] == ["cancelled", "cancelled", "failed"]


@pytest.mark.parametrize(("on_failure", "status"), [("reconcile", "reconciliation_required"), ("fail", "failed")])
def test_a_failure_after_a_successful_write(on_failure: str, status: str) -> None:
    world = World({"steps": [step("a", "idempotent_write"), step("b")], "on_failure": on_failure})
    world.complete(leased(world, "a"), 1)
    world.fail(leased(world, "b"), "fatal")
    assert world.execution.status == status


def test_a_cancel_after_a_successful_write_ends_as_cancelled() -> None:
    world = World({"steps": [step("a", "idempotent_write"), step("b")]})
    world.complete(leased(world, "a"), 1)
    world.cancel()
    assert world.execution.status == "cancelled"


def test_a_failure_after_a_caught_write_has_nothing_to_reconcile() -> None:
    caught = step("a", "idempotent_write", catch=[{"class": "*", "value": None}])
    world = World({"steps": [caught, step("b")]})
    world.fail(leased(world, "a"), "fatal", "none")
    world.fail(leased(world, "b"), "fatal")
    assert world.execution.status == "failed"


def test_a_cancel_that_comes_while_failing_turns_the_direction() -> None:
    world = side_by_side(step("a", "idempotent_write"), step("b"))
    attempt = leased(world, "a")
    world.fail(leased(world, "b"), "fatal")
    world.cancel()
    assert (world.execution.status, world.execution.direction) == ("cancelling", "cancel")
    world.complete(attempt, 1)
    assert world.execution.status == "cancelled"


def test_a_cancel_in_reconciliation_is_kept_as_a_wish() -> None:
    world = World({"steps": [step("a", "non_idempotent_write")]})
    world.fail(leased(world, "a"), "fatal")
    assert world.execution.status == "reconciliation_required"
    assert world.cancel() == c.Done("reconciliation_required")
    assert (world.execution.direction, world.execution.cancel_requested) == ("cancel", True)


def test_a_second_cancel_of_an_ended_execution_is_refused() -> None:
    world = World({"steps": [step("a")]})
    world.cancel()
    answer = world.cancel()
    assert (answer.code, answer.status) == ("already_ended", "cancelled")


def test_the_time_out_of_the_execution_names_the_last_real_error_as_cause() -> None:
    world = World({"steps": [step("a", retry={"max_attempts": 9, "max_seconds": 1})], "timeout_seconds": 10})
    world.fail(leased(world, "a"), "retryable")
    world.pass_time(10_000)
    assert world.execution.status == "failed"
    assert b'"execution_timeout"' in (world.execution.error or b"")
    assert b'"it failed"' in (world.execution.error or b"")


def test_the_time_out_acts_in_a_pause_and_ends_it() -> None:
    world = World({"steps": [step("a")], "timeout_seconds": 10})
    world.run(c.Pause(ACTOR))
    world.pass_time(10_000)
    assert world.execution.status == "failed"


def test_a_stand_in_the_queue_that_lasts_too_long_fails_the_step() -> None:
    world = World({"steps": [step("a", queue_timeout_seconds=5)]})
    world.pass_time(5_000)
    assert world.execution.status == "failed"
    assert b'"queue_timeout"' in (world.row("a").error or b"")


def test_a_finish_that_cannot_be_written_fails_and_keeps_the_checkpoints() -> None:
    world = World({"steps": [step("a", "idempotent_write")], "output": {"$cel": "steps.a.output.missing + 1"}})
    world.complete(leased(world, "a"), {"there": 1})
    assert b'"finish_invalid"' in (world.execution.error or b"")
    assert (world.status("a"), world.execution.status) == ("succeeded", "reconciliation_required")
    assert "output" not in world.payloads


def test_a_checkpoint_made_for_another_input_stops_the_execution() -> None:
    world = World({"steps": [step("a"), step("b")], "on_failure": "fail"})
    world.complete(leased(world, "a"), 1)
    world.row("a").input_hash = "another"
    world.complete(leased(world, "b"), 1)
    assert world.execution.status == "reconciliation_required"
    assert b'"checkpoint_mismatch"' in (world.execution.error or b"")


@pytest.mark.parametrize(
    ("on_restart", "effect", "started", "status", "execution"),
    [
        ("resume", "read_only", True, "running", "running"),
        ("resume", "non_idempotent_write", False, "queued", "waiting|running"),
        ("resume", "non_idempotent_write", True, "running", "running"),
        ("retry", "read_only", True, "queued", "running"),
        ("retry", "idempotent_write", True, "queued", "running"),
        ("retry", "non_idempotent_write", True, "uncertain", "reconciliation_required"),
        ("retry", "non_idempotent_write", False, "queued", "running"),
        ("fail", "read_only", True, "cancelled", "failed"),
        ("fail", "non_idempotent_write", False, "cancelled", "failed"),
        ("fail", "idempotent_write", True, "uncertain", "reconciliation_required"),
    ],
)
def test_what_a_daemon_that_starts_alone_does(
    on_restart: str, effect: str, started: bool, status: str, execution: str
) -> None:
    world = World({"steps": [step("a", effect)], "on_restart": on_restart})
    leased(world, "a", started=started)
    world.run(c.Recover(1000))
    assert world.status("a") == status
    assert world.execution.status in execution.split("|")
    seq = world.execution.seq
    world.run(c.Recover(1000))
    assert world.execution.seq == seq, "the judgement isn't the same when it is run again"


def test_conditions_that_take_long_are_evaluated_in_several_transactions() -> None:
    costly = "input.map(x, x + 1).size() > 0"
    steps = [step(f"s{number}", needs=[], when=costly) for number in range(100)]
    world = World({"steps": steps}, input=list(range(1000)))
    first = world.types().count("step.queued")
    assert 0 < first < 100
    assert world.execution.due_at == world.now
    world.pass_time(0)
    assert world.types().count("step.queued") == 100
    assert world.execution.due_at is None
