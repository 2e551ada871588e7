"""Exports of traces as a worker without the SDK sends them: built as protobuf, sent as that or as JSON."""

import gzip
import json
import os
import time
from collections.abc import Mapping
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from tests.support.client import Answer, Http, Json
from tests.support.flow import Lease, Run

PROTOBUF = "application/x-protobuf"


def new_id() -> str:
    return os.urandom(8).hex()


def otlp_span(
    trace_id: str, parent: str | None, *, id: str | None = None, name: str = "call", **attributes: Any
) -> Span:
    """A span that is over; a name of an attribute has `__` in the place of each dot."""
    now = time.time_ns()
    return Span(
        trace_id=bytes.fromhex(trace_id),
        span_id=bytes.fromhex(id or new_id()),
        parent_span_id=bytes.fromhex(parent or ""),
        name=name,
        kind=Span.SPAN_KIND_CLIENT,
        start_time_unix_nano=now,
        end_time_unix_nano=now + 1_000,
        attributes=[KeyValue(key=key.replace("__", "."), value=_value(value)) for key, value in attributes.items()],
    )


def tokens(count: int, model: str = "m-1") -> dict[str, Any]:
    """The attributes of a call of a model that used so many tokens of input."""
    return {"gen_ai__request__model": model, "gen_ai__usage__input_tokens": count}


def export_of(*spans: Span) -> bytes:
    made = ExportTraceServiceRequest(resource_spans=[ResourceSpans(scope_spans=[ScopeSpans(spans=spans)])])
    return made.SerializeToString()


def post(http: Http, body: bytes, **headers: str) -> Answer:
    given = {"Content-Type": PROTOBUF} | {name.replace("_", "-").title(): value for name, value in headers.items()}
    return http.send("POST", "/v1/traces", raw=body, headers=given)


def export(http: Http, *spans: Span, zipped: bool = False) -> tuple[int, str]:
    """Sends the spans; how many were rejected, and why."""
    body = export_of(*spans)
    answer = post(http, gzip.compress(body), content_encoding="gzip") if zipped else post(http, body)
    assert answer.status == 200, str(answer)
    assert answer.headers["content-type"] == PROTOBUF
    success = ExportTraceServiceResponse.FromString(answer.body).partial_success
    return success.rejected_spans, success.error_message


def export_json(http: Http, *spans: Mapping[str, Json]) -> tuple[int, str]:
    """The same by JSON, from the spans as OTLP writes them there."""
    body = {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}
    answer = post(http, json.dumps(body).encode(), content_type="application/json")
    found = answer.expect(200).get("partialSuccess", {})
    return int(found.get("rejectedSpans", 0)), found.get("errorMessage", "")


def traced(lease: Lease) -> tuple[str, str]:
    """Trace and span of a lease."""
    _, trace_id, span_id, _ = lease.data["traceparent"].split("-")
    return trace_id, span_id


def shown(run: Run) -> dict[str, Json]:
    """The spans that are shown of a run, by id."""
    items = run.http.get(f"{run.path}/spans").expect(200)["items"]
    assert len({item["span_id"] for item in items}) == len(items)
    return {item["span_id"]: item for item in items}


def used(run: Run) -> int:
    return int(run.view()["usage"]["input_tokens"])


def _value(value: Any) -> AnyValue:
    match value:
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case bytes():
            return AnyValue(bytes_value=value)
        case list():
            return AnyValue(array_value=ArrayValue(values=[_value(each) for each in value]))
        case _:
            return AnyValue(string_value=value)
