"""Three daemons are killed in turn under load while connections are ended: nothing is lost, nothing is done twice."""

from functools import partial

import pytest

from tests.postgres.conftest import MakeDaemon
from tests.support import postgres
from tests.support.client import Http
from tests.support.definitions import cel, read, safe_write, write
from tests.support.flow import make_flow
from tests.support.kept import all_completed, check_nothing_doubled, check_nothing_lost
from tests.support.wait import beside, eventually, moment
from tests.support.worker import Load

DAEMONS = 3
WORKERS_EACH = 2
END_SOME = (
    "select pg_terminate_backend(pid) from pg_stat_activity "
    "where application_name like 'stepd%' and datname = current_database() and random() < 0.5"
)


@pytest.mark.parametrize(("executions", "rounds"), [(24, 2), pytest.param(2_001, 60, marks=pytest.mark.soak)])
def test_nothing_is_lost_and_nothing_is_doubled(
    make_daemon: MakeDaemon, database: postgres.Database, executions: int, rounds: int
) -> None:
    daemons = [make_daemon().start() for _ in range(DAEMONS)]
    https = [Http(daemon.url) for daemon in daemons]
    output = [cel(f"steps.{id}.output") for id in "abc"]
    steps = (read("a", input=None), safe_write("b", input=None), write("c", input=None))
    work = make_flow(https[0], *steps, output=output)
    loads = [Load(http, work.name) for http in https]
    starters = [beside(partial(load.start, executions // DAEMONS, 0.02)) for load in loads]
    workers = [beside(load.work) for load in loads for _ in range(WORKERS_EACH)]
    try:
        for number in range(rounds):
            moment(0.3)
            postgres.query(database.superuser_url, END_SOME)
            if number % 2:
                daemon = daemons[number // 2 % DAEMONS]
                daemon.kill()
                daemon.start()
        for starter in starters:
            starter.result(300)
        assert not any(worker.done() for worker in workers)
        eventually(lambda: all_completed(https[0], work.name), seconds=300, every=0.2, what="all are completed")
    finally:
        for load in loads:
            load.stop.set()
    for worker in workers:
        worker.result(10)
    check_nothing_lost(https[1], loads, executions)
    check_nothing_doubled(https[2], loads)
    assert all("Traceback" not in daemon.output() for daemon in daemons)
