"""The whole daemon stops: at once when nothing is due, after the last outcome when some are, never later than told."""

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.client import Http
from tests.support.daemon import Daemon
from tests.support.definitions import read, write
from tests.support.flow import make_flow
from tests.support.raw import Pending, head, send, send_bytes
from tests.support.wait import eventually, moment

STREAM = {"Accept": "text/event-stream"}
STOP_SECONDS = 5.0
"""The edge itself ends within two; the rest is for a busy machine to take its process down."""


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path / "stepd.db")
    yield daemon.start()
    daemon.close()


@pytest.fixture
def http(daemon: Daemon) -> Http:
    return Http(daemon.url)


def parked_claim(http: Http, workflow: str) -> Pending:
    claim = {"worker": "w", "claim_id": f"c{time.monotonic_ns()}", "serves": [{"workflow": workflow}]}
    return send(http, "POST", "/v1/leases/claim", claim)


def parked(http: Http) -> int:
    """How many claims wait."""
    lines = http.get("/metrics").text.splitlines()
    return int(float(next(line.split()[1] for line in lines if line.startswith("stepd_claims_parked "))))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_with_nothing_due_it_stops_at_once(daemon: Daemon, http: Http, number: signal.Signals) -> None:
    flow = make_flow(http, read())
    claims = [parked_claim(http, flow.name) for _ in range(20)]
    run = flow.start()
    eventually(lambda: parked(http) == 19)
    lease_id, fence = _dealt(claims)
    http.post(f"/v1/leases/{lease_id}/complete", {"fence": fence}).expect(200)
    open_run = make_flow(http, read()).start()
    streams = [send_bytes(http, head(http, "GET", f"{open_run.path}/events", 0, STREAM)) for _ in range(5)]
    waiting = send_bytes(http, head(http, "GET", f"{open_run.path}?wait_seconds=60", 0))
    half_head = send_bytes(http, b"POST /v1/exec")
    half_body = send_bytes(http, head(http, "POST", "/v1/executions", 100) + b'{"a":')
    assert all(stream.has_answer(5) for stream in streams)
    assert run.view()["status"] == "completed"
    began = time.monotonic()
    daemon.signal(number)
    assert daemon.ended(STOP_SECONDS) == 0
    assert time.monotonic() - began < STOP_SECONDS
    for claim in claims[1:]:
        answer = claim.read_to_end(1)
        assert answer.startswith(b"HTTP/1.1 200 "), answer
        assert b'{"leases":[],' in answer
    assert waiting.read_to_end(1).startswith(b"HTTP/1.1 200 ")
    assert half_body.read_to_end(1).startswith(b"HTTP/1.1 503 ")
    assert half_head.read_to_end(1) == b""
    for stream in streams:
        assert stream.read_to_end(1).endswith(b"0\r\n\r\n")
    assert "Traceback" not in daemon.output()


def test_while_outcomes_are_due_it_takes_them_and_nothing_else(daemon: Daemon, http: Http) -> None:
    flow = make_flow(http, write())
    run, lease = flow.begin()
    lease.begin()
    waiting = parked_claim(http, flow.name)
    eventually(lambda: parked(http) == 1)
    daemon.signal(signal.SIGTERM)
    assert b'{"leases":[],' in waiting.read_to_end(5)
    http.get("/readyz").expect_problem(503, "unavailable")
    assert http.get("/healthz").status == 200
    for answer in (flow.attempt_start(), flow.attempt_claim()):
        answer.expect_problem(503, "unavailable")
        assert int(answer.headers["retry-after"]) >= 1
    lease.heartbeat().expect(200)
    assert run.view()["status"] == "running"
    answer = lease.complete({"n": 1}, next={"worker": "w", "claim_id": "n", "serves": [{"workflow": flow.name}]})
    assert answer.expect(200)["leases"] == []
    assert daemon.ended(STOP_SECONDS) == 0


def test_it_waits_no_longer_than_told(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "stepd.db", "--drain-seconds", "1")
    try:
        daemon.start()
        make_flow(Http(daemon.url), read()).begin()
        began = time.monotonic()
        assert daemon.stop(1 + STOP_SECONDS) == 0
        assert time.monotonic() - began >= 1
    finally:
        daemon.close()


def test_a_second_signal_stops_it_at_once(daemon: Daemon, http: Http) -> None:
    make_flow(http, read()).begin()
    daemon.signal(signal.SIGTERM)
    eventually(lambda: http.get("/readyz").status == 503)
    daemon.signal(signal.SIGTERM)
    assert daemon.ended(STOP_SECONDS) == 1


def test_what_was_waiting_is_there_after_a_restart(daemon: Daemon, http: Http) -> None:
    flow = make_flow(http, read())
    run = flow.start()
    assert daemon.stop() == 0
    daemon.start()
    assert run.view()["status"] == "queued"
    flow.claim_one().complete().expect(200)
    assert run.view()["status"] == "completed"


@pytest.mark.slow
def test_a_daemon_that_stood_still_gives_grace_before_anything_else(tmp_path: Path) -> None:
    flags = ("--lease-seconds", "3", "--reclaim-seconds", "1", "--heartbeat-seconds", "1")
    daemon = Daemon(tmp_path / "stepd.db", *flags)
    try:
        http = Http(daemon.start().url)
        run, lease = make_flow(http, write()).begin()
        lease.begin()
        daemon.signal(signal.SIGSTOP)
        moment(7)
        daemon.signal(signal.SIGCONT)
        lease.heartbeat().expect(200)
        lease.complete().expect(200)
        assert run.view()["status"] in ("completed", "running")
        assert "every lease was given grace" in daemon.output()
    finally:
        daemon.close()


def _dealt(claims: list[Pending]) -> tuple[str, int]:
    """The lease that the first claim was dealt."""
    answer = claims[0].link.recv(65536)
    while b"\r\n\r\n" not in answer or not answer.rstrip().endswith(b"}"):
        answer += claims[0].link.recv(65536)
    lease = json.loads(answer.partition(b"\r\n\r\n")[2])["leases"][0]
    claims[0].leave()
    return lease["id"], lease["fence"]
