"""Clients that go away at random instants leave nothing behind: no task, no lock, no lease that nobody has."""

import re
import socket
import threading
from collections.abc import Callable
from functools import partial
from random import Random
from uuid import uuid4

import pytest

from tests.faults.conftest import MakeDaemon
from tests.faults.figures import figures, open_sockets, resident_bytes
from tests.support import raw
from tests.support.client import Http, Json
from tests.support.daemon import Daemon
from tests.support.definitions import brief, read, safe_write
from tests.support.flow import Flow, listed, make_flow
from tests.support.raw import Pending
from tests.support.wait import eventually, moment, together

WARM_UP = 400
REQUESTS = 2_000
THREADS = 8
CROSSED_MAX = 5
"""Of some 700 claims, so many answers at most may be written while the client's leaving is still on its way."""
MEGABYTE = 1024 * 1024

LEASED = re.compile(rb'"execution":\{"id":"([0-9a-f-]{36})"')

Send = Callable[[Http, Flow, Random], Pending]


def start(http: Http, work: Flow, random: Random) -> Pending:
    return raw.send(http, "POST", "/v1/executions", {"workflow": work.name, "input": "x" * random.randrange(5_000)})


def claim(http: Http, work: Flow, random: Random) -> Pending:
    body: dict[str, Json] = {"worker": "goner", "claim_id": str(uuid4()), "max": random.randrange(1, 20)}
    return raw.send(http, "POST", "/v1/leases/claim", {**body, "wait_seconds": 5, "serves": [{"workflow": work.name}]})


def view(http: Http, work: Flow, random: Random) -> Pending:
    id = http.get("/v1/executions", query={"workflow": work.name, "limit": 1}).json["items"][0]["id"]
    query = random.choice(["", "?include=attempts,payloads", "?wait_seconds=30"])
    return raw.send_bytes(http, raw.head(http, "GET", f"/v1/executions/{id}{query}", 0))


def follow(http: Http, work: Flow, random: Random) -> Pending:
    id = http.get("/v1/executions", query={"workflow": work.name, "limit": 1}).json["items"][0]["id"]
    return raw.send_bytes(
        http, raw.head(http, "GET", f"/v1/executions/{id}/events", 0, {"Accept": "text/event-stream"})
    )


def list_all(http: Http, work: Flow, random: Random) -> Pending:
    return raw.send_bytes(http, raw.head(http, "GET", "/v1/executions?limit=200", 0))


def half(http: Http, work: Flow, random: Random) -> Pending:
    """A request that breaks off anywhere."""
    body = b'{"workflow":"%s","input":"%s"}' % (work.name.encode(), b"x" * 2_000)
    whole = raw.head(http, "POST", "/v1/executions", len(body)) + body
    return raw.send_bytes(http, whole[: random.randrange(1, len(whole))])


def register(http: Http, work: Flow, random: Random) -> Pending:
    steps = [read(f"s{number}", when="input.a > 1") for number in range(random.randrange(1, 50))]
    return raw.send(http, "PUT", f"/v1/workflows/{work.name}-2", {"version": str(uuid4()), "steps": steps})


KINDS: tuple[Send, ...] = (start, start, claim, claim, claim, view, follow, list_all, half, register)


def abort_many(http: Http, work: Flow, seed: int, count: int, stop: threading.Event) -> tuple[int, set[str]]:
    """Sends requests of all kinds and breaks each off after a random time.

    How many it was, and the executions of which a lease had arrived before the client left.
    """
    random = Random(seed)
    arrived: set[bytes] = set()
    for _ in range(count):
        if stop.is_set():
            break
        pending = random.choice(KINDS)(http, work, random)
        moment(random.choice((0, 0, 0.0005, 0.002, 0.01)) * random.random())
        arrived |= set(LEASED.findall(pending.arrived()))
        random.choice((Pending.leave, Pending.vanish))(pending)
    return count, {id.decode() for id in arrived}


def abort_beside(http: Http, work: Flow, seed: int, count: int) -> set[str]:
    """So many requests, from several clients at once; the executions of which a lease arrived."""
    stop = threading.Event()
    clients = [
        partial(abort_many, http, work, seed * THREADS + number, count // THREADS, stop) for number in range(THREADS)
    ]
    try:
        done = together([*clients], seconds=60)
    finally:
        stop.set()
    assert sum(number for number, _ in done) == count
    return set().union(*(arrived for _, arrived in done))


@pytest.fixture
def daemon(make_daemon: MakeDaemon) -> Daemon:
    return make_daemon("--drain-seconds", "0").start()


def test_two_thousand_requests_that_were_broken_off_leave_nothing(daemon: Daemon) -> None:
    http = Http(daemon.url)
    work = make_flow(http, safe_write(**brief(lease=60, reclaim=0)))
    work.start()
    figures(http)
    before_sockets = open_sockets(daemon.pid)
    arrived = abort_beside(http, work, 0, WARM_UP)
    before_bytes = resident_bytes(daemon.pid)
    arrived |= abort_beside(http, work, 1, REQUESTS)
    check_nobody_is_waited_for(http, daemon, before_sockets)
    check_no_lease_is_lost(http, work, arrived)
    assert resident_bytes(daemon.pid) - before_bytes < 24 * MEGABYTE
    assert figures(http).value("stepd_http_requests_total") > REQUESTS / 2
    assert all(line.labels["status"] != "500" for line in figures(http).lines("stepd_http_requests_total"))
    assert daemon.stop(10) == 0, "no task held its end up"
    assert "Traceback" not in daemon.output()


def check_nobody_is_waited_for(http: Http, daemon: Daemon, sockets: int) -> None:
    """No claim is parked, no view or stream follows, no connection is open."""
    eventually(lambda: figures(http).value("stepd_claims_parked") == 0, seconds=8, what="no claim is parked")
    eventually(lambda: figures(http).value("stepd_streams_open") == 0, seconds=8, what="no stream is open")
    eventually(lambda: figures(http).value("stepd_views_waiting") == 0, seconds=8, what="no view waits")
    eventually(lambda: open_sockets(daemon.pid) <= sockets, seconds=8, what="all connections are closed")


def check_no_lease_is_lost(http: Http, work: Flow, arrived: set[str]) -> None:
    """Every execution is claimable at once, but for those whose lease had arrived before its client left."""
    runs = {run["id"] for run in listed(http, {"workflow": work.name})}
    claimed: list[str] = []
    while leases := work.claim(max=100):
        claimed += [lease.data["execution"]["id"] for lease in leases]
        for lease in leases:
            lease.complete().expect(200)
    assert len(set(claimed)) == len(claimed)
    held = len(runs) - len(claimed)
    eventually(lambda: figures(http).value("stepd_leases_held") == held, seconds=20, what="each is had by somebody")
    # An answer may cross with its client's leaving, with up to 19 leases in it: they lapse, which leases are for.
    crossed = {leased_at(http, run) for run in runs - set(claimed) - arrived}
    assert len(crossed) <= CROSSED_MAX, f"{len(crossed)} answers that never arrived had leases that did not go back"


def leased_at(http: Http, run: str) -> str:
    """When the execution's lease was dealt: those of one answer have one time."""
    steps = http.get(f"/v1/executions/{run}", query={"include": "attempts"}).expect(200)["steps"]
    return str(steps[0]["attempts"][-1]["leased_at"])


def test_a_write_lock_outlives_no_client(daemon: Daemon) -> None:
    """Starts that are broken off in their body or answer hold no transaction open: the next start is quick."""
    http = Http(daemon.url)
    work = make_flow(http, read())
    for number in range(200):
        pending = half(http, work, Random(number)) if number % 2 else start(http, work, Random(number))
        pending.link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        pending.vanish()
    assert http.send("POST", "/v1/executions", {"workflow": work.name}, timeout=2).status == 202


def test_a_connection_ends_when_its_client_closes_it(daemon: Daemon) -> None:
    """Also an idle one, that could have been kept for more than a minute: else closed ones would pile up."""
    http = Http(daemon.url)
    before = open_sockets(daemon.pid)
    for _ in range(200):
        assert http.get("/healthz").status == 200
    assert eventually(lambda: open_sockets(daemon.pid) <= before, seconds=5, what="all connections are closed")
