"""Spans that workers in any language export: they land in the run, count once, and never in another's attempts."""

import base64
import os
import subprocess
import sys
import time
from functools import partial

import pytest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.protocol.conftest import MakeFlow
from tests.support.client import Http
from tests.support.definitions import read, unique
from tests.support.flow import Run
from tests.support.otlp import (
    export,
    export_json,
    export_of,
    new_id,
    otlp_span,
    post,
    shown,
    tokens,
    traced,
    used,
)
from tests.support.wait import together

NOW = time.time_ns()


@pytest.mark.parametrize("zipped", [False, True])
def test_a_span_lands_below_its_attempt_and_its_tokens_count(http: Http, flow: MakeFlow, zipped: bool) -> None:
    run, lease = flow(read()).begin()
    trace, above = traced(lease)
    span = otlp_span(trace, above, name="chat m-1", text="x", many=[1, 2], ok=True, half=0.5, raw=b"\x00", **tokens(7))
    assert export(http, span, zipped=zipped) == (0, "")
    found = shown(run)[span.span_id.hex()]
    assert found["parent_span_id"] == above
    assert (found["name"], found["kind"], found["status"]) == ("chat m-1", "client", "unset")
    assert (found["step"], found["attempt"]) == ("work", 1)
    assert (found["start_unix_nano"], found["end_unix_nano"]) == (
        str(span.start_time_unix_nano),
        str(span.end_time_unix_nano),
    )
    attributes = found["attributes"]
    assert [attributes[name] for name in ("text", "many", "ok", "half", "raw")] == ["x", [1, 2], True, 0.5, "AA=="]
    assert used(run) == 7


def test_json_is_taken_as_otlp_writes_it(http: Http, flow: MakeFlow) -> None:
    run, lease = flow(read()).begin()
    trace, above = traced(lease)
    id = new_id()
    span = {
        "traceId": trace.upper(),
        "spanId": id,
        "parentSpanId": above,
        "name": "chat",
        "kind": "SPAN_KIND_SERVER",
        "startTimeUnixNano": str(NOW),
        "endTimeUnixNano": NOW + 1,
        "status": {"code": "STATUS_CODE_ERROR"},
        "attributes": [
            {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "5"}},
            {"key": "list", "value": {"arrayValue": {"values": [{"boolValue": True}]}}},
            {"key": "raw", "value": {"bytesValue": base64.b64encode(b"\x01").decode()}},
        ],
        "links": [{"traceId": trace, "spanId": id}],
        "somethingNew": 1,
    }
    assert export_json(http, span) == (0, "")
    assert export_json(http, span | {"kind": 2, "status": {"code": 2}}) == (0, "")
    found = shown(run)[id]
    assert (found["kind"], found["status"]) == ("server", "error")
    assert found["attributes"] == {"gen_ai.usage.input_tokens": 5, "list": [True], "raw": "AQ=="}
    assert used(run) == 5, "the same span twice counts once"


def test_an_exception_is_named_without_its_message(http: Http, flow: MakeFlow) -> None:
    run, lease = flow(read()).begin()
    span = otlp_span(*traced(lease))
    of = {"exception.type": "KeyError", "exception.message": "secret", "exception.stacktrace": "at secret"}
    pairs = [KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in of.items()]
    span.events.append(Span.Event(name="exception", attributes=pairs))
    assert export(http, span) == (0, "")
    found = shown(run)[span.span_id.hex()]
    assert found["attributes"] == {"exception.type": "KeyError"}


def test_children_that_come_first_land_when_their_parents_do(http: Http, flow: MakeFlow) -> None:
    run, lease = flow(read()).begin()
    trace, above = traced(lease)
    top, middle = otlp_span(trace, above), otlp_span(trace, None)
    middle.parent_span_id = top.span_id
    leaf = otlp_span(trace, middle.span_id.hex(), **tokens(11))
    assert export(http, leaf) == (0, "")
    loose = shown(run)[leaf.span_id.hex()]
    assert (loose["step"], loose["attempt"], loose["worker"]) == (None, None, None)
    assert used(run) == 0
    assert export(http, middle) == (0, "")
    assert used(run) == 0
    assert export(http, top) == (0, "")
    found = shown(run)
    assert {found[span.span_id.hex()]["step"] for span in (top, middle, leaf)} == {"work"}
    assert found[leaf.span_id.hex()]["parent_span_id"] == middle.span_id.hex()
    assert used(run) == 11
    assert export(http, leaf, middle, top) == (0, "")
    assert used(run) == 11


def test_spans_land_after_the_attempt_and_the_execution_have_ended(http: Http, flow: MakeFlow) -> None:
    run, lease = flow(read()).begin()
    trace, above = traced(lease)
    lease.complete().expect(200)
    before = run.until("completed")
    assert export(http, otlp_span(trace, above, **tokens(3))) == (0, "")
    assert used(run) == 3
    after = run.view()
    assert after["usage"] != before["usage"]
    assert {**after, "usage": None} == {**before, "usage": None}
    assert run.types()[-1] == "execution.completed"


def test_a_failed_attempt_s_spans_count_beside_those_of_the_next(http: Http, flow: MakeFlow) -> None:
    made = flow(read(retry={"initial_seconds": 0}))
    run, first = made.begin()
    first.fail().expect(200)
    run.step_until("queued")
    second = made.claim_one()
    for lease, count in ((first, 2), (second, 5)):
        assert export(http, otlp_span(*traced(lease), **tokens(count))) == (0, "")
    assert used(run) == 7
    assert sorted(item["attempt"] for item in shown(run).values() if item["name"] == "call") == [1, 2]


def test_usage_given_outright_stays(http: Http, flow: MakeFlow) -> None:
    run, lease = flow(read()).begin()
    lease.heartbeat(usage=[{"model": "m", "input_tokens": 100}]).expect(200)
    assert export(http, otlp_span(*traced(lease), **tokens(3))) == (0, "")
    assert used(run) == 100


def test_a_caller_s_trace_is_found_too(http: Http, flow: MakeFlow) -> None:
    made = flow(read())
    trace = new_id() + new_id()
    run = made.start(headers={"traceparent": f"00-{trace}-{new_id()}-01"})
    lease = made.claim_one()
    loose, tied = otlp_span(trace, new_id()), otlp_span(*traced(lease), **tokens(4))
    assert export(http, loose, tied) == (0, "")
    found = shown(run)
    assert (found[loose.span_id.hex()]["step"], found[tied.span_id.hex()]["step"]) == (None, "work")
    other = made.start(headers={"traceparent": f"00-{trace}-{new_id()}-01"})
    second = made.claim_one()
    rejected, why = export(http, otlp_span(trace, new_id()), otlp_span(*traced(second), **tokens(6)))
    assert rejected == 1
    assert "several executions" in why
    assert (used(run), used(other)) == (4, 6)


def test_nobody_writes_into_another_s_attempt(http: Http, other: Http, flow: MakeFlow) -> None:
    run, lease = flow(read()).begin()
    trace, above = traced(lease)
    mine = otlp_span(trace, above, **tokens(1))
    assert export(http, mine) == (0, "")
    foreign = otlp_span(trace, above, name="foreign", **tokens(50))
    below = otlp_span(trace, mine.span_id.hex(), name="below", **tokens(50))
    assert export(other, foreign, below) == (0, "")
    found = shown(run)
    assert [found[span.span_id.hex()]["attempt"] for span in (foreign, below)] == [None, None]
    assert used(run) == 1
    for id in (mine.span_id.hex(), above, run.id.replace("-", "")[16:]):
        rejected, why = export(other, otlp_span(trace, above, id=id, name="stolen", **tokens(50)))
        assert (rejected, "spanId" in why) == (1, True)
    # What another keeps loose is not taken along by this worker's spans above it.
    parent = new_id()
    assert export(other, otlp_span(trace, parent, name="waits", **tokens(50))) == (0, "")
    assert export(http, otlp_span(trace, above, id=parent)) == (0, "")
    assert used(run) == 1
    assert "stolen" not in {item["name"] for item in shown(run).values()}


def test_nobody_reaches_another_tenant_s_executions(http: Http, flow: MakeFlow) -> None:
    made = flow(read())
    run = made.start(tenant="ours")
    lease = made.claim_one()
    body = {"name": unique("stranger"), "scopes": ["worker"], "tenants": ["theirs"]}
    stranger = Http(http.url, http.post("/v1/admin/keys", body).expect(201)["secret"])
    rejected, why = export(stranger, otlp_span(*traced(lease)), otlp_span(traced(lease)[0], None))
    assert rejected == 2
    assert "no execution" in why
    assert len(shown(run)) == 2


def test_the_scope_is_worker(http: Http, flow: MakeFlow) -> None:
    _, lease = flow(read()).begin()
    body = export_of(otlp_span(*traced(lease)))
    for scope, status in (("worker", 200), ("read", 403), ("execute", 403)):
        made = http.post("/v1/admin/keys", {"name": unique(), "scopes": [scope], "tenants": ["*"]}).expect(201)
        answer = post(Http(http.url, made["secret"]), body)
        assert answer.status == status, str(answer)
    post(Http(http.url, "nobody"), body).expect_problem(401, "unauthenticated")


def test_spans_that_hang_in_a_ring_stay_loose(http: Http, flow: MakeFlow) -> None:
    run, lease = flow(read()).begin()
    trace, _ = traced(lease)
    one, two = new_id(), new_id()
    assert export(http, otlp_span(trace, two, id=one), otlp_span(trace, one, id=two)) == (0, "")
    assert [shown(run)[id]["step"] for id in (one, two)] == [None, None]


def test_a_page_of_spans_goes_on_behind_the_one_before(http: Http, flow: MakeFlow) -> None:
    run, lease = flow(read()).begin()
    trace, above = traced(lease)
    export(http, *(otlp_span(trace, above) for _ in range(5)), *(otlp_span(trace, new_id()) for _ in range(3)))
    whole = run.http.get(f"{run.path}/spans").expect(200)
    assert whole["next"] is None
    for limit in (1, 3, 4, 10):
        found, cursor = [], None
        while True:
            query = {"limit": limit} | ({"cursor": cursor} if cursor else {})
            page = http.get(f"{run.path}/spans", query=query).expect(200)
            assert len(page["items"]) <= limit
            found += page["items"]
            cursor = page["next"]
            if cursor is None:
                break
            assert lease.id not in base64.urlsafe_b64decode(cursor + "==").decode()
        assert found == whole["items"]
    stranger = flow(read()).start()
    cursor = http.get(f"{run.path}/spans", query={"limit": 2}).expect(200)["next"]
    http.get(f"{stranger.path}/spans", query={"cursor": cursor}).expect_problem(422, "invalid_request")
    for query in ({"limit": 0}, {"limit": 1001}, {"cursor": "x"}):
        http.get(f"{run.path}/spans", query=query).expect_problem(422, "invalid_request")


@pytest.mark.parametrize("batch", ["1", "512"])
def test_an_unmodified_exporter_s_spans_land_in_the_run(http: Http, flow: MakeFlow, batch: str) -> None:
    """With a batch of one every child is sent before its parent."""
    made = flow(read())
    run = made.start()
    env = os.environ | {
        "KEY": http.key or "",
        "OTEL_EXPORTER_OTLP_ENDPOINT": http.url,
        "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer {http.key}",
        "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
        "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": batch,
    }
    command = [sys.executable, "-m", "tests.support.exporting_worker", http.url, made.name]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    run.until("completed")
    found = shown(run)
    assert sorted(item["name"] for item in found.values() if item["worker"] and item["name"] != "work") == [
        *(["body"] + ["chat"] * 3 + ["tool"] + [f"turn {number}" for number in range(3)])
    ]
    by_name = {item["name"]: item for item in found.values()}
    assert by_name["body"]["parent_span_id"] == by_name["work"]["span_id"]
    assert by_name["tool"]["status"] == "error"
    for item in found.values():
        if item["name"] == "chat":
            assert found[item["parent_span_id"]]["name"].startswith("turn")
    assert used(run) == 33


def test_what_waits_below_a_parent_lands_in_its_child(http: Http, flow: MakeFlow) -> None:
    """Both are in one trace: until it is known whose a span is, it waits with the one whose trace it is."""
    below = flow(read())
    above = flow({"id": "sub", "kind": "workflow", "workflow": below.name}).start()
    lease = below.claim_one()
    trace, span_id = traced(lease)
    assert trace == above.id.replace("-", "")
    top = otlp_span(trace, span_id)
    leaf = otlp_span(trace, top.span_id.hex(), **tokens(9))
    assert export(http, leaf) == (0, "")
    assert shown(above)[leaf.span_id.hex()]["step"] is None
    assert export(http, top) == (0, "")
    child = Run(http, lease.data["execution"]["id"], above.started)
    assert {top.span_id.hex(), leaf.span_id.hex()} <= shown(child).keys()
    assert leaf.span_id.hex() not in shown(above)
    assert used(child) == 9
    lease.complete().expect(200)
    assert above.until("completed")["usage"]["input_tokens"] == 9, "with its children"


def test_exports_that_cross_leave_nothing_behind(http: Http, flow: MakeFlow) -> None:
    made = flow(read())
    for _ in range(5):
        run, lease = made.begin()
        trace, above = traced(lease)
        spans = [otlp_span(trace, above)]
        for _ in range(7):
            spans.append(otlp_span(trace, spans[-1].span_id.hex()))
        spans[-1].attributes.append(KeyValue(key="gen_ai.usage.input_tokens", value=AnyValue(int_value=1)))
        answers = together([partial(export, http, span) for span in spans])
        assert answers == [(0, "")] * len(spans)
        found = shown(run)
        assert {found[span.span_id.hex()]["step"] for span in spans} == {"work"}
        assert used(run) == 1
        lease.complete().expect(200)
