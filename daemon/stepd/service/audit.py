"""Rows for the audit log that belong to no change: reads of one execution's content, and refused attempts."""

from __future__ import annotations

from stepd.engine.commands import Actor
from stepd.engine.model import Audit
from stepd.service.base import Caller, Daemon
from stepd.store.base import Scope
from stepd.store.records import AUDIT_DONE
from stepd_protocol.problems import Problem

REFUSALS = frozenset({403, 409})
"""Statuses of refused attempts that are kept."""


def actor_of(caller: Caller) -> Actor:
    """The caller, for the audit row that the engine writes with a change."""
    return Actor(caller.principal, caller.key_id, caller.remote)


def row_of(
    caller: Caller, now_ms: int, action: str, object_: str, tenant: str | None, outcome: str = AUDIT_DONE
) -> Audit:
    """One audit row; ``now_ms`` is the store's time."""
    return Audit(
        at=now_ms,
        principal=caller.principal,
        key_id=caller.key_id,
        action=action,
        object=object_,
        tenant=tenant,
        remote=caller.remote,
        outcome=outcome,
    )


async def note_read(daemon: Daemon, caller: Caller, execution_id: str, tenant: str | None) -> None:
    """Writes down a read of one execution's content, before it is answered. Raises StoreUnavailable."""
    now = await daemon.store.now()
    if not daemon.reads.is_new(caller.principal, execution_id, now):
        return
    try:
        await daemon.store.audit([row_of(caller, now, "execution.read", execution_id, tenant)])
    except BaseException:
        daemon.reads.forget(caller.principal, execution_id)
        raise


async def note_stream(daemon: Daemon, caller: Caller, execution_id: str, tenant: str | None) -> None:
    """Writes down that a stream of one execution's events is opened. Raises StoreUnavailable."""
    now = await daemon.store.now()
    await daemon.store.audit([row_of(caller, now, "execution.stream", execution_id, tenant)])


async def note_refusal(
    daemon: Daemon, caller: Caller, action: str, object_: str, tenant: str | None, problem: Problem
) -> Problem:
    """Writes down a refused attempt to change something, and passes its problem on. Raises StoreUnavailable."""
    if problem.status in REFUSALS:
        now = await daemon.store.now()
        await daemon.store.audit([row_of(caller, now, action, object_, tenant, f"refused: {problem.code}")])
    return problem


async def note_refused_change(
    daemon: Daemon, caller: Caller, action: str, execution_id: str, problem: Problem
) -> Problem:
    """As ``note_refusal``, of a change to one execution: with its tenant, which is looked up only for a row."""
    if problem.status not in REFUSALS:
        return problem
    standing = await daemon.store.standing(execution_id, Scope(caller.tenants))
    tenant = None if standing is None else standing.tenant
    return await note_refusal(daemon, caller, action, execution_id, tenant, problem)
