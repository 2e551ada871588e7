"""The row of a step, or of one item of it, as it begins."""

from __future__ import annotations

from stepd.engine.definition import CompiledStep
from stepd.engine.model import NO_INDEX, Step
from stepd.engine.work import Work

PRIORITY_MAX = 100


def new_row(work: Work, compiled: CompiledStep, index: int = NO_INDEX) -> Step:
    """The row of a step, or of one item of it, that is evaluated now; still ``pending``, and not added yet."""
    execution = work.execution
    item = "" if index == NO_INDEX else f"[{index}]"
    return Step(
        execution_id=execution.id,
        ordinal=compiled.ordinal,
        index=index,
        step=compiled.id,
        workflow=execution.workflow,
        version=execution.version,
        tenant=execution.tenant,
        status="pending",
        parked=0,
        priority=max(-PRIORITY_MAX, min(PRIORITY_MAX, execution.priority + compiled.priority)),
        due_at=None,
        execution_created_at=execution.created_at,
        timer_at=None,
        fence=0,
        spent=0,
        last_attempt=0,
        interruptions=0,
        effect="none",
        caught=False,
        lease_id=None,
        own_input=False,
        input_hash=None,
        declared_effect=compiled.effect or "",
        idempotency_key=f"{execution.id}:{compiled.id}{item}",
        checkpoint=None,
        error=None,
        shunned=None,
        has_previous=False,
        queued_at=None,
    )
