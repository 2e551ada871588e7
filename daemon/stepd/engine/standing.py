"""How a step row and the counters of its execution move together, and which timers they want."""

from __future__ import annotations

from stepd.engine.budgets import BUDGET_EXCEEDED, is_used_up
from stepd.engine.definition import CompiledStep
from stepd.engine.model import ENDING, GOING, IN_FLIGHT, NO_INDEX, STATUS_GRAPH, Attempt, Execution, Parked, Step
from stepd.engine.tally import OPEN, keep_tally, tally_of
from stepd.engine.transitions import What, after
from stepd.engine.verdicts import is_write
from stepd.engine.work import Work

ACTIVE = frozenset({"queued", "leased", "running"})
STANDS = "w"
NONE_STANDS = "."


def set_status(work: Work, row: Step, status: str, mark: str | None = None) -> None:
    """Moves a step row to a status, with its mark in the graph and the execution's count of active rows.

    An item counts in its step's own row, whose status is what its items make of it, as long as it is open.
    """
    execution = work.execution
    execution.active += (status in ACTIVE) - (row.status in ACTIVE)
    execution.uncertain += (status == "uncertain") - (row.status == "uncertain")
    before, row.status = row.status, status
    if row.index == NO_INDEX or is_compensation(work, row.ordinal):
        work.set_mark(row.ordinal, mark or STATUS_GRAPH[status])
    elif is_item(work, row):
        _count(work, row, before)


def is_item(work: Work, row: Step) -> bool:
    """Whether the row is an item or a round of its step."""
    return row.index != NO_INDEX and has_items(work, row.ordinal)


def has_items(work: Work, ordinal: int) -> bool:
    """Whether a step runs once an item or a round."""
    return work.definition.steps[ordinal].has_items


def _count(work: Work, row: Step, before: str) -> None:
    whole = work.change_step(row.ordinal)
    tally = tally_of(whole)
    tally.move(before, row.status)
    keep_tally(whole, tally)
    if whole.status in OPEN and whole.status != tally.status:
        set_status(work, whole, tally.status)


def is_compensation(work: Work, ordinal: int) -> bool:
    """Whether the step undoes another: it runs in the ending, as an ordinary task."""
    return work.definition.steps[ordinal].undoes is not None


def is_ending(work: Work, ordinal: int) -> bool:
    """Whether the ending has begun for this step: nothing of it begins any more. Never so for a compensation."""
    return work.execution.direction is not None and not is_compensation(work, ordinal)


def stands(execution: Execution, compiled: CompiledStep) -> bool:
    """Whether a write of this step succeeded and was not undone.

    Where none has been noted in the row, which may be older than that note, the graph tells.
    """
    if execution.standing:
        return execution.standing[compiled.ordinal] == STANDS
    return execution.graph[compiled.ordinal] == STATUS_GRAPH["succeeded"] and is_write(compiled)


def standing_writes(work: Work) -> list[str]:
    """Ids of the steps whose write succeeded and was not undone, or that had a child with such a write."""
    return [step.id for step in work.definition.steps if stands(work.execution, step)]


def note_standing(work: Work, ordinal: int, stand: bool) -> None:
    """Notes whether a write of this step stands."""
    execution = work.execution
    if not execution.standing:
        noted = [stands(execution, compiled) for compiled in work.definition.steps]
        execution.standing = "".join(STANDS if one else NONE_STANDS for one in noted)
    mark = STANDS if stand else NONE_STANDS
    execution.standing = f"{execution.standing[:ordinal]}{mark}{execution.standing[ordinal + 1 :]}"


def note_success(work: Work, row: Step) -> None:
    """A row's attempt, or an operator, says that its body succeeded: a write stands from now on, to be undone last."""
    compiled = work.definition.steps[row.ordinal]
    is_whole = compiled.has_items and row.index == NO_INDEX
    if is_write(compiled) and compiled.undoes is None and not is_whole:
        row.standing_seq = work.execution.seq + 1
        if not stands(work.execution, compiled):
            note_standing(work, row.ordinal, stand=True)


def note_undone(work: Work, row: Step) -> None:
    """Nothing of this row stands any more."""
    work.change_step(row.ordinal, row.index).standing_seq = None
    if work.latest_success([row.ordinal]) is None:
        note_standing(work, row.ordinal, stand=False)


def parking(work: Work, row: Step) -> int:
    """How a row that becomes claimable or due is parked now."""
    execution = work.execution
    if is_compensation(work, row.ordinal):
        return int(Parked.FREE)
    if execution.status == "paused":
        return int(Parked.PAUSED)
    if execution.status in ENDING or execution.status == "reconciliation_required":
        return int(Parked.HELD)
    return int(Parked.FREE)


def queue(work: Work, row: Step) -> None:
    """Makes a row claimable from now on; its stand in the queue begins anew. Held where the execution is ending."""
    compiled = work.definition.steps[row.ordinal]
    set_status(work, row, "queued")
    row.parked = parking(work, row)
    row.due_at = row.queued_at = work.now
    row.timer_at = None if compiled.queue_timeout_ms is None else work.now + compiled.queue_timeout_ms
    if row.parked == Parked.HELD:
        work.emit("step.held", row.step, row.index)
        return
    work.emit("step.queued", row.step, row.index)
    if row.parked == Parked.FREE:
        work.changes.ready = True


def wait_to_retry(work: Work, row: Step, due_at: int) -> None:
    """Puts a row aside until its next attempt is due."""
    set_status(work, row, "retry_wait")
    row.parked = parking(work, row)
    row.due_at = row.timer_at = due_at
    row.queued_at = None


def settle_row(row: Step) -> None:
    """Takes a row out of queue and timers: it has ended, or awaits an operator."""
    row.parked = int(Parked.FREE)
    row.due_at = row.timer_at = row.queued_at = None


def schedule(attempt: Attempt) -> None:
    """Sets when the sweeper must look at an attempt next."""
    if attempt.status not in IN_FLIGHT:
        attempt.next_at = None
        return
    due = attempt.expires_at if attempt.status == "running" else attempt.reclaim_at
    attempt.next_at = due if attempt.timeout_at is None else min(due, attempt.timeout_at)


def end_attempt(work: Work, attempt: Attempt, row: Step, what: What, by: str) -> None:
    """Ends an attempt. The fence grows when it ends without its holder's word."""
    attempt.status = after(attempt.status, what)
    attempt.ended_at, attempt.ended_by = work.now, by
    schedule(attempt)
    work.execution.flight -= 1
    row.lease_id = None
    if by != "holder":
        row.fence += 1


def set_due(execution: Execution) -> None:
    """Sets when the sweeper must look at the execution itself: its start, or its time-out."""
    if execution.status == "scheduled":
        times = [time for time in (execution.start_at, execution.deadline_at) if time is not None]
        execution.due_at = min(times)
    elif execution.status in GOING or execution.status == "paused":
        execution.due_at = execution.deadline_at
    else:
        execution.due_at = None


def refresh_status(work: Work) -> None:
    """Sets what the steps imply: ``queued`` until the first lease, then ``running`` or ``waiting`` (nothing active).

    What has used up its budget is ``paused`` instead, so that no further lease is handed out.
    """
    execution = work.execution
    if execution.status not in GOING:
        return
    if is_used_up(execution):
        stop(work, BUDGET_EXCEEDED)
        return
    if execution.started_at is None:
        execution.status = "queued"
        return
    status = "running" if execution.active > 0 else "waiting"
    if status == "waiting" and execution.status != "waiting":
        work.emit("execution.waiting")
    execution.status = status


def stop(work: Work, reason: str | None = None) -> None:
    """Pauses the execution; ``reason`` where no operator asked for it."""
    execution = work.execution
    execution.status, execution.pause_reason, execution.paused_at = "paused", reason, work.now
    set_due(execution)
    work.park(Parked.FREE, Parked.PAUSED)
    work.changes.ready = False
    work.emit("execution.paused", data=None if reason is None else {"reason": reason})


def revise(work: Work) -> None:
    """The revision grows by one with each transaction that changes ``state`` or completes."""
    if not work.revised:
        work.revised = True
        work.execution.revision += 1
