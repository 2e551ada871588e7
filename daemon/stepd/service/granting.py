"""Leases as workers get them: made from the rows that the engine granted, payloads passing through as their bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import msgspec
from msgspec import Raw

from stepd.engine.commands import Granted
from stepd.engine.definition import Compiled
from stepd.engine.model import GRAPH_STATUS, NO_INDEX, Execution, input_name, output_name, previous_name
from stepd.service.answers import seconds
from stepd.service.base import Daemon
from stepd.service.traces import lease_traceparent
from stepd_protocol.fields import NULL
from stepd_protocol.leases import AncestorStep, Lease, LeaseExecution, Previous
from stepd_protocol.names import StepStatus
from stepd_protocol.times import format_time

NO_PREVIOUS = Previous(attempt=0, progress=NULL, error=None)
SUCCEEDED = frozenset("sC")
STEP_STATUS = cast("dict[str, StepStatus]", GRAPH_STATUS)

_labels = msgspec.json.Decoder(dict[str, str]).decode
_previous = msgspec.json.Decoder(Previous).decode


async def leases_of(daemon: Daemon, granted: Sequence[Granted]) -> list[Lease]:
    """The wire form of leases, in their order. Their definitions are in the store's memory."""
    leases = []
    for grant in granted:
        execution = grant.execution
        definition = await daemon.store.definition(execution.workflow, execution.version)
        if definition is None:
            raise LookupError(f"version {execution.version} of workflow {execution.workflow} is not in the store")
        leases.append(lease_of(grant, definition, daemon.store.settings.heartbeat_ms))
    return leases


def lease_of(grant: Granted, definition: Compiled, heartbeat_ms: int) -> Lease:
    """One lease; ``heartbeat_ms`` is the daemon's, cut to a third of the lease."""
    execution, step, attempt, payloads = grant.execution, grant.step, grant.attempt, grant.payloads
    compiled = definition.steps[step.ordinal]
    renewed_at = attempt.expires_at - attempt.lease_ms
    return Lease(
        id=attempt.id,
        fence=attempt.fence,
        attempt=attempt.number,
        max_attempts=grant.max_attempts,
        execution=_execution_of(execution),
        step=step.step,
        index=None if step.index == NO_INDEX else step.index,
        input=_raw(payloads.get(input_name(step.ordinal, step.index) if step.own_input else "input")),
        steps=_ancestors(grant, definition),
        state=_raw(payloads.get("state")),
        previous=_previous_of(payloads.get(previous_name(step.ordinal, step.index))),
        idempotency_key=step.idempotency_key,
        effect=compiled.effect or "read_only",
        delivery=compiled.delivery,
        start_required=compiled.start_required,
        expires_at=format_time(attempt.expires_at),
        lease_seconds=seconds(attempt.lease_ms),
        heartbeat_seconds=seconds(min(heartbeat_ms, attempt.lease_ms // 3)),
        reclaim_seconds=seconds(attempt.reclaim_ms),
        timeout_seconds=None if attempt.timeout_at is None else seconds(max(0, attempt.timeout_at - renewed_at)),
        traceparent=lease_traceparent(execution, attempt.span_id),
    )


def _execution_of(execution: Execution) -> LeaseExecution:
    return LeaseExecution(
        id=execution.id,
        workflow=execution.workflow,
        version=execution.version,
        correlation=execution.correlation,
        tenant=execution.tenant,
        labels=_labels(execution.labels),
        created_at=format_time(execution.created_at),
    )


def _ancestors(grant: Granted, definition: Compiled) -> dict[str, AncestorStep]:
    """The step's ancestors, nearest first; an output that the engine left out did not fit."""
    graph = grant.execution.graph
    found = {}
    for ordinal in definition.steps[grant.step.ordinal].ancestors:
        mark = graph[ordinal]
        output = grant.payloads.get(output_name(ordinal, NO_INDEX))
        status = STEP_STATUS[mark]
        if mark in SUCCEEDED and output is None:
            found[definition.steps[ordinal].id] = AncestorStep(status=status, omitted=True)
        else:
            found[definition.steps[ordinal].id] = AncestorStep(status=status, output=_raw(output))
    return found


def _previous_of(raw: bytes | None) -> Previous:
    return NO_PREVIOUS if raw is None else _previous(raw)


def _raw(payload: bytes | None) -> Raw:
    return NULL if payload is None else Raw(payload)
