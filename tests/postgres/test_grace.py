"""After an outage of every daemon, or of the network to the server, no live worker has lost its lease.

The outages last seconds, so all of them are played at the same time, each with two daemons and a database of its own.
"""

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path

import pytest

from tests.postgres.relay import Relay, relayed
from tests.support import postgres
from tests.support.client import Http
from tests.support.daemon import Daemon
from tests.support.definitions import brief, write
from tests.support.flow import Lease, Run, make_flow
from tests.support.wait import beside, eventually, moment

OUTAGE_SECONDS = 7.0  # longer than the five seconds after which a daemon knows that there was one

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(postgres.own_server() is not None, reason="the relay stands before the tests' own server"),
]


def killed(daemons: list[Daemon], _: Relay) -> None:
    for daemon in daemons:
        daemon.kill()
    moment(OUTAGE_SECONDS)
    for daemon in daemons:
        daemon.start()


def stopped(daemons: list[Daemon], _: Relay) -> None:
    for daemon in daemons:
        daemon.signal(signal.SIGSTOP)
    moment(OUTAGE_SECONDS)
    for daemon in daemons:
        daemon.signal(signal.SIGCONT)


def cut_off(daemons: list[Daemon], relay: Relay) -> None:
    relay.silence()
    moment(OUTAGE_SECONDS)
    relay.mend()


OUTAGES = {outage.__name__: outage for outage in (killed, stopped, cut_off)}


def play(
    outage: Callable[[list[Daemon], Relay], None], database: postgres.Database, folder: Path
) -> tuple[list[str], list[str]]:
    """A worker that is alive, and one that is late, through the outage; the journals of what they do."""
    with relayed(postgres.cluster().port) as relay:
        url = database.daemon_url.replace(f":{postgres.cluster().port}/", f":{relay.port}/")
        daemons = [Daemon(folder / name, database=url) for name in ("a", "b")]
        try:
            for daemon in daemons:
                daemon.start()
            first, second = (Http(daemon.url) for daemon in daemons)
            late_run, late = begun(first, 1, 4)
            eventually(lambda: "attempt.orphaned" in late_run.types(), what="the lease lapses")
            live_run, live = begun(first, 3, 1)
            outage(daemons, relay)
            eventually(lambda: all(daemon.is_ready() for daemon in daemons), what="both are ready")
            moment(0.5)
            late, live = Lease(second, late.data), Lease(second, live.data)
            assert live.heartbeat().expect(200)["cancel"] is None
            assert live.complete("charged once").expect(200)["late"] is False
            assert late.complete("late but counted").expect(200)["late"] is True
            return live_run.types(), late_run.types()
        finally:
            for daemon in daemons:
                daemon.close()


def begun(http: Http, lease_seconds: float, reclaim_seconds: float) -> tuple[Run, Lease]:
    """A write that has started and is in flight."""
    run, lease = make_flow(http, write(**brief(lease_seconds, reclaim_seconds))).begin()
    return run, lease.begin()


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, "Future[tuple[list[str], list[str]]]"]]:
    databases = {name: postgres.make_database() for name in OUTAGES}
    yield {
        name: beside(partial(play, outage, databases[name], tmp_path_factory.mktemp("grace")))
        for name, outage in OUTAGES.items()
    }
    for database in databases.values():
        database.drop()


@pytest.mark.parametrize("outage", OUTAGES)
def test_after_an_outage(played: dict[str, "Future[tuple[list[str], list[str]]]"], outage: str) -> None:
    live, late = played[outage].result(90)
    assert live[-1] == late[-1] == "execution.completed"
    assert "attempt.orphaned" not in live
    assert "attempt.late" in late
    assert not {"step.uncertain", "attempt.lost"} & {*live, *late}
