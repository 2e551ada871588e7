"""How a step row and the counters of its execution move together, and which timers they want."""

from __future__ import annotations

from stepd.engine.model import ENDING, GOING, IN_FLIGHT, NO_INDEX, STATUS_GRAPH, Attempt, Execution, Parked, Step
from stepd.engine.transitions import What, after
from stepd.engine.work import Work

ACTIVE = frozenset({"queued", "leased", "running"})


def set_status(work: Work, row: Step, status: str, mark: str | None = None) -> None:
    """Moves a step row to a status, with its mark in the graph and the execution's count of active rows."""
    execution = work.execution
    execution.active += (status in ACTIVE) - (row.status in ACTIVE)
    execution.uncertain += (status == "uncertain") - (row.status == "uncertain")
    row.status = status
    if row.index == NO_INDEX:
        work.set_mark(row.ordinal, mark or STATUS_GRAPH[status])


def parking(execution: Execution) -> int:
    """How a row that becomes claimable or due is parked now."""
    if execution.status == "paused":
        return int(Parked.PAUSED)
    if execution.status in ENDING or execution.status == "reconciliation_required":
        return int(Parked.HELD)
    return int(Parked.FREE)


def queue(work: Work, row: Step) -> None:
    """Makes a row claimable from now on; its stand in the queue begins anew. Held where the execution is ending."""
    compiled = work.definition.steps[row.ordinal]
    set_status(work, row, "queued")
    row.parked = parking(work.execution)
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
    row.parked = parking(work.execution)
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
    """Sets what the steps imply: ``queued`` until the first lease, then ``running`` or ``waiting`` (nothing active)."""
    execution = work.execution
    if execution.status not in GOING:
        return
    if execution.started_at is None:
        execution.status = "queued"
        return
    status = "running" if execution.active > 0 else "waiting"
    if status == "waiting" and execution.status != "waiting":
        work.emit("execution.waiting")
    execution.status = status


def revise(work: Work) -> None:
    """The revision grows by one with each transaction that changes ``state`` or completes."""
    if not work.revised:
        work.revised = True
        work.execution.revision += 1
