"""The daemon is killed again and again under load: nothing acknowledged is lost, and nothing is done twice."""

import random
from functools import partial

import pytest

from tests.crash.conftest import MakeDaemon
from tests.support.client import Http
from tests.support.definitions import cel, read, safe_write, write
from tests.support.flow import make_flow
from tests.support.kept import all_completed, check_nothing_doubled, check_nothing_lost
from tests.support.wait import beside, eventually, moment
from tests.support.worker import Load

EXECUTIONS = 160
WORKERS = 4
STARTERS = 2
KILLS = 4


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_and_nothing_is_doubled(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()
    http = Http(daemon.url)
    output = [cel(f"steps.{id}.output") for id in "abc"]
    steps = (read("a", input=None), safe_write("b", input=None), write("c", input=None))
    work = make_flow(http, *steps, output=output)
    load = Load(http, work.name)
    starters = [beside(partial(load.start, EXECUTIONS // STARTERS, 0.05)) for _ in range(STARTERS)]
    workers = [beside(load.work) for _ in range(WORKERS)]
    try:
        for number in range(KILLS):
            moment(random.Random(number).uniform(0.3, 0.9))
            daemon.kill()
            daemon.start()
        for starter in starters:
            starter.result(60)
        assert not any(worker.done() for worker in workers), [
            worker.exception(0) for worker in workers if worker.done()
        ]
        eventually(lambda: all_completed(http, work.name), seconds=60, every=0.2, what="all executions are completed")
    finally:
        load.stop.set()
    for worker in workers:
        worker.result(10)
    check_nothing_lost(http, [load], EXECUTIONS)
    check_nothing_doubled(http, [load])
