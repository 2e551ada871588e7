"""After an outage of every daemon, or of the network to the server, no live worker has lost its lease."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.postgres.relay import Relay, relayed
from tests.support import postgres
from tests.support.client import Http
from tests.support.daemon import Daemon
from tests.support.definitions import brief, write
from tests.support.flow import Lease, Run, make_flow
from tests.support.wait import eventually, moment

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


@pytest.mark.parametrize(
    "outage",
    [
        cut_off,
        pytest.param(killed, marks=pytest.mark.soak),
        pytest.param(stopped, marks=pytest.mark.soak),
    ],
    ids=lambda outage: outage.__name__,
)
def test_after_an_outage(
    outage: Callable[[list[Daemon], Relay], None], database: postgres.Database, tmp_path: Path
) -> None:
    live, late = play(outage, database, tmp_path)
    assert live[-1] == late[-1] == "execution.completed"
    assert "attempt.orphaned" not in live
    assert "attempt.late" in late
    assert not {"step.uncertain", "attempt.lost"} & {*live, *late}
