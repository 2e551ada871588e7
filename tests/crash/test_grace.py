"""Grace after an outage: a live worker's lease, or its time to be late, is given anew, and no write becomes uncertain.

The outages last seconds, so all of them are played at the same time, each with a daemon of its own.
"""

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path

import pytest

from tests.support.client import Http
from tests.support.daemon import Daemon
from tests.support.definitions import brief, write
from tests.support.flow import Lease, Run, make_flow
from tests.support.wait import beside, eventually, moment

OUTAGE_SECONDS = 7.0  # longer than the five seconds after which a daemon knows that there was one

pytestmark = pytest.mark.slow


def killed(daemon: Daemon) -> None:
    daemon.kill()
    moment(OUTAGE_SECONDS)
    daemon.start()


def stopped(daemon: Daemon) -> None:
    daemon.signal(signal.SIGSTOP)
    moment(OUTAGE_SECONDS)
    daemon.signal(signal.SIGCONT)


def begun(daemon: Daemon, lease_seconds: float, reclaim_seconds: float) -> tuple[Run, Lease]:
    """A write that has started and is in flight."""
    run, lease = make_flow(Http(daemon.url), write(**brief(lease_seconds, reclaim_seconds))).begin()
    return run, lease.begin()


def live_worker(outage: Callable[[Daemon], None], daemon: Daemon) -> list[str]:
    """The lease and its take-back ran out while nobody could beat: the daemon gives a whole lease more."""
    run, lease = begun(daemon, 3, 1)
    outage(daemon)
    moment(1)
    assert lease.heartbeat().expect(200)["cancel"] is None
    assert lease.complete("charged once").expect(200)["late"] is False
    assert run.view()["status"] == "completed"
    return run.types()


def late_worker(outage: Callable[[Daemon], None], daemon: Daemon) -> list[str]:
    """An orphan's take-back is due during the outage: its holder may still be late for as long as ever."""
    run, lease = begun(daemon, 1, 4)
    eventually(lambda: "attempt.orphaned" in run.types(), what="the lease lapses")
    outage(daemon)
    moment(1)
    lease.heartbeat().expect_refusal("lease_expired")
    assert lease.complete("late but counted").expect(200)["late"] is True
    assert run.view()["status"] == "completed"
    return run.types()


def silent_worker(outage: Callable[[Daemon], None], daemon: Daemon) -> list[str]:
    """Grace is no life: a worker that is gone is found out, a lease and a take-back later."""
    run, _ = begun(daemon, 1, 1)
    outage(daemon)
    assert run.until("reconciliation_required", seconds=8)["error"]["class"] == "lost"
    return run.types()


SCENES = {
    (scene.__name__, outage.__name__): partial(scene, outage)
    for scene in (live_worker, late_worker, silent_worker)
    for outage in (killed, stopped)
}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], "Future[list[str]]"]]:
    daemons: list[Daemon] = []

    def play(name: tuple[str, str], folder: Path) -> list[str]:
        daemons.append(daemon := Daemon(folder / "stepd.db"))
        return SCENES[name](daemon.start())

    yield {name: beside(partial(play, name, tmp_path_factory.mktemp("grace"))) for name in SCENES}
    for daemon in daemons:
        daemon.close()


@pytest.mark.parametrize("outage", ["killed", "stopped"])
@pytest.mark.parametrize(
    ("scene", "told"),
    [("live_worker", "step.succeeded"), ("late_worker", "attempt.late"), ("silent_worker", "attempt.lost")],
)
def test_after_an_outage(
    played: dict[tuple[str, str], "Future[list[str]]"], scene: str, outage: str, told: str
) -> None:
    types = played[scene, outage].result(60)
    assert told in types
    assert ("step.uncertain" in types) is (scene == "silent_worker")
