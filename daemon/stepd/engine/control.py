"""Cancel, pause and resume."""

from __future__ import annotations

from msgspec import UNSET

from stepd.engine.advance import advance
from stepd.engine.budgets import budget_of, is_used_up, shown, why_used_up
from stepd.engine.commands import Actor, Cancel, Conflict, Done, Pause, Resume
from stepd.engine.definition_budget import Budget
from stepd.engine.ending import begin_ending, force
from stepd.engine.model import ENDED, ENDING, GOING, Audit, Parked
from stepd.engine.standing import refresh_status, set_due, stop
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
    stop(work)
    return Done(execution.status)


def resume(work: Work, command: Resume) -> Done | Conflict:
    """Ends a pause: what became ready or due meanwhile acts now. Nothing to do where there is no pause.

    Refused where it would leave a budget that is used up: the execution would be paused again at once.
    """
    execution = work.execution
    refused = _change_budget(work, command)
    if refused is not None:
        return refused
    audit(work, command.actor, "execution.resume")
    if execution.status != "paused":
        return Done(execution.status)
    scheduled = execution.started_at is None and execution.start_at is not None and execution.start_at > work.now
    execution.status = "scheduled" if scheduled else "queued"
    execution.pause_reason = execution.paused_at = None
    set_due(execution)
    work.park(Parked.PAUSED, Parked.FREE)
    work.changes.ready = True
    work.changes.sweep = work.now
    is_changed = budget_of(execution) != budget_of(work.loaded.execution)
    work.emit("execution.unpaused", data={"budget": shown(budget_of(execution))} if is_changed else None)
    take_kept(work)
    advance(work)
    refresh_status(work)
    return Done(execution.status)


def _change_budget(work: Work, command: Resume) -> Conflict | None:
    """Sets the bounds that are given; says why they, or those that stand, are refused."""
    execution, before = work.execution, budget_of(work.execution)
    budget = Budget(
        before.nano if command.nano is UNSET else command.nano,
        before.tokens if command.tokens is UNSET else command.tokens,
    )
    is_given = command.nano is not UNSET or command.tokens is not UNSET
    if is_given and execution.status in ENDED:
        return Conflict("already_ended", execution.status, execution.id)
    if (is_given or execution.status == "paused") and is_used_up(execution, budget):
        return Conflict("not_pausable", execution.status, execution.id, why_used_up(execution, budget))
    execution.budget_nano, execution.budget_tokens = budget.nano, budget.tokens
    return None


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
