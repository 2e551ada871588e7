"""Bodies that are too large, too slow, broken off or hostile leave the daemon's memory as it was."""

import json
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest

from tests.faults.conftest import MakeDaemon
from tests.faults.figures import figures, open_sockets, resident_bytes
from tests.faults.hostile import NO_JSON
from tests.support import raw
from tests.support.client import Http
from tests.support.daemon import Daemon
from tests.support.definitions import read, unique
from tests.support.flow import make_flow, register
from tests.support.raw import Pending
from tests.support.wait import eventually, together

MEGABYTE = 1024 * 1024
FLAT = 12 * MEGABYTE
ROUNDS = 4
"""The allocator keeps what the busiest moment needed, which may come in any round; a leak comes in all of them."""
BODY_MAX = 1024 * 1024
START = b'{"workflow":"none","input":%b}'


@pytest.fixture
def daemon(make_daemon: MakeDaemon) -> Daemon:
    return make_daemon().start()


def declared(http: Http) -> Pending:
    """Says that more comes than may, and sends it."""
    return raw.send_bytes(http, raw.head(http, "POST", "/v1/executions", 2 * MEGABYTE) + b"x" * 2 * MEGABYTE)


def chunked(http: Http) -> Pending:
    """Doesn't say how much comes, and sends too much."""
    head = raw.head(http, "POST", "/v1/executions", 0, {"Transfer-Encoding": "chunked"})
    head = head.replace(b"Content-Length: 0\r\n", b"")
    return raw.send_bytes(http, head + (b"10000\r\n" + b"x" * 65536 + b"\r\n") * 20 + b"0\r\n\r\n")


def cut_off(http: Http) -> Pending:
    """Stops in the middle and leaves."""
    return raw.send_bytes(http, raw.head(http, "POST", "/v1/executions", BODY_MAX) + b"x" * (BODY_MAX - 1))


@pytest.mark.parametrize("send", [declared, chunked, cut_off])
def test_bodies_over_the_limit_leave_no_memory_behind(daemon: Daemon, send: Callable[[Http], Pending]) -> None:
    http = Http(daemon.url)
    sockets = open_sockets(daemon.pid)
    sizes = []
    for _ in range(ROUNDS):
        _send_and_leave(http, send, 150)
        eventually(lambda: open_sockets(daemon.pid) <= sockets, seconds=5, what="all connections are closed")
        sizes.append(resident_bytes(daemon.pid))
    grown = [after - before for before, after in pairwise(sizes)]
    assert min(grown) < FLAT, f"{grown} bytes more after each 150 bodies: what is left behind grows every time"
    assert sizes[-1] - sizes[0] < FLAT * (ROUNDS - 1), f"{grown} bytes more after each 150 bodies"
    assert http.get("/v1/executions").expect(200)["items"] == []


def _send_and_leave(http: Http, send: Callable[[Http], Pending], count: int) -> None:
    for number in range(count):
        pending = send(http)
        if send is not cut_off:
            assert pending.has_answer(5)
            assert b" 413 " in pending.link.recv(64)
        (pending.leave if number % 2 else pending.vanish)()


def test_many_slow_bodies_at_once_hold_only_what_they_sent(daemon: Daemon) -> None:
    """200 clients that each send most of the largest body and then nothing; the daemon serves others meanwhile."""
    http = Http(daemon.url)
    before = resident_bytes(daemon.pid)
    sent = 256 * 1024
    slow = [raw.send_bytes(http, raw.head(http, "POST", "/v1/executions", BODY_MAX) + b"x" * sent) for _ in range(200)]
    try:
        assert http.get("/v1/executions").status == 200
        assert resident_bytes(daemon.pid) - before < 3 * 200 * sent
    finally:
        for each in slow:
            each.vanish()
    assert http.get("/v1/executions").status == 200


def hostile_round(http: Http, workflow: str, seed: int) -> int:
    """One of each kind of request that is refused; how many it was."""
    bodies = [START % value for value in NO_JSON.values()]
    bodies += [
        START % (b"[" * 500_000 + b"]" * 500_000),
        START % (b'{"a":' * 150_000),
        b'{"' + b"a" * 900_000 + b'":1}',
    ]
    bodies += [
        json.dumps({f"unknown{seed}-{number}": 1 for number in range(2_000)}).encode(),
        b"[" + b"1," * 400_000 + b"1]",
    ]
    for body in bodies:
        assert http.send("POST", "/v1/executions", raw=body).status in (400, 413, 422)
    for path in (
        f"/v1/executions/{unique()}",
        f"/v1/{unique()}",
        f"/v1/executions?label={unique()}",
        "/v1/executions?limit=x",
    ):
        assert http.get(path).status in (404, 422)
    bad = {"steps": [read(f"s{number}", when=f"nonsense{seed}.a{number} +") for number in range(100)]}
    assert register(http, f"{workflow}-{seed}", bad).status == 422
    return len(bodies) + 5


def test_thousands_of_hostile_requests_leave_memory_flat(daemon: Daemon) -> None:
    http = Http(daemon.url)
    work = make_flow(http, read())
    rounds: list[Callable[[], int]] = [partial(hostile_round, http, work.name, seed) for seed in range(3)]
    first = together(rounds)
    assert len(first) == 3
    before = resident_bytes(daemon.pid)
    sent = sum(hostile_round(http, work.name, seed) for seed in range(10, 50))
    assert sent > 800
    grown = resident_bytes(daemon.pid) - before
    assert grown < FLAT, f"{grown} bytes more after {sent} requests"
    assert all(line.labels["status"] != "500" for line in figures(http).lines("stepd_http_requests_total"))
    assert "Traceback" not in daemon.output()
