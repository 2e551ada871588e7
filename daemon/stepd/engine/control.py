"""Cancel, pause and resume."""

from __future__ import annotations

from stepd.engine.advance import advance
from stepd.engine.commands import Actor, Cancel, Conflict, Done, Pause, Resume
from stepd.engine.ending import begin_ending, force
from stepd.engine.model import ENDED, ENDING, GOING, Audit, Parked
from stepd.engine.standing import refresh_status, set_due
from stepd.engine.waits import take_kept
from stepd.engine.work import Work


def cancel(work: Work, command: Cancel) -> Done | Conflict:
    """The execution shall end: from now on its direction is ``cancel``, unless compensations run."""
    execution = work.execution
    if execution.status in ENDED:
        return Conflict("already_ended", execution.status, execution.id)
    if command.actor is not None:
        audit(work, command.actor, "execution.cancel")
    # A compensation may have begun since the ending was forced: each time it is asked for anew, it is meant.
    was_forced = execution.forced and execution.direction != "compensate"
    newly_forced = command.force and not was_forced and execution.status != "reconciliation_required"
    if not execution.cancel_requested or newly_forced:
        execution.cancel_requested = True
        execution.cancel_reason = execution.cancel_reason or command.reason
        work.emit("execution.cancel_requested", data={"reason": command.reason, "force": command.force})
    if execution.direction is None:
        execution.forced = command.force
        begin_ending(work, "cancelling", None)
        return Done(execution.status)
    if execution.direction != "compensate":
        execution.direction = "cancel"
    if execution.status == "failing":
        execution.status = "cancelling"
        work.emit("execution.cancelling", data={"reason": execution.cancel_reason})
    if newly_forced and execution.status in ENDING:
        force(work)
    return Done(execution.status)


def pause(work: Work, command: Pause) -> Done | Conflict:
    """Nothing more is handed out, armed or evaluated; what was handed out may go on."""
    execution = work.execution
    if execution.status == "paused":
        audit(work, command.actor, "execution.pause")
        return Done(execution.status)
    if execution.status not in GOING and execution.status != "scheduled":
        return Conflict("not_pausable", execution.status, execution.id)
    audit(work, command.actor, "execution.pause")
    execution.status = "paused"
    set_due(execution)
    work.park(Parked.FREE, Parked.PAUSED)
    work.emit("execution.paused")
    return Done(execution.status)


def resume(work: Work, command: Resume) -> Done:
    """Ends a pause: what became ready or due meanwhile acts now. Nothing to do where there is no pause."""
    execution = work.execution
    audit(work, command.actor, "execution.resume")
    if execution.status != "paused":
        return Done(execution.status)
    scheduled = execution.started_at is None and execution.start_at is not None and execution.start_at > work.now
    execution.status = "scheduled" if scheduled else "queued"
    set_due(execution)
    work.park(Parked.PAUSED, Parked.FREE)
    work.changes.ready = True
    work.changes.sweep = work.now
    work.emit("execution.unpaused")
    take_kept(work)
    advance(work)
    refresh_status(work)
    return Done(execution.status)


def audit(work: Work, actor: Actor, action: str) -> None:
    """The audit row of a change, written with it."""
    work.changes.audit.append(
        Audit(
            at=work.now,
            principal=actor.principal,
            key_id=actor.key_id,
            action=action,
            object=work.execution.id,
            tenant=work.execution.tenant,
            remote=actor.remote,
            outcome="done",
        )
    )
