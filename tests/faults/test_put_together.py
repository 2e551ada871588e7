"""What a definition puts together is bounded as what comes in is: no deeper, no larger, never a fault."""

import time

import pytest

from tests.faults.figures import resident_bytes
from tests.support.client import Http, Json
from tests.support.daemon import Daemon
from tests.support.definitions import cel, read, unique
from tests.support.flow import make_flow, register

MEGABYTE = 1024 * 1024
LARGE = ["x"] * 50_000
"""200 KB of JSON."""


def nested(levels: int, inside: Json) -> Json:
    """A value of so many arrays, one inside the other."""
    for _ in range(levels):
        inside = [inside]
    return inside


DEEP = nested(90, cel("input"))
SKIPPED = read(when="false")
RULES = [{"id": f"r{number}", "when": "true", "then": cel("input")} for number in range(1_000)]


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"output": DEEP}, "output"),
        ({"updates": [{"path": "/a", "value": DEEP}]}, "state"),
        ({"updates": [{"path": "/a" * 90, "value": cel("input")}]}, "state"),
        ({"outcome": {"rules": [{"when": "true", "then": DEEP}]}}, "outcome"),
    ],
)
def test_a_finish_nested_too_deep_fails_the_execution(http: Http, fields: dict[str, Json], what: str) -> None:
    view = make_flow(http, SKIPPED, **fields).start(input=nested(50, 1)).view()
    assert view["status"] == "failed"
    assert view["error"]["class"] == "finish_invalid"
    assert f"the {what} is nested deeper than 100 levels" in view["error"]["message"]


def test_an_input_nested_too_deep_fails_its_step(http: Http) -> None:
    view = make_flow(http, read(input=DEEP)).start(input=nested(50, 1)).view()
    assert view["error"]["class"] == "invalid_input"
    view = make_flow(http, read(input=DEEP, catch=[{"class": "*", "value": DEEP}])).start(input=nested(50, 1)).view()
    assert view["error"]["class"] == "invalid_output"


@pytest.mark.parametrize("levels", [100, 1_000, 100_000])
def test_a_place_deeper_than_any_value_is_no_update(http: Http, levels: int) -> None:
    answer = register(http, unique(), {"steps": [read()], "updates": [{"path": "/a" * levels, "value": 1}]})
    assert "/updates/0/path" in answer.expect_faults(422, "invalid_definition")
    assert len(answer.body) < 1000


@pytest.mark.parametrize(
    "fields",
    [
        {"updates": [{"path": f"/a{number}", "value": cel("input")} for number in range(2_000)]},
        {"output": [cel("input")] * 2_000},
        {"outcome": {"hit_policy": "collect", "rules": RULES}},
        {"outcome": {"hit_policy": "any", "rules": RULES}},
    ],
    ids=["updates", "output", "collect", "any"],
)
def test_a_large_value_said_often_takes_neither_time_nor_memory(
    served: tuple[Daemon, Http], fields: dict[str, Json]
) -> None:
    daemon, http = served
    work = make_flow(http, SKIPPED, **fields)
    before, began = resident_bytes(daemon.pid), time.monotonic()
    run = work.start(input=LARGE)
    assert time.monotonic() - began < 2
    assert resident_bytes(daemon.pid) - before < 64 * MEGABYTE
    view = run.view()
    assert view["error"]["class"] == "finish_invalid"
    assert len(str(view["error"])) < 1000
