"""Reads and answers OTLP's export of traces: as protobuf or as JSON, compressed or not, within bounds."""

from __future__ import annotations

import math
import zlib
from base64 import b64encode
from typing import Any, Final

import msgspec
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan

from stepd.engine import canonical
from stepd.service.base import Reply
from stepd_protocol.leases import Span
from stepd_protocol.limits import JSON_DEPTH_MAX, SHORT_TEXT_LENGTH_MAX, SPANS_PER_EXPORT_MAX, Limits
from stepd_protocol.names import SpanKind, SpanStatus
from stepd_protocol.problems import Problem, make_problem
from stepd_protocol.telemetry import read_spans

PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"
MESSAGE_LENGTH_MAX: Final = 1_000
REASONS_MAX: Final = 5
"""So many reasons are told of what was rejected."""
NO_NAME: Final = "span"
TRACE_ID_BYTES: Final = 16
SPAN_ID_BYTES: Final = 8
_GZIP: Final = 31
_NO_ID: Final = b64encode(b"?").decode()
_IDS: Final = ("traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id")

KINDS: Final[dict[int, SpanKind]] = {
    OtlpSpan.SPAN_KIND_SERVER: "server",
    OtlpSpan.SPAN_KIND_CLIENT: "client",
    OtlpSpan.SPAN_KIND_PRODUCER: "producer",
    OtlpSpan.SPAN_KIND_CONSUMER: "consumer",
}
_STATUSES: Final[dict[int, SpanStatus]] = {1: "ok", 2: "error"}


class Sent(msgspec.Struct):
    """One span as it was sent, and as it is kept."""

    trace_id: str
    span: Span
    original: OtlpSpan
    resource: Resource
    scope: InstrumentationScope


class Reading(msgspec.Struct):
    """What an export has brought."""

    sent: list[Sent]
    total: int
    """Spans in it, also those that could not be read."""
    reasons: list[str]
    """Why some of it was left out."""


def read_export(body: bytes, media_type: str, encoding: str, limits: Limits) -> Reading | Problem:
    """The spans of an export, or why it can't be read at all. Takes its time: not for the event loop."""
    try:
        plain = _inflated(body, limits.request_bytes) if encoding == "gzip" else body
        request = _from_json(plain) if media_type == JSON else ExportTraceServiceRequest.FromString(plain)
    except _TooLarge:
        limit = limits.request_bytes
        return make_problem("payload_too_large", f"the body has more than {limit} bytes, inflated", limit=limit)
    except canonical.Malformed as fault:
        return make_problem("malformed_json", f"the body can't be read: {fault}")
    except (zlib.error, EOFError):
        return make_problem("malformed_body", "the body is said to be gzip, and can't be inflated")
    except (DecodeError, json_format.ParseError, RecursionError):
        return make_problem("malformed_body", f"the body is no ExportTraceServiceRequest as {media_type}")
    return _read(request, limits)


def answer_export(media_type: str, rejected: int, reasons: list[str]) -> Reply:
    """The answer in the form of the request: how many spans were rejected, and why."""
    answer = ExportTraceServiceResponse()
    told = list(dict.fromkeys(reasons))
    if rejected or told:
        more = [f"and {len(told) - REASONS_MAX} more"] if len(told) > REASONS_MAX else []
        answer.partial_success.rejected_spans = rejected
        answer.partial_success.error_message = "; ".join([*told[:REASONS_MAX], *more])[:MESSAGE_LENGTH_MAX]
    if media_type == JSON:
        return Reply(200, msgspec.json.encode(json_format.MessageToDict(answer)))
    return Reply(200, answer.SerializeToString(), (("Content-Type", PROTOBUF),))


class _TooLarge(Exception):
    """It inflates to more than is allowed."""


def _inflated(body: bytes, limit: int) -> bytes:
    """Raises _TooLarge, zlib.error, EOFError. Never makes more of it than ``limit`` bytes and one."""
    parts: list[bytes] = []
    size = 0
    while body:
        inflater = zlib.decompressobj(_GZIP)
        parts.append(inflater.decompress(body, limit - size + 1))
        size += len(parts[-1])
        if size > limit:
            raise _TooLarge
        if not inflater.eof:
            raise EOFError
        body = inflater.unused_data
    return b"".join(parts)


def _from_json(body: bytes) -> ExportTraceServiceRequest:
    """Raises Malformed, ParseError. OTLP writes ids as hex digits where protobuf's JSON has Base64."""
    canonical.check_json(body)
    value = msgspec.json.decode(body)
    if not isinstance(value, dict):
        raise json_format.ParseError("not an object")
    for of_resource in _members(value, "resourceSpans", "resource_spans"):
        for of_scope in _members(of_resource, "scopeSpans", "scope_spans"):
            for span in _members(of_scope, "spans"):
                _as_base64(span)
                for link in _members(span, "links"):
                    _as_base64(link)
    try:
        request: ExportTraceServiceRequest = json_format.ParseDict(
            value, ExportTraceServiceRequest(), ignore_unknown_fields=True, max_recursion_depth=JSON_DEPTH_MAX
        )
    except (AttributeError, TypeError, ValueError) as fault:
        raise json_format.ParseError(str(fault)) from None
    return request


def _members(value: Any, *names: str) -> list[Any]:
    found = next((value[name] for name in names if name in value), None) if isinstance(value, dict) else None
    members = found if isinstance(found, list) else []
    if not all(isinstance(member, dict) for member in members):
        raise json_format.ParseError(f"{names[0]} must be a list of objects")
    return members


def _as_base64(holder: dict[str, Any]) -> None:
    for name in _IDS:
        if isinstance(text := holder.get(name), str):
            try:
                holder[name] = b64encode(bytes.fromhex(text)).decode()
            except ValueError:
                holder[name] = _NO_ID


def _read(request: ExportTraceServiceRequest, limits: Limits) -> Reading:
    reading = Reading([], 0, [])
    for of_resource in request.resource_spans:
        for of_scope in of_resource.scope_spans:
            for original in of_scope.spans:
                reading.total += 1
                if reading.total > SPANS_PER_EXPORT_MAX:
                    continue
                sent = _sent(original, of_resource.resource, of_scope.scope, limits, reading.reasons)
                if sent is not None:
                    reading.sent.append(sent)
    if reading.total > SPANS_PER_EXPORT_MAX:
        reading.reasons.append(f"{reading.total} spans in one export, only the first {SPANS_PER_EXPORT_MAX:,} are kept")
    return reading


def _sent(
    original: OtlpSpan, resource: Resource, scope: InstrumentationScope, limits: Limits, reasons: list[str]
) -> Sent | None:
    if not (_is_id(original.trace_id, TRACE_ID_BYTES) and _is_id(original.span_id, SPAN_ID_BYTES)):
        reasons.append("traceId must be 16 bytes and spanId 8, not all of them zero")
        return None
    if original.parent_span_id and len(original.parent_span_id) != SPAN_ID_BYTES:
        reasons.append("parentSpanId must be 8 bytes")
        return None
    wanted: dict[str, Any] = {
        "span_id": original.span_id.hex(),
        "parent_span_id": original.parent_span_id.hex() if any(original.parent_span_id) else None,
        "name": original.name[:SHORT_TEXT_LENGTH_MAX] or NO_NAME,
        "start_unix_nano": str(original.start_time_unix_nano),
        "end_unix_nano": str(original.end_time_unix_nano),
        "kind": KINDS.get(original.kind, "internal"),
        "status": _STATUSES.get(original.status.code, "unset"),
        "attributes": _attributes(original),
    }
    spans, warnings = read_spans(msgspec.Raw(b"[" + msgspec.json.encode(wanted) + b"]"), limits)
    reasons += [warning.replace("spans[0]", f"span {wanted['span_id']}") for warning in warnings]
    return Sent(original.trace_id.hex(), spans[0], original, resource, scope) if spans else None


def _is_id(given: bytes, length: int) -> bool:
    return len(given) == length and any(given)


def _attributes(span: OtlpSpan) -> dict[str, Any]:
    """The span's attributes, with the type of an exception that was recorded. Its message and stack are not kept."""
    found = {pair.key: value_of(pair.value) for pair in span.attributes}
    for event in span.events:
        if event.name == "exception":
            types = [value_of(pair.value) for pair in event.attributes if pair.key == "exception.type"]
            found |= {"exception.type": types[0]} if types else {}
    return found


def value_of(value: AnyValue) -> Any:
    """An attribute's value as JSON has it."""
    match value.WhichOneof("value"):
        case None:
            return None
        case "array_value":
            return [value_of(each) for each in value.array_value.values]
        case "kvlist_value":
            return {pair.key: value_of(pair.value) for pair in value.kvlist_value.values}
        case "bytes_value":
            return b64encode(value.bytes_value).decode()
        case "double_value" if not math.isfinite(value.double_value):
            return str(value.double_value)
        case kind:
            return getattr(value, kind)
