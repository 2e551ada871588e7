"""PostgreSQL can't be had for a while: calls are 503, /readyz is red, and all goes on by itself afterwards."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from tests.postgres import outages
from tests.postgres.conftest import MakeDaemon
from tests.postgres.outages import Server
from tests.postgres.relay import relayed
from tests.support import postgres
from tests.support.client import Answer, Http
from tests.support.daemon import Daemon
from tests.support.definitions import brief, read, write
from tests.support.flow import Flow, Lease, claim, listed, make_flow
from tests.support.wait import beside, eventually, moment, together

OUTAGES: dict[str, Callable[[Server], AbstractContextManager[None]]] = {
    name: getattr(outages, name) for name in ("stopped", "read_only", "silent")
}
AWAY_SECONDS = 8.0
"""A silent network is noticed when an answer has not come in five seconds; then a call is told within two."""
BACK_SECONDS = 8.0


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that tests may stop, with a database in it, behind a network that they may silence."""
    cluster = postgres.Cluster()
    try:
        postgres.prepare(cluster)
        database = postgres.make_in(cluster, "stepd_faults")
        with relayed(cluster.port) as relay:
            url = database.daemon_url.replace(f":{cluster.port}/", f":{relay.port}/")
            yield Server(cluster, relay, database.name, url)
    finally:
        cluster.close()


@pytest.fixture
def daemon(server: Server, make_daemon: MakeDaemon) -> Daemon:
    return make_daemon("--drain-seconds", "0", url=server.url).start()


@pytest.mark.parametrize("longer_seconds", [0, pytest.param(60, marks=pytest.mark.soak)])
@pytest.mark.parametrize("outage", OUTAGES)
def test_while_the_server_is_away_and_afterwards(
    server: Server, daemon: Daemon, outage: str, longer_seconds: int
) -> None:
    http = Http(daemon.url)
    work, other = make_flow(http, read()), make_flow(http, write())
    acknowledged = {work.start(input=number).id for number in range(5)}
    run, lease = other.begin()
    lease.begin()
    waiting = beside(lambda: claim(http, {"serves": [{"workflow": other.name}], "wait_seconds": 30}))
    with OUTAGES[outage](server):
        eventually(lambda: is_refused(work, acknowledged), seconds=AWAY_SECONDS, what="a start is refused")
        eventually(lambda: http.get("/readyz").status == 503, seconds=AWAY_SECONDS, what="it is not ready")
        assert http.get("/healthz").status == 200
        check_away(lease.complete("once"))
        began = time.monotonic()
        for answer in together([work.attempt_start] * 20):
            check_away(answer)
        assert time.monotonic() - began < AWAY_SECONDS, "they waited one behind the other"
        moment(longer_seconds)
    eventually(lambda: http.get("/readyz").status == 200, seconds=BACK_SECONDS, what="it is ready again by itself")
    assert lease.complete("once").expect(200)["replayed"] is False
    assert run.view()["status"] == "completed"
    check_nothing_lost(work, acknowledged)
    check_loops_alive(http)
    other.start()
    if (answer := waiting.result(20)).status == 200:
        assert longer_seconds or answer.json["leases"], "it waited all the time that the outage lasted, and longer"
        for taken in answer.json["leases"]:
            Lease(http, taken).begin().complete().expect(200)
    else:
        check_away(answer)
    assert daemon.stop() == 0
    assert "Traceback" not in daemon.output()


def test_connections_that_are_ended_again_and_again_fail_few_calls_and_leave_no_more_of_them(
    server: Server, daemon: Daemon
) -> None:
    http = Http(daemon.url)
    work = make_flow(http, read())
    refused = 0
    for number in range(60):
        if number % 10 == 5:
            assert server.terminate() >= 1
        answer = work.attempt_start()
        refused += answer.status == 503
        assert answer.status in (202, 503), str(answer)
    assert refused <= 6, "at most the calls that ran into it"
    eventually(lambda: http.get("/readyz").status == 200, what="it is ready")
    check_loops_alive(http)
    eventually(lambda: len(server.query(outages.BACKENDS)) <= 8, what="a bounded number of connections")
    assert "Traceback" not in daemon.output()


def test_when_the_listening_connection_is_ended_others_are_heard_again(
    server: Server, daemon: Daemon, make_daemon: MakeDaemon
) -> None:
    second = make_daemon(url=server.url).start()
    work = make_flow(Http(daemon.url), read())
    assert server.terminate("application_name = 'stepd: hears'") >= 2
    for _ in range(3):
        assert heard_after(work, second) < 1.0, "at the latest by the look twice a second"
    eventually(lambda: "are heard again" in second.output(), seconds=5, what="it listens again")
    assert heard_after(work, second) < 0.4


def heard_after(work: Flow, second: Daemon) -> float:
    """How long after a start through one daemon a claim that is parked at the second one has its lease."""
    http = Http(second.url)
    ask = {"serves": [{"workflow": work.name}], "wait_seconds": 20}
    waiting = beside(lambda: (claim(http, ask).expect(200), time.monotonic()))
    moment(0.1)
    began = time.monotonic()
    work.start()
    answer, at = waiting.result(20)
    Lease(http, answer["leases"][0]).complete().expect(200)
    return at - began


def check_loops_alive(http: Http) -> None:
    """A lapse is swept, and a retry comes due."""
    lapsing = make_flow(http, read(**brief(0.2, 0.1)))
    run, _ = lapsing.begin()
    eventually(lambda: "attempt.lost" in run.types(), seconds=5, what="the lease is taken back")
    failing = make_flow(http, read(retry={"initial_seconds": 0.1}))
    _, lease = failing.begin()
    lease.fail().expect(200)
    assert failing.claim_one().attempt == 2


def is_refused(work: Flow, acknowledged: set[str]) -> bool:
    """Whether a start is refused; what was taken is remembered."""
    answer = work.attempt_start()
    if answer.status == 202:
        acknowledged.add(answer.json["id"])
        return False
    check_away(answer)
    return True


def check_away(answer: Answer) -> None:
    problem = answer.expect_problem(503, "unavailable")
    assert int(answer.headers["retry-after"]) >= 1
    assert not any(word in problem["detail"].lower() for word in ("select", "insert", "127.0.0.1", "/")), problem


def check_nothing_lost(work: Flow, acknowledged: set[str]) -> None:
    """What was acknowledged is there and claimable; what was refused may be there only where its commit was cut off."""
    listed_ids = {item["id"] for item in listed(work.http, {"workflow": work.name})}
    assert acknowledged <= listed_ids
    claimed = {lease.data["execution"]["id"] for lease in work.claim(max=100)}
    assert acknowledged <= claimed
