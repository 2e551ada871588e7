"""What becomes of a step that has items or rounds when one of them fails, and when the execution ends."""

from __future__ import annotations

from stepd.engine.canonical import decode
from stepd.engine.definition import CompiledStep
from stepd.engine.model import DONE_MARKS, Step
from stepd.engine.standing import is_item, set_status
from stepd.engine.tally import OPEN, Tally, keep_tally, tally_of
from stepd.engine.work import Work


def fails_with(work: Work, row: Step) -> None:
    """A row has failed uncaught, or is uncertain: where it is an item, its step is so too, with the item's error."""
    if not is_item(work, row) or row.error is None:
        return
    whole = work.change_step(row.ordinal)
    status = "uncertain" if row.status == "uncertain" else "failed"
    if whole.status in (status, "uncertain"):
        return
    whole.error = row.error
    set_status(work, whole, status)
    work.emit(f"step.{status}", row.step, data={"error": decode(row.error), "item": row.index})


def tell_held(work: Work, compiled: CompiledStep) -> None:
    """The ending holds what has not ended and is not in flight: one event for all items of a step, with its status."""
    tally = _tally(work, compiled)
    held = 0 if tally is None else tally.count("pending", "queued", "retry_wait", "waiting")
    if held or work.mark(compiled.ordinal) in "qwW":
        work.emit("step.held", compiled.id, data={"items": held, "status": work.step_status(compiled.id)})


def cancel_items(work: Work, compiled: CompiledStep) -> int:
    """The execution ends: items that are held become ``cancelled``, and so does a step of theirs that was open."""
    tally = _tally(work, compiled)
    if tally is None:
        return 0
    whole = work.change_step(compiled.ordinal)
    cancelled = tally.cancel_left()
    keep_tally(whole, tally)
    if whole.status in OPEN:
        whole.status = "cancelled"
    return cancelled


def _tally(work: Work, compiled: CompiledStep) -> Tally | None:
    """None where the step has no items, or none yet, or is done with them."""
    mark = work.mark(compiled.ordinal)
    if not compiled.has_items or mark == "p" or mark in DONE_MARKS:
        return None
    row = work.step(compiled.ordinal)
    return None if row is None or row.items is None else tally_of(row)
