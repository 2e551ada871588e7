"""What must hold of a load after crashes: nothing that was acknowledged is lost, and nothing was done twice."""

from collections import Counter
from collections.abc import Sequence

from tests.support.client import Http, Json
from tests.support.flow import listed
from tests.support.journal import checked
from tests.support.worker import Load

STEPS = ["a", "b", "c"]
"""Of each execution; the body of the last one is delivered at most once."""


def all_completed(http: Http, workflow: str) -> bool:
    for status in ("queued", "running", "waiting"):
        query = {"workflow": workflow, "status": status, "limit": 1}
        if http.get("/v1/executions", query=query).expect(200)["items"]:
            return False
    return True


def check_nothing_lost(http: Http, loads: Sequence[Load], executions: int) -> None:
    """Of one workflow, by the threads of these loads together."""
    assert [problem for load in loads for problem in load.problems] == []
    started = {key: id for load in loads for key, id in load.started.items()}
    assert len(started) == executions
    by_id = {item["id"]: item for item in listed(http, {"workflow": loads[0].workflow, "limit": 200})}
    for key, id in started.items():
        assert by_id[id]["status"] == "completed", f"{id} of key {key}: {by_id[id]}"
    outputs = [(place, output) for load in loads for place, output in load.outputs.items()]
    assert len({place for place, _ in outputs}) == len(outputs), "acknowledged twice"
    for (id, step), output in outputs:
        assert shown_output(http, id, step) == output, "what was acknowledged is what is kept"


def check_nothing_doubled(http: Http, loads: Sequence[Load]) -> None:
    started = [id for load in loads for id in load.started.values()]
    bodies = sum((load.bodies for load in loads), Counter[str]())
    assert len(listed(http, {"workflow": loads[0].workflow, "limit": 200})) == len(started), "one execution a key"
    for id in started:
        events = checked(http, id)
        succeeded = [event["step"] for event in events if event["type"] == "step.succeeded"]
        assert sorted(succeeded) == STEPS, f"{id}: {succeeded}"
        assert bodies[f"{id}:c"] == 1, "a body delivered at most once ran once"


def shown_output(http: Http, id: str, step: str) -> Json:
    view = http.get(f"/v1/executions/{id}", query={"include": "payloads"}).expect(200)
    return next(each["output"] for each in view["steps"] if each["id"] == step)
