"""A daemon asked to stop: parked calls are answered, bodies may settle, nothing new begins, it ends in time."""

import signal
import time

import pytest

from tests.crash.conftest import MakeDaemon
from tests.faults.figures import figures
from tests.support import raw
from tests.support.client import Answer, Http
from tests.support.daemon import Daemon
from tests.support.definitions import read, unique, write
from tests.support.flow import Flow, claim, make_flow
from tests.support.stream import Stream
from tests.support.wait import beside, eventually, moment

POLLS = 20


def flow_on(daemon: Daemon) -> Flow:
    return make_flow(Http(daemon.url), write())


def open_calls(http: Http) -> list[float]:
    """How many claims are parked, views wait, and streams are open."""
    said = figures(http)
    return [said.value(f"stepd_{name}") for name in ("claims_parked", "views_waiting", "streams_open")]


def follow(http: Http, path: str) -> int:
    """How many messages a stream had when the daemon ended it."""
    with Stream(http, path, seconds=30) as stream:
        return len(list(stream.messages()))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_parked_calls_are_answered_and_it_ends_at_once(make_daemon: MakeDaemon, number: signal.Signals) -> None:
    daemon = make_daemon().start()
    http, work = Http(daemon.url), flow_on(daemon)
    run = work.start(start_at="2100-01-01T00:00:00Z")
    nothing = {"serves": [{"workflow": unique()}], "wait_seconds": 50}
    polls = [beside(lambda: claim(http, nothing)) for _ in range(POLLS)]
    views = [beside(lambda: http.get(run.path, query={"wait_seconds": 50})) for _ in range(3)]
    streams = [beside(lambda: follow(http, f"{run.path}/events")) for _ in range(5)]
    eventually(lambda: open_calls(http) == [POLLS, 3, 5], what="all of them are parked")
    before = time.monotonic()
    assert daemon.stop(10) == 0
    assert time.monotonic() - before < 5
    for poll in polls:
        assert poll.result(5).expect(200)["leases"] == []
    for view in views:
        assert view.result(5).status in (200, 503)
    assert all(stream.result(5) >= 1 for stream in streams)
    assert "Traceback" not in daemon.output()


def test_it_ends_at_once_where_nothing_is_open(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()
    before = time.monotonic()
    assert daemon.stop(10) == 0
    assert time.monotonic() - before < 3


def test_a_half_sent_request_holds_nothing_up(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()
    http = Http(daemon.url)
    head = raw.head(http, "POST", "/v1/executions", 1000)
    half = [raw.send_bytes(http, head + b'{"workflow"'), raw.send_bytes(http, head[:20]), raw.send_bytes(http, b"")]
    moment(0.3)
    before = time.monotonic()
    daemon.stop(15)
    assert time.monotonic() - before < 8
    for each in half:
        each.leave()


def test_bodies_may_settle_while_nothing_new_begins(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon("--drain-seconds", "10").start()
    http, work = Http(daemon.url), flow_on(daemon)
    run, lease = work.begin()
    lease.begin()
    waiting = work.start()
    daemon.signal(signal.SIGTERM)
    eventually(lambda: http.get("/readyz").status == 503, seconds=5, what="it is not ready any more")
    for answer in (work.attempt_start(), work.attempt_claim(wait_seconds=0)):
        check_unavailable_or_empty(answer)
    assert http.get("/healthz").status == 200
    lease.heartbeat().expect(200)
    lease.complete("done").expect(200)
    assert daemon.ended(12) == 0
    daemon.start()
    assert run.view()["status"] == "completed"
    assert waiting.view()["status"] == "queued"


def check_unavailable_or_empty(answer: Answer) -> None:
    """A start is 503 with the time to wait; a claim is that, or empty."""
    if answer.status == 200:
        assert answer.json["leases"] == []
        return
    answer.expect_problem(503, "unavailable")
    assert float(answer.headers["retry-after"]) > 0


def test_next_takes_nothing_while_it_stops(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon("--drain-seconds", "10").start()
    http, work = Http(daemon.url), flow_on(daemon)
    _, lease = work.begin()
    lease.begin()
    waiting = work.start()
    daemon.signal(signal.SIGTERM)
    eventually(lambda: http.get("/readyz").status == 503, seconds=5)
    body = {"worker": "w", "claim_id": "3f0f7a0e-6f36-4d47-9b44-0d8a0ff7d3a5", "serves": [{"workflow": work.name}]}
    assert lease.complete(next=body).expect(200)["leases"] == []
    daemon.ended(12)
    daemon.start()
    assert waiting.view()["status"] == "queued"


def test_it_waits_no_longer_than_its_drain(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon("--drain-seconds", "1").start()
    _, lease = flow_on(daemon).begin()
    lease.begin()
    before = time.monotonic()
    daemon.stop(10)
    assert time.monotonic() - before < 6
    daemon.start()
    lease.complete().expect(200)


def test_a_second_signal_ends_it_at_once(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon("--drain-seconds", "30").start()
    _, lease = flow_on(daemon).begin()
    lease.begin()
    daemon.signal(signal.SIGTERM)
    eventually(lambda: Http(daemon.url).get("/readyz").status == 503, seconds=5)
    daemon.signal(signal.SIGTERM)
    daemon.ended(4)
    daemon.start()
    assert lease.complete().status == 200


def test_a_stop_loses_nothing(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()
    work = make_flow(Http(daemon.url), read("a"), read("b"))
    run, lease = work.begin()
    lease.complete("x").expect(200)
    events = run.events()
    assert daemon.stop(10) == 0
    daemon.start()
    assert run.events()[: len(events)] == events
    work.claim_one().complete().expect(200)
    assert run.view()["status"] == "completed"
