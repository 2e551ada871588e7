"""How an execution ends badly or is cancelled: what is held, fenced, asked to stop, and what it comes to."""

from __future__ import annotations

from typing import Literal

import msgspec

from stepd.engine.children import ask_to_end
from stepd.engine.commands import error_json
from stepd.engine.compensating import undo_next
from stepd.engine.items import cancel_items, fails_with, tell_held
from stepd.engine.model import ENDED, OPEN_MARKS, OUTSIDE, Attempt, Parked, Step
from stepd.engine.standing import end_attempt, set_due, set_status, settle_row, standing_writes
from stepd.engine.verdicts import is_write, worst
from stepd.engine.work import Work

Close = Literal["wait", "compensate", "reconciliation_required", "cancelled", "failed"]


def begin_ending(work: Work, how: Literal["failing", "cancelling"], error: bytes | None) -> None:
    """Begins the ending: nothing new starts, reads are fenced, writes in flight are asked to stop; then concludes."""
    execution = work.execution
    execution.status = how
    execution.pause_reason = execution.paused_at = None
    execution.direction = "forward" if how == "failing" else "cancel"
    if error is not None:
        execution.error = error
    work.emit(f"execution.{how}", data=_why(work))
    ask_to_end(work)
    work.park(Parked.FREE, Parked.HELD)
    work.park(Parked.PAUSED, Parked.HELD)
    work.changes.ready = False
    set_due(execution)
    for row in work.unsettled():
        _stop(work, row)
    if _close(work) not in ENDED:
        _tell_held(work)
    conclude(work)


def force(work: Work) -> None:
    """Makes every write in flight ``uncertain`` at once; then concludes."""
    work.execution.forced = True
    ask_to_end(work)
    for row in work.unsettled():
        _stop(work, row)
    conclude(work)


def conclude(work: Work) -> None:
    """In an ending: when nothing is in flight any more, it needs reconciliation or ends. Does nothing otherwise."""
    if work.execution.direction is None or work.execution.status in ENDED:
        return
    outcome = _outcome(work)
    if outcome == "wait" or work.execution.status == outcome:
        return
    if outcome == "reconciliation_required":
        work.execution.status = outcome
        set_due(work.execution)
        work.emit(
            "execution.reconciliation_required",
            data={"uncertain": _steps(work, "u"), "standing_writes": standing_writes(work)},
        )
        return
    end(work, outcome, {**_why(work), "standing_writes": standing_writes(work)})


def end(work: Work, status: Literal["completed", "cancelled", "failed"], data: dict[str, object]) -> None:
    """The last transaction of an execution: what is open becomes ``cancelled``, and nothing follows this event."""
    execution = work.execution
    _cancel(work)
    for step in work.definition.steps:
        if work.mark(step.ordinal) == OUTSIDE:
            work.set_mark(step.ordinal, "k")
            work.emit("step.skipped", step.id, data={"why": "nothing of what it undoes had to be undone"})
    execution.status, execution.ended_at = status, work.now
    execution.exclusive_key = None
    execution.active = 0
    execution.remove_at = remove_at(work)
    set_due(execution)
    work.changes.ready = False
    work.emit(f"execution.{status}", data=data)


def _cancel(work: Work) -> None:
    """What is open becomes ``cancelled``; of a step with items, one event tells how many of them do."""
    is_any_held = False
    for step in work.definition.steps:
        items, mark = cancel_items(work, step), work.mark(step.ordinal)
        is_any_held |= items > 0 or mark in OPEN_MARKS - {"p"}
        if mark in OPEN_MARKS:
            work.set_mark(step.ordinal, "c")
        if items or mark in OPEN_MARKS:
            work.emit("step.cancelled", step.id, data={"items": items} if items else None)
    if is_any_held:
        work.cancel_held()


def remove_at(work: Work) -> int:
    """When retention takes an execution that is to be kept for its time from now on."""
    retention = work.definition.retention_ms
    return work.now + (work.settings.retention_ms if retention is None else retention)


def hold(work: Work, row: Step, attempt: int | None = None, worker: str | None = None) -> None:
    """Holds a row of an ending execution that has no attempt any more: it keeps its status, or has ``queued``."""
    if row.status in ("leased", "running"):
        set_status(work, row, "queued")
    row.parked = int(Parked.HELD)
    row.due_at = row.timer_at = row.queued_at = None
    ended: dict[str, object] | None = None if attempt is None else {"attempt": "cancelled"}
    work.emit("step.held", row.step, row.index, attempt, worker, ended)


def make_uncertain(work: Work, row: Step, error: bytes, attempt: int | None = None, worker: str | None = None) -> None:
    """Nobody can know whether the write happened: the step waits for an operator, and the ending begins."""
    row.error = error
    set_status(work, row, "uncertain")
    settle_row(row)
    failure = msgspec.json.decode(error)
    work.emit("step.uncertain", row.step, row.index, attempt, worker, {"error": failure, "effect": row.effect})
    fails_with(work, row)
    if work.execution.direction is None:
        message = {"class": failure["class"], "message": failure["message"], "step": row.step, "cause": None}
        begin_ending(work, "failing", msgspec.json.encode(message))


def doubt(row: Step) -> bytes:
    """The error of an open row that an earlier attempt left doubtful."""
    return row.error or error_json("lost", "an earlier attempt may have left something behind")


def _close(work: Work) -> Close:
    """What the ending comes to, by its four rules."""
    execution = work.execution
    if execution.flight > 0 or execution.children > 0:
        return "wait"
    if execution.uncertain > 0 or execution.mismatch:
        return "reconciliation_required"
    if execution.direction == "compensate" or (work.definition.on_failure == "compensate" and standing_writes(work)):
        return "compensate"
    if execution.direction == "forward" and work.definition.on_failure == "reconcile" and standing_writes(work):
        return "reconciliation_required"
    return _bad_end(work)


def _outcome(work: Work) -> Literal["wait", "reconciliation_required", "cancelled", "failed"]:
    """What the ending comes to; where writes are to be undone, sees to it that the next one is."""
    close = _close(work)
    if close != "compensate":
        return close
    work.execution.direction = "compensate"
    match undo_next(work):
        case "under way":
            return "wait"
        case "stuck":
            return "reconciliation_required"
        case "done":
            return _bad_end(work)


def _bad_end(work: Work) -> Literal["cancelled", "failed"]:
    return "cancelled" if work.execution.cancel_requested else "failed"


def _stop(work: Work, row: Step) -> None:
    """What the ending does to a row in flight, or to an open one that may have left something behind."""
    compiled = work.definition.steps[row.ordinal]
    if compiled.undoes is not None:
        _force_compensation(work, row)
        return
    if row.lease_id is None:
        if is_write(compiled) and row.effect != "none":
            make_uncertain(work, row, doubt(row))
        return
    attempt = work.change_attempt(row.lease_id)
    if attempt.status == "leased" or not is_write(compiled):
        ran = attempt.status != "leased"
        end_attempt(work, attempt, row, "forced" if ran and work.execution.forced else "execution_ending", "ending")
        if is_write(compiled) and row.effect != "none":
            set_status(work, row, "queued")
            _stop(work, row)
        else:
            hold(work, row, attempt.number, attempt.worker)
    elif work.execution.forced:
        _force(work, row, attempt)


def _force_compensation(work: Work, row: Step) -> None:
    """A compensation is never asked to stop; only ``force`` gives one up that may be at its write."""
    if row.lease_id is None or not work.execution.forced or not is_write(work.definition.steps[row.ordinal]):
        return
    attempt = work.change_attempt(row.lease_id)
    if attempt.status != "leased":
        _force(work, row, attempt)


def _force(work: Work, row: Step, attempt: Attempt) -> None:
    end_attempt(work, attempt, row, "forced", "daemon")
    attempt.effect = worst(attempt.effect, "unknown")
    row.effect = worst(row.effect, "unknown")
    attempt.error = error_json("lost", "given up while it ran: nobody waits for its outcome any more")
    row.spent += 1
    work.emit("attempt.lost", row.step, row.index, attempt.number, attempt.worker, {"why": "forced"})
    make_uncertain(work, row, attempt.error, attempt.number, attempt.worker)


def _tell_held(work: Work) -> None:
    held = {row.step for row in work.changes.steps.values() if row.parked == Parked.HELD and row.lease_id is None}
    for step in work.definition.steps:
        if step.has_items and work.mark(step.ordinal) != "p":
            tell_held(work, step)
        elif work.mark(step.ordinal) in ("p", "q", "w", "W") and step.id not in held:
            work.emit("step.held", step.id)


def _steps(work: Work, mark: str) -> list[str]:
    return [step.id for step in work.definition.steps if work.mark(step.ordinal) == mark]


def _why(work: Work) -> dict[str, object]:
    execution = work.execution
    error = None if execution.error is None else msgspec.json.decode(execution.error)
    return {"error": error, "reason": execution.cancel_reason}
