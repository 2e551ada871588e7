"""What time does to an execution: leases lapse and are taken back, attempts and queues time out, retries fall due."""

from __future__ import annotations

from stepd.engine.advance import advance
from stepd.engine.canonical import decode, encode
from stepd.engine.commands import AttemptDue, Done, ExecutionDue, StepDue, error_json
from stepd.engine.ending import begin_ending, make_uncertain
from stepd.engine.failing import Failure, settle_failure
from stepd.engine.kinship import time_out as time_out_child
from stepd.engine.leasing import requeue
from stepd.engine.model import GOING, Attempt, Parked
from stepd.engine.results import fail_step
from stepd.engine.sleeps import wake
from stepd.engine.standing import end_attempt, queue, schedule, set_due
from stepd.engine.transitions import after
from stepd.engine.verdicts import is_write, judge, worst
from stepd.engine.waits import time_out as time_out_wait
from stepd.engine.work import Work
from stepd_protocol.times import format_time


def attempt_due(work: Work, command: AttemptDue) -> Done:
    """Acts on everything that is due for an attempt: orphaned, taken back, timed out. Nothing where nothing is."""
    attempt = work.attempt(command.attempt_id)
    while attempt is not None and attempt.next_at is not None and attempt.next_at <= work.now:
        attempt = work.change_attempt(command.attempt_id)
        if attempt.timeout_at is not None and attempt.timeout_at <= work.now:
            time_out(work, attempt, command.jitter)
        elif attempt.status == "running":
            _orphan(work, attempt)
        else:
            take_back(work, attempt, command.jitter)
    return Done(work.execution.status)


def take_back(work: Work, attempt: Attempt, jitter: int) -> None:
    """Ends a lapsed attempt without its holder's word: unspent if it had not begun, else ``lost``."""
    row = work.change_step(attempt.ordinal, attempt.index)
    if attempt.status == "leased":
        end_attempt(work, attempt, row, "taken_back", "daemon")
        requeue(work, row, attempt, "lapsed")
        return
    attempt.effect = "unknown" if is_write(work.definition.steps[attempt.ordinal]) else "none"
    row.effect = worst(row.effect, attempt.effect)
    failure = Failure("lost", "lost", "its worker was not heard of in time, and the step was taken back", jitter=jitter)
    settle_failure(work, attempt, row, failure, "taken_back", "daemon")


def time_out(work: Work, attempt: Attempt, jitter: int) -> None:
    """Ends an attempt that ran past its ``timeout_seconds``; one that had not begun left nothing behind."""
    row = work.change_step(attempt.ordinal, attempt.index)
    if attempt.status != "leased" and is_write(work.definition.steps[attempt.ordinal]):
        attempt.effect = "unknown"
        row.effect = worst(row.effect, "unknown")
    failure = Failure("timeout", "timeout", "the attempt ran past its timeout_seconds", jitter=jitter)
    settle_failure(work, attempt, row, failure, "timed_out", "daemon")


def step_due(work: Work, command: StepDue) -> Done:
    """Queues a step whose retry is due; ends a sleep, and a wait or stand in the queue that was too long."""
    row = work.step(command.ordinal, command.index)
    if row is None or row.timer_at is None or row.timer_at > work.now or row.parked != Parked.FREE:
        return Done(work.execution.status)
    row = work.change_step(command.ordinal, command.index)
    if row.status == "retry_wait":
        due_at = row.due_at
        queue(work, row)
        row.due_at = due_at
    elif row.child_open:
        time_out_child(work, row)
    elif row.status == "queued":
        error = error_json("queue_timeout", "no worker claimed the step within its queue_timeout_seconds")
        if judge("fatal", work.definition.steps[row.ordinal], row.effect) == "uncertain":
            make_uncertain(work, row, error)
        else:
            fail_step(work, row, error)
        advance(work, row.ordinal)
    elif row.status == "waiting":
        if work.definition.steps[row.ordinal].kind == "sleep":
            wake(work, row)
        else:
            time_out_wait(work, row)
        advance(work, row.ordinal)
    return Done(work.execution.status)


def execution_due(work: Work, _command: ExecutionDue) -> Done:
    """Starts an execution whose ``start_at`` has come, or goes on with one whose steps were not all evaluated yet;
    begins the ending of one whose time is over.
    """
    execution = work.execution
    if execution.due_at is None or execution.due_at > work.now:
        return Done(execution.status)
    if execution.status == "scheduled" and execution.start_at is not None and execution.start_at <= work.now:
        execution.status = "queued"
        work.emit("timer.fired", data={"start_at": format_time(execution.start_at)})
    if execution.status in GOING:
        set_due(execution)
        advance(work)
    if execution.deadline_at is None or execution.deadline_at > work.now:
        return Done(execution.status)
    if execution.status in GOING or execution.status == "paused":
        message = "the execution did not end within its timeout_seconds"
        error = {"class": "execution_timeout", "message": message, "step": None, "cause": _last_error(work)}
        begin_ending(work, "failing", encode(error))
    return Done(execution.status)


def _orphan(work: Work, attempt: Attempt) -> None:
    attempt.status = after(attempt.status, "lapsed")
    schedule(attempt)
    row = work.step(attempt.ordinal, attempt.index)
    work.emit("attempt.orphaned", None if row is None else row.step, attempt.index, attempt.number, attempt.worker)


def _last_error(work: Work) -> object:
    """The last real error of a step that is still being tried."""
    errors = [row.error for row in work.own_rows() if row.error is not None]
    return decode(errors[-1]) if errors else None
