"""Exports of traces that are bad, large, deep or not what they say: told, never kept, never a fault of the daemon."""

import gzip
import json
from base64 import b64encode
from typing import Any

import pytest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue, KeyValueList
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.protocol.conftest import MakeFlow
from tests.support.client import Http
from tests.support.definitions import read
from tests.support.otlp import PROTOBUF, export, export_json, new_id, otlp_span, post, shown, tokens, traced, used

LIMIT = 1024 * 1024
NO_OBJECT = b'{"resourceSpans":["AAA"]}'
NO_TIME = b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"startTimeUnixNano":"noon"}]}]}]}'


def bad(trace: str, above: str) -> list[Span]:
    """Spans that can't be taken."""
    wrong = [otlp_span(trace, above) for _ in range(6)]
    wrong[0].trace_id = bytes(16)
    wrong[1].span_id = bytes(8)
    wrong[2].span_id = b"short"
    wrong[3].parent_span_id = b"x"
    wrong[4].end_time_unix_nano = 2**64 - 1
    wrong[5].attributes.append(KeyValue(key="large", value=AnyValue(string_value="x" * 70_000)))
    return wrong


def test_what_is_bad_is_told_and_the_rest_is_taken(http: Http, flow: MakeFlow) -> None:
    run, lease = flow(read()).begin()
    trace, above = traced(lease)
    good = otlp_span(trace, above, huge=2**63 - 1, nan=float("nan"), **tokens(3))
    good.name, good.kind = "", 77  # type: ignore[assignment]  # a kind of a later version
    nested = KeyValueList(values=[KeyValue(key="a", value=AnyValue(int_value=1))])
    good.attributes.append(KeyValue(key="deep", value=AnyValue(kvlist_value=nested)))
    rejected, why = export(http, *bad(trace, above), good)
    assert rejected == 6
    assert "spanId" in why
    found = shown(run)
    assert len(found) == 3
    attributes = found[good.span_id.hex()]["attributes"]
    assert (attributes["huge"], attributes["nan"], "deep" in attributes) == (2**63 - 1, "nan", False)
    rejected, why = export_json(
        http,
        {"traceId": "zz", "spanId": new_id(), "name": "n"},
        {"traceId": trace, "spanId": b64encode(b"12345678").decode(), "name": "n"},
        {"traceId": trace, "spanId": new_id(), "parentSpanId": "0" * 16, "name": "n"},
    )
    assert (rejected, bool(why)) == (2, True)
    assert used(run) == 3


def test_more_spans_than_an_export_may_have_are_rejected_by_number(http: Http, flow: MakeFlow) -> None:
    run, lease = flow(read()).begin()
    rejected, why = export(http, *(otlp_span(*traced(lease)) for _ in range(2_051)))
    assert rejected == 3
    assert "2,048" in why
    listed = http.get(f"{run.path}/spans", query={"limit": 1_000}).expect(200)
    assert len(listed["items"]) == 1_000
    assert listed["next"]


def test_nothing_is_no_fault(http: Http) -> None:
    assert export(http) == (0, "")
    assert post(http, b"").status == 200
    assert post(http, b"{}", content_type="application/json; charset=utf-8").expect(200) == {}
    assert export_json(http) == (0, "")


@pytest.mark.parametrize(
    ("status", "code", "body", "headers"),
    [
        (415, "unsupported_media_type", b"", {"content_type": "text/plain"}),
        (415, "unsupported_media_type", b"", {"content_encoding": "br"}),
        (400, "malformed_json", b"{", {"content_type": "application/json"}),
        (400, "malformed_json", b"[" * 20_000, {"content_type": "application/json"}),
        (400, "malformed_json", b'{"a":1,"a":2}', {"content_type": "application/json"}),
        (400, "malformed_body", b"[]", {"content_type": "application/json"}),
        (400, "malformed_body", NO_OBJECT, {"content_type": "application/json"}),
        (400, "malformed_body", b'{"resourceSpans":7}', {"content_type": "application/json"}),
        (400, "malformed_body", NO_TIME, {"content_type": "application/json"}),
        (400, "malformed_body", b"\xff\xff\xff", {}),
        (400, "malformed_body", b"\x0a\x7f", {}),
        (400, "malformed_body", b"no gzip", {"content_encoding": "gzip"}),
        (400, "malformed_body", gzip.compress(b"", mtime=0)[:-4], {"content_encoding": "gzip"}),
        (413, "payload_too_large", gzip.compress(bytes(200 * LIMIT), mtime=0), {"content_encoding": "gzip"}),
        (413, "payload_too_large", gzip.compress(bytes(LIMIT), mtime=0) * 2, {"content_encoding": "gzip"}),
        (413, "payload_too_large", bytes(LIMIT + 1), {}),
    ],
)  # fmt: skip
def test_what_can_not_be_read_is_a_problem(
    http: Http, status: int, code: str, body: bytes, headers: dict[str, Any]
) -> None:
    post(http, body, **headers).expect_problem(status, code)


def test_deep_values_are_refused_or_dropped(http: Http, flow: MakeFlow) -> None:
    run, lease = flow(read()).begin()
    value = AnyValue(int_value=1)
    for _ in range(20):
        value = AnyValue(kvlist_value=KeyValueList(values=[KeyValue(key="a", value=value)]))
    span = otlp_span(*traced(lease))
    span.attributes.append(KeyValue(key="deep", value=value))
    rejected, why = export(http, span)
    assert (rejected, "nested" in why) == (0, True)
    assert shown(run)[span.span_id.hex()]["attributes"] == {}
    # Written by hand: a library would not let it be built. Each level is a list of one value.
    raw = b""
    for _ in range(5_000):
        inner = b"\x0a" + _length(raw) + raw
        raw = b"\x2a" + _length(inner) + inner
    attribute = b"\x0a\x01a\x12" + _length(raw) + raw
    body = b"\x4a" + _length(attribute) + attribute
    for tag in (b"\x12", b"\x12", b"\x0a"):
        body = tag + _length(body) + body
    post(http, body).expect_problem(400, "malformed_body")


def _length(raw: bytes) -> bytes:
    size, found = len(raw), b""
    while size > 127:
        found += bytes([size & 127 | 128])
        size >>= 7
    return found + bytes([size])


def test_the_media_type_of_the_answer_is_that_of_the_request(http: Http) -> None:
    assert post(http, b"").headers["content-type"] == PROTOBUF
    assert json.loads(post(http, b"{}", content_type="application/json").body) == {}
