"""The trace of an execution as a flat list: the spans workers sent, below those of its attempts and of itself."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stepd.engine.definition import Compiled
from stepd.engine.model import NO_INDEX, Attempt, Execution
from stepd.service.traces import caller_span_id, execution_span_id
from stepd_protocol.executions import SpanView
from stepd_protocol.leases import Span, Usage
from stepd_protocol.names import SpanStatus

_span = msgspec.json.Decoder(Span).decode
_usage = msgspec.json.Decoder(list[Usage]).decode

_EXECUTION_STATUS: dict[str, SpanStatus] = {"completed": "ok", "failed": "error", "cancelled": "error"}
_ATTEMPT_STATUS: dict[str, SpanStatus] = {"succeeded": "ok", "failed": "error", "lost": "error"}


def span_views(execution: Execution, definition: Compiled, kept: Sequence[tuple[Attempt, bytes]]) -> list[SpanView]:
    """The execution's span, then each attempt's with what was sent below it."""
    views = [_of_execution(execution)]
    seen: set[str] = set()
    for attempt, body in kept:
        step = definition.steps[attempt.ordinal].id
        if attempt.id not in seen:
            seen.add(attempt.id)
            views.append(_of_attempt(execution, attempt, step))
        if body:
            views.append(_of_worker(attempt, step, _span(body)))
    return views


def _of_execution(execution: Execution) -> SpanView:
    return SpanView(
        span_id=execution_span_id(execution),
        parent_span_id=caller_span_id(execution),
        name=execution.workflow,
        kind="internal",
        start_unix_nano=_nano(execution.created_at),
        end_unix_nano=None if execution.ended_at is None else _nano(execution.ended_at),
        status=_EXECUTION_STATUS.get(execution.status, "unset"),
        attributes={"stepd.execution.id": execution.id, "stepd.execution.status": execution.status},
        usage=None,
        step=None,
        index=None,
        attempt=None,
        worker=None,
    )


def _of_attempt(execution: Execution, attempt: Attempt, step: str) -> SpanView:
    return SpanView(
        span_id=attempt.span_id,
        parent_span_id=execution_span_id(execution),
        name=step,
        kind="internal",
        start_unix_nano=_nano(attempt.leased_at),
        end_unix_nano=None if attempt.ended_at is None else _nano(attempt.ended_at),
        status=_ATTEMPT_STATUS.get(attempt.status, "unset"),
        attributes={"stepd.attempt.status": attempt.status},
        usage=None if attempt.usage is None else _usage(attempt.usage),
        step=step,
        index=_index(attempt),
        attempt=attempt.number,
        worker=attempt.worker,
    )


def _of_worker(attempt: Attempt, step: str, span: Span) -> SpanView:
    return SpanView(
        span_id=span.span_id,
        parent_span_id=span.parent_span_id or attempt.span_id,
        name=span.name,
        kind=span.kind,
        start_unix_nano=span.start_unix_nano,
        end_unix_nano=span.end_unix_nano,
        status=span.status,
        attributes=span.attributes,
        usage=span.usage,
        step=step,
        index=_index(attempt),
        attempt=attempt.number,
        worker=attempt.worker,
    )


def _index(attempt: Attempt) -> int | None:
    return None if attempt.index == NO_INDEX else attempt.index


def _nano(ms: int) -> str:
    return str(ms * 1_000_000)
