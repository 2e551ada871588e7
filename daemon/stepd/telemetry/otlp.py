"""Owns how spans look to OpenTelemetry: what is told of executions and attempts, and what workers sent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.metadata import version
from typing import Any, Final

import msgspec
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope as PbScope
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource as PbResource
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from stepd.service.otlp import KINDS, SPAN_ID_BYTES, TRACE_ID_BYTES, value_of
from stepd_protocol.executions import SpanView

SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
SCOPE: Final = InstrumentationScope("stepd", version("stepd"))
INT64: Final = 2**63
_KINDS: Final = {
    "internal": SpanKind.INTERNAL,
    "client": SpanKind.CLIENT,
    "server": SpanKind.SERVER,
    "producer": SpanKind.PRODUCER,
    "consumer": SpanKind.CONSUMER,
}
_CODES: Final = {1: StatusCode.OK, 2: StatusCode.ERROR}
_STATUS: Final = {"unset": StatusCode.UNSET, "ok": StatusCode.OK, "error": StatusCode.ERROR}


def span_of(trace_id: str, view: SpanView, resource: Resource) -> ReadableSpan:
    """A span that is over, as the exporter takes it."""
    return ReadableSpan(
        name=view.name,
        context=_context(trace_id, view.span_id),
        parent=None if view.parent_span_id is None else _context(trace_id, view.parent_span_id),
        resource=resource,
        attributes={key: value for key, given in view.attributes.items() if (value := _plain(given)) is not None},
        links=[Link(_context(trace_id, view.previous_span_id))] if isinstance(view.previous_span_id, str) else [],
        kind=_KINDS[view.kind],
        status=Status(_STATUS[view.status]),
        start_time=int(view.start_unix_nano),
        end_time=int(view.end_unix_nano or view.start_unix_nano),
        instrumentation_scope=SCOPE,
    )


def original_span(original: bytes, of_resource: bytes, of_scope: bytes) -> ReadableSpan:
    """A span that a worker exported, with all that it had: events and links too."""
    span = Span.FromString(original)
    scope = PbScope.FromString(of_scope)
    trace_id, parent = span.trace_id.hex(), span.parent_span_id
    return ReadableSpan(
        name=span.name,
        context=_context(trace_id, span.span_id.hex()),
        parent=_context(trace_id, parent.hex()) if any(parent) else None,
        resource=Resource(_given(PbResource.FromString(of_resource).attributes)),
        attributes=_given(span.attributes),
        events=[Event(event.name, _given(event.attributes), event.time_unix_nano) for event in span.events],
        links=[
            Link(_context(link.trace_id.hex(), link.span_id.hex()), _given(link.attributes))
            for link in span.links
            if len(link.trace_id) == TRACE_ID_BYTES and len(link.span_id) == SPAN_ID_BYTES
        ],
        kind=_KINDS[KINDS.get(span.kind, "internal")],
        status=Status(_CODES.get(span.status.code, StatusCode.UNSET), span.status.message or None),
        start_time=span.start_time_unix_nano,
        end_time=span.end_time_unix_nano,
        instrumentation_scope=InstrumentationScope(scope.name, scope.version),
    )


def daemon_resource(service: str) -> Resource:
    """Who tells of executions: what OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say, else the service's name."""
    own = Resource({"service.name": service, "service.version": version("stepd")})
    return own.merge(OTELResourceDetector().detect())


@lru_cache(maxsize=1_000)
def worker_resource(worker: str, instance: str) -> Resource:
    """Who tells of what happened in a body."""
    return Resource({"service.name": worker, "service.instance.id": instance})


def _context(trace_id: str, span_id: str) -> SpanContext:
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=SAMPLED)


def _given(attributes: Iterable[KeyValue]) -> dict[str, Any]:
    return {pair.key: value for pair in attributes if (value := _plain(value_of(pair.value))) is not None}


def _plain(value: Any) -> Any:
    """An attribute as it can be sent: whole numbers have 64 bits there, and a list holds values of one type."""
    if isinstance(value, list):
        return _plain_list([plain for item in value if (plain := _plain(item)) is not None])
    if isinstance(value, int) and not -INT64 <= value < INT64:
        return str(value)
    return value


def _plain_list(values: Sequence[Any]) -> list[Any]:
    if len({type(value) for value in values}) <= 1:
        return list(values)
    return [value if isinstance(value, str) else msgspec.json.encode(value).decode() for value in values]
