"""Two daemons whose clocks are two minutes apart: no lease lives or dies by that, since the server's clock decides."""

import os
from pathlib import Path

import pytest

from tests.postgres.conftest import MakeDaemon
from tests.support.client import Http
from tests.support.definitions import brief, read, safe_write
from tests.support.flow import Lease, ahead, make_flow
from tests.support.times import instant
from tests.support.wait import eventually, moment

SHIFT = """
import os, time
_time, _time_ns, _by = time.time, time.time_ns, float(os.environ["CLOCK_IS_OFF_BY"])
time.time = lambda: _time() + _by
time.time_ns = lambda: _time_ns() + int(_by * 1e9)
"""


@pytest.fixture
def two(make_daemon: MakeDaemon, tmp_path: Path) -> tuple[Http, Http]:
    """A daemon whose clock is a minute behind, and one whose clock is a minute ahead."""
    (tmp_path / "sitecustomize.py").write_text(SHIFT)
    daemons = []
    for off_by in ("-60", "60"):
        env = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}", "CLOCK_IS_OFF_BY": off_by}
        daemons.append(make_daemon(env=env).start())
    return Http(daemons[0].url), Http(daemons[1].url)


def test_leases_and_times_go_by_the_servers_clock(two: tuple[Http, Http]) -> None:
    behind, in_front = two
    work = make_flow(behind, safe_write(**brief(2.0, 0.3)))
    run, lease = work.begin()
    lease.begin()
    for http in (in_front, behind, in_front):
        moment(0.8)
        Lease(http, lease.data).heartbeat().expect(200)
    assert "attempt.orphaned" not in run.types()
    eventually(lambda: "attempt.lost" in run.types(), seconds=6, what="it lapses, and is taken back")
    events = {event["type"]: instant(event["at"]) for event in run.events()}
    assert 2.0 <= (events["attempt.orphaned"] - events["attempt.leased"]).total_seconds() < 6
    assert 0.2 <= (events["attempt.lost"] - events["attempt.orphaned"]).total_seconds() < 1.5
    started = [make_flow(http, read()).start().started.json["created_at"] for http in two]
    assert abs((instant(started[1]) - instant(started[0])).total_seconds()) < 10
    due = make_flow(in_front, read())
    late = due.start(start_at=ahead(in_front, 0.5))
    assert late.view()["status"] == "scheduled"
    assert late.until("queued", seconds=3)
