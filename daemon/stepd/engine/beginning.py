"""How an execution begins: its rows, its first ready steps, and what a start is refused for."""

from __future__ import annotations

from stepd.engine.advance import advance
from stepd.engine.canonical import decode, encode
from stepd.engine.commands import InvalidInput, Start
from stepd.engine.control import audit
from stepd.engine.definition import Compiled
from stepd.engine.kinship import note_news
from stepd.engine.model import NO_INDEX, OUTSIDE, Execution
from stepd.engine.pieces import cut
from stepd.engine.standing import NONE_STANDS, refresh_status, set_due
from stepd.engine.work import Loaded, Settings, Work


def begin(definition: Compiled, settings: Settings, start: Start, now: int) -> Work | InvalidInput:
    """A new execution with its first steps queued, or why its input doesn't fit. ``now`` is the store's clock, ms."""
    exclusive = definition.exclusive if start.exclusive is None else start.exclusive
    faults = _faults(definition, start, exclusive)
    if faults:
        return InvalidInput(tuple(faults))
    loaded = Loaded(_new_execution(definition, start, now, exclusive))
    loaded.rows, loaded.unsettled = [], []
    loaded.payloads = {"input": start.input, "state": start.state}
    work = Work(definition, settings, now, loaded)
    work.changes.created = True
    work.changes.payloads = {"input": start.input, "state": start.state}
    set_due(work.execution)
    if start.parent is None:
        audit(work, start.actor, "execution.start")
    work.emit("execution.created", data=_created(work.execution))
    advance(work)
    refresh_status(work)
    note_news(work)
    cut(work)
    return work


def exclusive_key(workflow: str, tenant: str | None, correlation: str | None) -> str:
    """What an open exclusive execution occupies: unique over the store."""
    return encode([workflow, tenant, correlation]).decode()


def _created(execution: Execution) -> dict[str, object]:
    created: dict[str, object] = {
        "workflow": execution.workflow,
        "version": execution.version,
        "status": execution.status,
    }
    if execution.parent_id is not None:
        index = None if execution.parent_index == NO_INDEX else execution.parent_index
        created["parent"] = {"execution": execution.parent_id, "step": execution.parent_step, "index": index}
    return created


def _faults(definition: Compiled, start: Start, exclusive: bool) -> list[tuple[str, str]]:
    faults = []
    if exclusive and start.correlation is None:
        faults.append(("/correlation", "an exclusive execution needs a correlation"))
    if definition.input_schema is not None:
        found = definition.input_schema.faults(decode(start.input))
        faults += [(f"/input{pointer}", message) for pointer, message in found]
    return faults


def _new_execution(definition: Compiled, start: Start, now: int, exclusive: bool) -> Execution:
    scheduled = start.start_at is not None and start.start_at > now
    budget = definition.budget if start.budget is None else start.budget
    begins_at = start.start_at if scheduled and start.start_at is not None else now
    return Execution(
        id=start.id,
        workflow=start.workflow,
        version=definition.version,
        tenant=start.tenant,
        correlation=start.correlation,
        labels=start.labels,
        principal=start.actor.principal,
        priority=start.priority,
        traceparent=start.traceparent,
        on_restart=start.on_restart or definition.on_restart,
        exclusive_key=exclusive_key(start.workflow, start.tenant, start.correlation) if exclusive else None,
        status="scheduled" if scheduled else "queued",
        direction=None,
        graph="".join("p" if step.undoes is None else OUTSIDE for step in definition.steps),
        revision=1,
        seq=0,
        active=0,
        flight=0,
        uncertain=0,
        cancel_requested=False,
        cancel_reason=None,
        forced=False,
        mismatch=False,
        error=None,
        input_hash=start.input_hash,
        created_at=now,
        start_at=start.start_at,
        started_at=None,
        ended_at=None,
        deadline_at=None if definition.timeout_ms is None else begins_at + definition.timeout_ms,
        due_at=None,
        remove_at=None,
        input_tokens=0,
        cache_read_tokens=0,
        cache_write_tokens=0,
        output_tokens=0,
        reasoning_tokens=0,
        standing=NONE_STANDS * len(definition.steps),
        parent_id=None if start.parent is None else start.parent.execution_id,
        parent_step=None if start.parent is None else start.parent.step,
        parent_index=None if start.parent is None else start.parent.index,
        depth=0 if start.parent is None else start.parent.depth,
        budget_nano=budget.nano,
        budget_tokens=budget.tokens,
    )
