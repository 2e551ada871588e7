"""Leases: how a step is handed to a claim, kept alive, and taken back when nobody got it."""

from __future__ import annotations

from stepd.engine.commands import Alive, Done, GiveBack, Granted, Heartbeat, Lease, NotFound, Refused, Renew
from stepd.engine.ending import conclude, doubt, make_uncertain
from stepd.engine.model import (
    ENDING,
    GOING,
    IN_FLIGHT,
    NO_INDEX,
    Attempt,
    Parked,
    Step,
    input_name,
    output_name,
    previous_name,
)
from stepd.engine.refusals import refuse
from stepd.engine.reports import take_report
from stepd.engine.standing import end_attempt, is_compensation, is_ending, queue, schedule, set_status
from stepd.engine.work import Missing, Need, Work

ANCESTORS_AT_ONCE = 8
"""So many outputs are asked for at first, then twice as many each time."""


def lease(work: Work, command: Lease) -> Granted | None:
    """Leases a queued step; None where it isn't to be had any more. The fence grows."""
    row = work.step(command.ordinal, command.index)
    if row is None or row.status != "queued" or row.parked != Parked.FREE or not _is_run_now(work, row):
        return None
    payloads = _payloads(work, row)
    row = work.change_step(command.ordinal, command.index)
    compiled = work.definition.steps[command.ordinal]
    execution = work.execution
    if execution.started_at is None:
        execution.started_at = work.now
        work.emit("execution.started")
    attempt = _new_attempt(work, command, row)
    schedule(attempt)
    work.changes.attempts[attempt.id] = attempt
    execution.flight += 1
    row.fence, row.last_attempt, row.lease_id = attempt.fence, attempt.number, attempt.id
    row.timer_at = row.queued_at = None
    set_status(work, row, attempt.status)
    work.emit("attempt.leased", row.step, row.index, attempt.number, attempt.worker, {"status": attempt.status})
    return Granted(execution, row, attempt, payloads, compiled.max_attempts)


def renew(work: Work, command: Renew) -> Granted | None:
    """Renews a living lease as by a heartbeat, for a claim that was sent again; None where it isn't alive."""
    attempt = work.attempt(command.attempt_id)
    if attempt is None or attempt.status not in ("leased", "running") or attempt.expires_at <= work.now:
        return None
    row = work.step(attempt.ordinal, attempt.index)
    assert row is not None
    payloads = _payloads(work, row)
    attempt = work.change_attempt(command.attempt_id)
    attempt.named = True
    _prolong(work, attempt)
    return Granted(work.execution, row, attempt, payloads, work.definition.steps[attempt.ordinal].max_attempts)


def give_back(work: Work, command: GiveBack) -> Done:
    """Puts a lease whose answer reached nobody back into the queue, unspent, unless a later call has named it."""
    attempt = work.attempt(command.attempt_id)
    if attempt is not None and not attempt.named and attempt.status in ("leased", "running"):
        attempt = work.change_attempt(command.attempt_id)
        row = work.change_step(attempt.ordinal, attempt.index)
        end_attempt(work, attempt, row, "undelivered", "daemon")
        requeue(work, row, attempt, "undelivered")
        conclude(work)
    return Done(work.execution.status)


def requeue(work: Work, row: Step, attempt: Attempt, why: str) -> None:
    """Puts a row whose attempt ended unspent back into the queue; where the execution is ending it is held.

    A held write that an earlier attempt left doubtful is ``uncertain``.
    """
    work.emit("attempt.requeued", row.step, row.index, attempt.number, attempt.worker, {"why": why})
    if is_ending(work, row.ordinal) and row.effect != "none":
        make_uncertain(work, row, doubt(row), attempt.number, attempt.worker)
    else:
        queue(work, row)


def heartbeat(work: Work, command: Heartbeat) -> Alive | Refused | NotFound:
    """Moves the lease's end to now + its length; ``started`` makes it ``running``. Tells whether to stop."""
    attempt = work.attempt(command.attempt_id)
    if attempt is None or attempt.principal != command.principal:
        return NotFound()
    refused = refuse(work, attempt, command.fence, heartbeat=True)
    if refused is not None:
        if not attempt.named and attempt.status in IN_FLIGHT:
            work.change_attempt(command.attempt_id).named = True
        return refused
    attempt = work.change_attempt(command.attempt_id)
    attempt.named = True
    if command.started:
        _begin(work, attempt)
    _prolong(work, attempt)
    take_report(work, attempt, command.reported)
    return Alive(attempt.expires_at, attempt.lease_ms, asked_to_stop(work, attempt.ordinal))


def asked_to_stop(work: Work, ordinal: int) -> str | None:
    """Why the body of this step, which is in flight, is asked to stop; None while nobody wants it to."""
    execution = work.execution
    if not is_ending(work, ordinal):
        return None
    if execution.cancel_requested:
        return execution.cancel_reason or "the execution is being cancelled"
    return "the execution is failing"


def _is_run_now(work: Work, row: Step) -> bool:
    execution = work.execution
    if is_compensation(work, row.ordinal):
        return execution.direction == "compensate" and execution.status in ENDING
    return execution.status in GOING


def _begin(work: Work, attempt: Attempt) -> None:
    attempt.begun = True
    if attempt.status == "leased":
        attempt.status = "running"
        row = work.change_step(attempt.ordinal, attempt.index)
        set_status(work, row, "running")
        work.emit("attempt.started", row.step, row.index, attempt.number, attempt.worker)


def _prolong(work: Work, attempt: Attempt) -> None:
    attempt.expires_at = work.now + attempt.lease_ms
    attempt.reclaim_at = attempt.expires_at + attempt.reclaim_ms
    schedule(attempt)


def _new_attempt(work: Work, command: Lease, row: Step) -> Attempt:
    compiled = work.definition.steps[command.ordinal]
    lease_ms = work.settings.lease_ms if compiled.lease_ms is None else compiled.lease_ms
    reclaim_ms = work.settings.reclaim_ms if compiled.reclaim_ms is None else compiled.reclaim_ms
    return Attempt(
        id=command.attempt_id,
        execution_id=row.execution_id,
        ordinal=row.ordinal,
        index=row.index,
        number=row.spent + 1,
        fence=row.fence + 1,
        status="leased" if compiled.start_required else "running",
        begun=False,
        named=False,
        principal=command.principal,
        worker=command.worker,
        instance=command.instance,
        lease_ms=lease_ms,
        reclaim_ms=reclaim_ms,
        leased_at=work.now,
        expires_at=work.now + lease_ms,
        reclaim_at=work.now + lease_ms + reclaim_ms,
        timeout_at=None if compiled.timeout_ms is None else work.now + compiled.timeout_ms,
        next_at=None,
        ended_at=None,
        ended_by=None,
        effect="none",
        error=None,
        outcome=None,
        outcome_digest=None,
        answer=None,
        stale=False,
        has_progress=False,
        usage=None,
        usage_given=False,
        span_id=command.span_id,
    )


def _payloads(work: Work, row: Step) -> dict[str, bytes | None]:
    """What the lease shows: input, state, the last attempt, and the ancestors' outputs that fit, nearest first."""
    wanted = ["state", input_name(row.ordinal, row.index) if row.own_input else "input"]
    if row.has_previous:
        wanted.append(previous_name(row.ordinal, row.index))
    compiled = work.definition.steps[row.ordinal]
    outputs = [output_name(ordinal, NO_INDEX) for ordinal in compiled.ancestors if work.mark(ordinal) in ("s", "C")]
    shown = _read(work, wanted + outputs[:ANCESTORS_AT_ONCE], len(wanted))
    room, start, count = work.settings.ancestors_bytes, 0, ANCESTORS_AT_ONCE
    while start < len(outputs):
        for name, raw in _read(work, outputs[start : start + count], count).items():
            room -= len(raw or b"")
            if room < 0:
                return shown
            shown[name] = raw
        start, count = start + count, count * 2
    return shown


def _read(work: Work, names: list[str], keep: int) -> dict[str, bytes | None]:
    """Reads payloads, asking the store for all that lack at once; answers the first ``keep`` of them."""
    missing = [
        Need("payload", name)
        for name in names
        if name not in work.changes.payloads and name not in work.loaded.payloads
    ]
    if missing:
        raise Missing(*missing)
    return {name: work.payload(name) for name in names[:keep]}
