"""What a failed attempt means for its step: again, back to the queue, failed, caught, uncertain or held."""

from __future__ import annotations

from typing import Literal

import msgspec

from stepd.engine.advance import advance
from stepd.engine.commands import error_json
from stepd.engine.ending import hold, make_uncertain
from stepd.engine.model import Attempt, Step, previous_name, progress_name
from stepd.engine.results import fail_step
from stepd.engine.standing import end_attempt, is_ending, is_item, queue, wait_to_retry
from stepd.engine.tally import OPEN
from stepd.engine.transitions import What
from stepd.engine.verdicts import Row, Verdict, backoff_ms, judge
from stepd.engine.work import Work
from stepd_protocol.times import format_time

Kind = Literal["retryable", "unservable", "interrupted", "cancelled", "fatal", "timeout", "lost"]

_ROWS: dict[Kind, Row] = {
    "retryable": "again",
    "timeout": "again",
    "lost": "again",
    "interrupted": "again",
    "unservable": "unservable",
    "cancelled": "unservable",
    "fatal": "fatal",
}
_UNSPENT = frozenset({"unservable", "interrupted", "cancelled"})
_AT_ONCE = frozenset({"interrupted", "lost"})
"""Kinds whose next attempt waits for nothing."""


class Failure(msgspec.Struct, frozen=True):
    """How an attempt failed, whoever says so. ``wait_ms`` is what the worker asked to wait at least."""

    kind: Kind
    class_: str
    message: str
    details: bytes | None = None
    wait_ms: int = 0
    jitter: int = 1000


class Settlement(msgspec.Struct, frozen=True):
    """What became of the step: the disposition, and when its next attempt is due if one was scheduled."""

    disposition: Literal["retry_scheduled", "requeued", "step_failed", "caught", "uncertain", "held"]
    next_attempt_at: int | None = None


def settle_failure(work: Work, attempt: Attempt, row: Step, failure: Failure, what: What, by: str) -> Settlement:
    """Ends an attempt as failed and settles its step by the failure table; the row's effect is up to date already.

    ``what`` happened to the attempt, ``by`` whom; a worker's failure that goes back to the queue is ``given_back``.
    """
    if failure.kind not in _UNSPENT:
        row.spent += 1
    if failure.kind != "interrupted":
        row.interruptions = 0
    verdict, due_at = _verdict(work, row, failure)
    if by == "holder" and verdict in ("again", "requeue") and failure.kind in ("interrupted", "unservable"):
        what = "given_back"
    end_attempt(work, attempt, row, what, by)
    attempt.error = row.error = error_json(failure.class_, failure.message, failure.details)
    if is_item(work, row):
        _show_on_step(work, row)
    _keep_previous(work, attempt, row)
    _tell(work, attempt, row, failure)
    settlement = _apply(work, attempt, row, verdict, failure, due_at)
    if work.execution.direction is not None or settlement.disposition == "caught":
        advance(work, row.ordinal)
    return settlement


def _show_on_step(work: Work, item: Step) -> None:
    """An open step shows its items' last error. One that has failed keeps that of the item it failed with."""
    whole = work.change_step(item.ordinal)
    if whole.status in OPEN:
        whole.error = item.error


def _verdict(work: Work, row: Step, failure: Failure) -> tuple[Verdict, int]:
    """The cell of the failure table, and when the next attempt would be due."""
    compiled = work.definition.steps[row.ordinal]
    table_row = _ROWS[failure.kind]
    if failure.kind in ("timeout", "lost") and compiled.start_required and row.status == "running":
        table_row = "fatal"
    due_at = work.now
    if table_row == "again" and failure.kind not in _AT_ONCE:
        due_at += max(backoff_ms(compiled, row.spent, failure.jitter), failure.wait_ms)
    if table_row == "again" and (row.spent >= compiled.max_attempts or _too_late(work, due_at)):
        table_row = "exhausted"
    return judge(table_row, compiled, row.effect), due_at


def _too_late(work: Work, due_at: int) -> bool:
    """Whether a retry could not begin before the execution's time-out."""
    execution = work.execution
    return execution.direction is None and execution.deadline_at is not None and due_at >= execution.deadline_at


def _apply(work: Work, attempt: Attempt, row: Step, verdict: Verdict, failure: Failure, due_at: int) -> Settlement:
    error = row.error or b"null"
    told = (attempt.number, attempt.worker)
    ending = is_ending(work, row.ordinal)
    if verdict == "uncertain" or (ending and verdict in ("again", "requeue") and row.effect != "none"):
        make_uncertain(work, row, error, *told)
        return Settlement("uncertain")
    if verdict == "failed":
        caught = fail_step(work, row, error, attempt=attempt.number, worker=attempt.worker) == "caught"
        return Settlement("caught" if caught else "step_failed")
    if ending:
        hold(work, row, *told)
        return Settlement("held")
    if verdict == "requeue" or failure.kind in _AT_ONCE:
        queue(work, row)
        return Settlement("requeued")
    wait_to_retry(work, row, due_at)
    work.emit("step.retry_scheduled", row.step, row.index, *told, {"next_attempt_at": format_time(due_at)})
    return Settlement("retry_scheduled", due_at)


def _tell(work: Work, attempt: Attempt, row: Step, failure: Failure) -> None:
    """The attempt's own event."""
    types = {"requeued": "attempt.requeued", "lost": "attempt.lost"}
    data: dict[str, object] = {
        "class": failure.class_,
        "message": failure.message,
        "effect": attempt.effect,
        "status": attempt.status,
    }
    work.emit(types.get(attempt.status, "attempt.failed"), row.step, row.index, attempt.number, attempt.worker, data)


def _keep_previous(work: Work, attempt: Attempt, row: Step) -> None:
    """What the next attempt is told of this one."""
    progress = work.payload(progress_name(attempt.id)) if attempt.has_progress else None
    told = {
        "attempt": attempt.number,
        "progress": None if progress is None else msgspec.Raw(progress),
        "error": None if attempt.error is None else msgspec.Raw(attempt.error),
    }
    row.has_previous = True
    work.changes.payloads[previous_name(row.ordinal, row.index)] = msgspec.json.encode(told)
