"""The daemon is killed again and again under load: nothing acknowledged is lost, and nothing is done twice."""

import random
from functools import partial

import pytest

from tests.crash.conftest import MakeDaemon
from tests.support.client import Http, Json
from tests.support.definitions import cel, read, safe_write, write
from tests.support.flow import listed, make_flow
from tests.support.journal import checked
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
    check_nothing_lost(http, load)
    check_nothing_doubled(http, load)


def all_completed(http: Http, workflow: str) -> bool:
    for status in ("queued", "running", "waiting"):
        query = {"workflow": workflow, "status": status, "limit": 1}
        if http.get("/v1/executions", query=query).expect(200)["items"]:
            return False
    return True


def check_nothing_lost(http: Http, load: Load) -> None:
    assert load.problems == []
    assert len(load.started) == EXECUTIONS
    by_id = {item["id"]: item for item in listed(http, {"workflow": load.workflow, "limit": 200})}
    for key, id in load.started.items():
        assert by_id[id]["status"] == "completed", f"{id} of key {key}: {by_id[id]}"
    for (id, step), output in load.outputs.items():
        assert shown_output(http, id, step) == output, "what was acknowledged is what is kept"


def check_nothing_doubled(http: Http, load: Load) -> None:
    by_id = listed(http, {"workflow": load.workflow, "limit": 200})
    assert len(by_id) == EXECUTIONS, "one execution a key"
    for id in load.started.values():
        events = checked(http, id)
        succeeded = [event["step"] for event in events if event["type"] == "step.succeeded"]
        assert sorted(succeeded) == ["a", "b", "c"], f"{id}: {succeeded}"
        assert load.bodies[f"{id}:c"] == 1, "a body delivered at most once ran once"


def shown_output(http: Http, id: str, step: str) -> Json:
    view = http.get(f"/v1/executions/{id}", query={"include": "payloads"}).expect(200)
    return next(each["output"] for each in view["steps"] if each["id"] == step)
