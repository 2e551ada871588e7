"""Traces as a collector gets them: what is told, once, in time, and never at the cost of what is decided."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan

from tests.faults.figures import figures
from tests.support.client import Http, Json
from tests.support.collector import Collector, collector
from tests.support.daemon import Daemon, running
from tests.support.definitions import read, sleep_step, write
from tests.support.flow import Run, make_flow
from tests.support.otlp import export, otlp_span
from tests.support.wait import eventually, moment

CALLER = "4bf92f3577b34da6a3ce929d0e0e4736"
UNSET, OK, ERROR = 0, 1, 2
PIECE = 0.3


@pytest.fixture(scope="module")
def collected() -> Iterator[Collector]:
    with collector() as found:
        yield found


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory, collected: Collector) -> Iterator[Http]:
    env = collected.env | {
        "OTEL_EXPORTER_OTLP_HEADERS": "x-team=core",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test",
    }
    with running(tmp_path_factory.mktemp("traces") / "stepd.db", env=env) as daemon:
        yield Http(daemon.url)


def own_trace(run: Run) -> str:
    return run.id.replace("-", "")


def worker_span(id: str, name: str = "body", **fields: Json) -> Json:
    now = time.time_ns()
    return {"span_id": id, "name": name, "start_unix_nano": str(now), "end_unix_nano": str(now + 5), **fields}


def test_an_execution_is_told_with_its_attempts_and_what_bodies_did(http: Http, collected: Collector) -> None:
    flow = make_flow(http, read())
    run, lease = flow.begin(input={"secret": "payload"})
    spans = [worker_span("a" * 16, attributes={"n": 10**30, "mixed": [1, "a", None, True], "none": None})]
    lease.heartbeat(spans=spans).expect(200)
    lease.heartbeat(spans=[*spans, worker_span("b" * 16, "inner", parent_span_id="a" * 16)]).expect(200)
    lease.complete().expect(200)
    whole, attempt, body, inner = collected.named(own_trace(run), flow.name, "work", "body", "inner")
    assert (whole.parent, whole.status, whole.links) == (None, OK, [])
    assert (attempt.parent, attempt.status) == (whole.span_id, OK)
    assert (body.parent, inner.parent) == (attempt.span_id, body.span_id)
    assert lease.data["traceparent"] == f"00-{own_trace(run)}-{attempt.span_id}-01"
    assert whole.attributes == {
        "stepd.execution.id": run.id,
        "stepd.workflow": flow.name,
        "stepd.version": flow.version,
        "stepd.execution.status": "completed",
    }
    assert attempt.attributes == {
        "stepd.execution.id": run.id,
        "stepd.step": "work",
        "stepd.attempt": 1,
        "stepd.worker": attempt.attributes["stepd.worker"],
        "stepd.attempt.status": "succeeded",
    }
    assert body.attributes == {"n": str(10**30), "mixed": ["1", "a", "true"]}
    assert whole.resource["service.name"] == "stepd"
    assert whole.resource["deployment.environment"] == "test"
    assert body.resource["service.name"] == attempt.attributes["stepd.worker"]
    assert collected.headers["x-team"] == "core"
    shown = {span["span_id"]: span for span in http.get(f"{run.path}/spans").expect(200)["items"]}
    assert {span.span_id for span in (whole, attempt, body, inner)} == shown.keys()
    for span in (whole, attempt, body, inner):
        assert (str(span.start), str(span.end)) == tuple(
            shown[span.span_id][f"{at}_unix_nano"] for at in ("start", "end")
        )


def test_a_failed_attempt_tells_its_class_and_no_message(http: Http, collected: Collector) -> None:
    flow = make_flow(http, read())
    run, lease = flow.begin()
    lease.fail("card_declined", message="number 4711").expect(200)
    whole, attempt = collected.named(own_trace(run), flow.name, "work")
    assert (whole.status, attempt.status) == (ERROR, ERROR)
    assert (whole.attributes["error.type"], attempt.attributes["error.type"]) == ("card_declined", "card_declined")
    assert "4711" not in f"{whole}{attempt}"


def test_a_caller_s_trace_is_gone_on_with_only_if_it_is_followed(http: Http, collected: Collector) -> None:
    flow = make_flow(http, read())
    for flags in ("00", "01"):
        parent = f"00-{CALLER}-{'7' * 15}{flags[1]}-{flags}"
        lease = flow.begin(headers={"traceparent": parent})[1]
        assert lease.data["traceparent"].startswith(f"00-{CALLER}-")
        assert lease.data["traceparent"].endswith(f"-{flags}")
        lease.complete(spans=[worker_span("c" * 16)]).expect(200)
    whole, attempt, body = collected.named(CALLER, flow.name, "work", "body")
    assert whole.parent == "7" * 15 + "1"
    assert (attempt.parent, body.parent) == (whole.span_id, attempt.span_id)


def test_said_again_is_told_once(http: Http, collected: Collector) -> None:
    flow = make_flow(http, read())
    run, lease = flow.begin()
    for _ in range(3):
        lease.complete(1, spans=[worker_span("d" * 16)]).expect(200)
    collected.named(own_trace(run), flow.name, "work", "body")
    marker = make_flow(http, read()).begin()
    marker[1].complete().expect(200)
    eventually(lambda: len(collected.of(own_trace(marker[0]))) == 2)
    assert len(collected.of(own_trace(run))) == 3


def test_a_restart_in_a_long_execution_loses_and_doubles_nothing(tmp_path: Path) -> None:
    with collector() as collected:
        daemon = Daemon(
            tmp_path / "stepd.db", "--span-seconds", str(PIECE), "--drain-seconds", "0.1", env=collected.env
        )
        try:
            http = Http(daemon.start().url)
            flow = make_flow(http, read(lease_seconds=5), sleep_step(seconds=60))
            run, lease = flow.begin()
            began = time.monotonic()

            def beat_until(pieces: int) -> None:
                def so_many() -> bool:
                    lease.heartbeat().expect(200)
                    return sum(span.name == "work" for span in collected.spans) >= pieces

                eventually(so_many, every=PIECE / 5, what=f"{pieces} pieces")

            beat_until(2)
            daemon.stop()
            daemon.start()
            beat_until(4)
            lease.complete().expect(200)
            run.cancel().expect(202)
            run.until("cancelled")
            daemon.stop()
            lasted = time.monotonic() - began
        finally:
            daemon.close()
    for name, attribute, status in (
        ("work", "stepd.attempt.status", "succeeded"),
        (flow.name, "stepd.execution.status", "cancelled"),
    ):
        series = sorted((span for span in collected.spans if span.name == name), key=lambda span: span.start)
        assert len({span.span_id for span in series}) == len(series) >= 5
        assert [span.attributes.get(attribute) == status for span in series] == [False] * (len(series) - 1) + [True]
        assert series[0].links == []
        for before, span in pairwise(series):
            assert span.links == [before.span_id]
            assert span.parent == series[0].span_id
            assert span.start >= before.end
        assert all(span.seconds <= PIECE + 0.001 for span in series)
        assert series[-1].end - series[0].start <= (lasted + 1) * 1e9


def test_the_pieces_are_shown_too(tmp_path: Path) -> None:
    with running(tmp_path / "stepd.db", "--span-seconds", "0.05") as daemon:
        http = Http(daemon.url)
        run, lease = make_flow(http, read()).begin()
        for _ in range(2):
            moment(0.06)
            lease.heartbeat().expect(200)
        shown = http.get(f"{run.path}/spans").expect(200)["items"]
        for name in (shown[0]["name"], "work"):
            series = sorted((span for span in shown if span["name"] == name), key=lambda span: span["start_unix_nano"])
            assert len(series) >= 3
            assert [span["end_unix_nano"] is None for span in series] == [False] * (len(series) - 1) + [True]
            assert [span.get("previous_span_id") for span in series] == [
                None,
                *(span["span_id"] for span in series[:-1]),
            ]


@pytest.mark.parametrize(
    "env",
    [{"OTEL_TRACES_EXPORTER": "none"}, {"OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_EXPORTER": "console"}],
)
def test_nothing_is_sent_where_that_is_said(tmp_path: Path, collected: Collector, env: dict[str, str]) -> None:
    seen = collected.requests
    with running(tmp_path / "stepd.db", env=collected.env | env) as daemon:
        run, lease = make_flow(Http(daemon.url), read()).begin()
        lease.complete().expect(200)
        run.until("completed")
        daemon.stop()
        assert ("otlp only" in daemon.output()) == ("console" in env.values())
    assert collected.requests == seen
    assert collected.of(own_trace(run)) == []


@pytest.mark.parametrize("fault", ["refuses", "hangs", "is away"])
def test_a_collector_out_of_order_holds_nothing_up(tmp_path: Path, fault: str) -> None:
    with collector() as broken:
        env = broken.env | {"OTEL_BSP_MAX_QUEUE_SIZE": "8", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "4"}
        env["OTEL_EXPORTER_OTLP_TIMEOUT"] = "20"
        if fault == "refuses":
            broken.status = 400
        elif fault == "hangs":
            broken.open.clear()
        else:
            env["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://127.0.0.1:9"
        with running(tmp_path / "stepd.db", env=env) as daemon:
            http = Http(daemon.url)
            flow = make_flow(http, write())
            began = time.monotonic()
            for _ in range(20):
                flow.begin()[1].begin().complete().expect(200)
            assert time.monotonic() - began < 5
            figure = "failed" if fault == "refuses" else "dropped"
            eventually(lambda: figures(http).value(f"stepd_trace_spans_{figure}_total") > 0, what=figure)
            if fault == "hangs":
                began = time.monotonic()
                assert daemon.stop() == 0
                assert time.monotonic() - began < 8
            assert "Traceback" not in daemon.output()


def test_what_workers_export_is_sent_on_as_it_came(http: Http, collected: Collector) -> None:
    flow = make_flow(http, read())
    run, lease = flow.begin()
    _, trace, above, _ = lease.data["traceparent"].split("-")
    span = otlp_span(trace, above, name="chat", n=1)
    span.events.append(OtlpSpan.Event(name="first token"))
    leaf = otlp_span(trace, span.span_id.hex(), name="leaf")
    assert export(http, leaf) == export(http, span) == export(http, leaf, span) == (0, "")
    lease.complete().expect(200)
    _, _, chat, below = collected.named(trace, flow.name, "work", "chat", "leaf")
    assert (chat.parent, chat.attributes, chat.events) == (above, {"n": 1}, ["first token"])
    assert below.parent == chat.span_id
    assert len(http.get(f"{run.path}/spans").expect(200)["items"]) == 4
