"""SIGTERM with everything open at once: clean answers, and an end within two seconds, or two after the last outcome."""

import json
import signal
import time
from dataclasses import dataclass
from uuid import uuid4

import pytest

from tests.faults.conftest import MakeDaemon
from tests.faults.figures import figures
from tests.support.client import Http
from tests.support.definitions import read, unique
from tests.support.flow import make_flow
from tests.support.raw import Pending, head, send, send_bytes
from tests.support.wait import beside, eventually

STOP_SECONDS = 2.0
STREAM = {"Accept": "text/event-stream"}


@dataclass(frozen=True, slots=True)
class Open:
    """Connections in every state that one can be in."""

    polls: list[Pending]
    streams: list[Pending]
    views: list[Pending]
    idle: Pending
    half_head: Pending
    half_body: Pending


def everything(http: Http) -> Open:
    """20 parked claims, 5 streams, 3 views that wait, an idle connection, half a head and half a body."""
    path = make_flow(http, read()).start().path
    claims = [
        {"worker": "w", "claim_id": str(uuid4()), "wait_seconds": 60, "serves": [{"workflow": unique()}]}
        for _ in range(20)
    ]
    opened = Open(
        polls=[send(http, "POST", "/v1/leases/claim", claim) for claim in claims],
        streams=[send_bytes(http, head(http, "GET", f"{path}/events", 0, STREAM)) for _ in range(5)],
        views=[send_bytes(http, head(http, "GET", f"{path}?wait_seconds=60", 0)) for _ in range(3)],
        idle=send_bytes(http, head(http, "GET", "/healthz", 0)),
        half_head=send_bytes(http, b"POST /v1/executions HTTP/1.1\r\nHost: loc"),
        half_body=send_bytes(http, head(http, "POST", "/v1/executions", 1000) + b'{"workflow":"'),
    )
    assert opened.idle.has_answer(5)
    assert all(stream.has_answer(5) for stream in opened.streams)
    eventually(lambda: figures(http).value("stepd_claims_parked") == 20)
    eventually(lambda: figures(http).value("stepd_streams_open") == 5)
    eventually(lambda: figures(http).value("stepd_views_waiting") == 3)
    return opened


def check_waiting_calls(opened: Open) -> None:
    """Whoever waited was answered as if nothing had come."""
    for poll in opened.polls:
        status, answer = _read(poll)
        assert (status, json.loads(answer)["leases"]) == (200, [])
    for view in opened.views:
        status, answer = _read(view)
        assert (status, json.loads(answer)["status"]) == (200, "queued")
    for stream in opened.streams:
        check_ends_with_last_chunk(stream)


def check_ends_with_last_chunk(stream: Pending) -> None:
    """The stream ended; its connection is the client's to use again, or closed behind it."""
    stream.link.settimeout(2)
    read = b""
    while not read.endswith(b"\r\n0\r\n\r\n"):
        piece = stream.link.recv(65536)
        assert piece, f"the stream was cut off: {read[-200:]!r}"
        read += piece
    stream.leave()


def check_unfinished(opened: Open) -> None:
    """What was never asked to its end is refused or just closed."""
    assert opened.half_head.read_to_end(2) == b""
    status, answer = _read(opened.half_body)
    assert (status, json.loads(answer)["code"]) == (503, "unavailable")
    assert opened.idle.read_to_end(2).startswith(b"HTTP/1.1 200 ")


def _read(pending: Pending) -> tuple[int, bytes]:
    """The status and the body of an answer, which must be the connection's last."""
    start, _, body = pending.read_to_end(2).partition(b"\r\n\r\n")
    assert b"\r\nconnection: close" in start.lower(), start
    return int(start.split()[1]), body


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_with_everything_open_it_ends_within_two_seconds(make_daemon: MakeDaemon, number: signal.Signals) -> None:
    daemon = make_daemon().start()
    opened = everything(Http(daemon.url))
    began = time.monotonic()
    daemon.signal(number)
    assert daemon.ended(10) == 0
    assert time.monotonic() - began < STOP_SECONDS
    check_waiting_calls(opened)
    check_unfinished(opened)
    assert "Traceback" not in daemon.output()


def test_with_outcomes_to_come_it_ends_within_two_seconds_of_the_last(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon("--drain-seconds", "20").start()
    http = Http(daemon.url)
    work = make_flow(http, read())
    runs = [work.start() for _ in range(3)]
    leases = work.claim(max=3)
    opened = everything(http)
    daemon.signal(signal.SIGTERM)
    check_waiting_calls(opened)
    http.get("/readyz").expect_problem(503, "unavailable")
    for lease in leases[:2]:
        lease.heartbeat().expect(200)
        lease.complete("done").expect(200)
    assert runs[0].view()["status"] == "completed"
    last = beside(lambda: leases[2].complete("done"))
    assert last.result(5).status == 200
    began = time.monotonic()
    assert daemon.ended(10) == 0
    assert time.monotonic() - began < STOP_SECONDS
    check_unfinished(opened)
    daemon.start()
    assert [run.view()["status"] for run in runs] == ["completed"] * 3
    assert "Traceback" not in daemon.output()


def test_a_drain_that_nobody_uses_up_ends_within_two_seconds_of_its_time(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon("--drain-seconds", "0.5").start()
    http = Http(daemon.url)
    _, lease = make_flow(http, read()).begin()
    opened = everything(http)
    began = time.monotonic()
    daemon.signal(signal.SIGTERM)
    assert daemon.ended(10) == 0
    assert 0.5 <= time.monotonic() - began < 0.5 + STOP_SECONDS
    check_waiting_calls(opened)
    check_unfinished(opened)
    daemon.start()
    assert lease.complete("done").expect(200)["late"] is False
