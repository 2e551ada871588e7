"""The database file can't be had for a while: calls are 503, /readyz is red, and all goes on by itself afterwards."""

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from uuid import uuid4

import pytest

from tests.faults import outages
from tests.faults.conftest import MakeDaemon
from tests.faults.figures import figures
from tests.support.client import Answer, Http
from tests.support.daemon import Daemon
from tests.support.definitions import read, unique, write
from tests.support.flow import Flow, claim, listed, make_flow
from tests.support.wait import beside, eventually, together

OUTAGES: dict[str, Callable[[Path], AbstractContextManager[None]]] = {
    name: getattr(outages, name) for name in ("locked", "full", "read_only", "vanished", "exchanged")
}


@pytest.fixture
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Where the database goes: on a small disk for the test that fills it."""
    needs_small_disk = request.node.callspec.params["outage"] == "full"
    place = outages.small_disk(tmp_path / "small") if needs_small_disk else contextlib.nullcontext(tmp_path)
    with place as folder:
        yield folder / "stepd.db"


@pytest.mark.parametrize("outage", OUTAGES)
def test_while_the_file_is_away_and_afterwards(file: Path, make_daemon: MakeDaemon, outage: str) -> None:
    daemon = make_daemon("--drain-seconds", "0", file=file).start()
    http = Http(daemon.url)
    work, other = make_flow(http, read()), make_flow(http, write())
    acknowledged = {work.start(input=number).id for number in range(5)}
    run, lease = other.begin()
    lease.begin()
    parked = beside(lambda: claim(http, {"serves": [{"workflow": work.name}], "max": 1, "wait_seconds": 20}))
    assert parked.result(5).expect(200)["leases"], "it is served"
    waiting = beside(lambda: claim(http, {"serves": [{"workflow": other.name}], "wait_seconds": 40}))
    with OUTAGES[outage](file):
        check_refused(work, acknowledged)
        eventually(lambda: http.get("/readyz").status == 503, seconds=10, what="it is not ready")
        http.get("/readyz").expect_problem(503, "unavailable")
        assert http.get("/healthz").status == 200
        assert figures(http).value("stepd_http_requests_total", operation="start_execution", status="503") >= 1
        check_away(lease.complete("once"))
        check_away(http.send("PUT", f"/v1/workflows/{unique()}", {"steps": [read()]}))
        began = time.monotonic()
        for answer in together([work.attempt_start] * 20):
            check_away(answer)
        assert time.monotonic() - began < 6, "they waited one behind the other"
        assert not daemon.has_ended()
    eventually(lambda: http.get("/readyz").status == 200, seconds=15, what="it is ready again by itself")
    assert lease.complete("once").expect(200)["replayed"] is False
    assert run.view()["status"] == "completed"
    check_nothing_lost(work, acknowledged)
    other.start()
    if (answer := waiting.result(10)).status != 200:
        check_away(answer)
        assert other.claim_one().attempt == 1
    assert daemon.stop() == 0
    assert "Traceback" not in daemon.output()


def check_refused(work: Flow, acknowledged: set[str]) -> None:
    """Starts are taken until one is refused; what was taken is remembered."""

    def refused() -> bool:
        answer = work.attempt_start(input="x" * 5000)
        if answer.status == 202:
            acknowledged.add(answer.json["id"])
            return False
        check_away(answer)
        return True

    eventually(refused, seconds=15, every=0.005, what="a start is refused")


def check_away(answer: Answer) -> None:
    problem = answer.expect_problem(503, "unavailable")
    assert int(answer.headers["retry-after"]) >= 1
    assert not any(word in problem["detail"].lower() for word in ("sqlite", "select", "insert", "/")), problem


def check_nothing_lost(work: Flow, acknowledged: set[str]) -> None:
    """What was acknowledged is there, whole and claimable, and nothing else is."""
    new = work.start().id
    assert {item["id"] for item in listed(work.http, {"workflow": work.name})} == acknowledged | {new}
    claimed = {lease.data["execution"]["id"] for lease in work.claim(max=100)}
    assert len(claimed) >= min(100, len(acknowledged)), "one of them is leased already"
    for id in list(acknowledged)[:20]:
        events = work.http.get(f"/v1/executions/{id}/events").expect(200)["items"]
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))


def test_a_daemon_whose_file_was_removed_acknowledges_nothing_more(tmp_path: Path, make_daemon: MakeDaemon) -> None:
    daemon: Daemon = make_daemon().start()
    work = make_flow(Http(daemon.url), read())
    work.start()
    for name in ("stepd.db", "stepd.db-wal", "stepd.db-shm"):
        (tmp_path / name).unlink()
    check_away(work.attempt_start(headers={"Idempotency-Key": str(uuid4())}))
    assert not (tmp_path / "stepd.db").exists(), "no empty database in its place"
    assert daemon.stop() == 0
