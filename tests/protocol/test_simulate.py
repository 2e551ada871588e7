"""Simulation: what a definition would do, were its steps to come to this; nothing is kept and nobody is called."""

from __future__ import annotations

from typing import Any

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Answer, Http, Json
from tests.support.definitions import cel, read, safe_write, unique, write
from tests.support.flow import Flow

DECISION = {
    "id": "route",
    "kind": "decision",
    "rules": [
        {"id": "big", "when": "steps.look.output.amount > 10", "then": "desk"},
        {"id": "rest", "then": "robot"},
    ],
}


def simulate(flow: Flow, **fields: Json) -> Answer:
    return flow.http.post(f"/v1/workflows/{flow.name}/simulate", fields)


def simulated(flow: Flow, **fields: Json) -> Json:
    return simulate(flow, **fields).expect(200)


def path_of(answer: Json) -> list[tuple[str, str]]:
    return [(step["id"], step["status"]) for step in answer["path"]]


def test_path_rules_updates_state_and_outcome(flow: MakeFlow) -> None:
    work = flow(
        read("look"),
        DECISION,
        read("desk", needs=["route"], when="steps.route.output == 'desk'"),
        read("robot", needs=["route"], when="steps.route.output == 'robot'"),
        outcome={"hit_policy": "collect", "rules": [{"id": "all", "then": cel("steps.route.output")}]},
        updates=[{"path": "/seen", "value": cel("state.n + 1")}],
        output={"by": cel("steps.route.output")},
    )
    answer = simulated(work, state={"n": 1}, steps={"look": {"output": {"amount": 12}}})
    assert path_of(answer) == [
        ("look", "succeeded"),
        ("route", "succeeded"),
        ("desk", "succeeded"),
        ("robot", "skipped"),
    ]
    assert answer["rules"] == [
        {"step": "route", "hit_policy": "first", "rule_ids": ["big"]},
        {"step": None, "hit_policy": "collect", "rule_ids": ["all"]},
    ]
    assert answer["updates"] == [{"path": "/seen", "value": 2}]
    assert answer["state"] == {"n": 1, "seen": 2}
    assert (answer["outcome"], answer["output"]) == (["desk"], {"by": "desk"})
    assert (answer["status"], answer["stopped"], answer["error"]) == ("completed", None, None)
    assert answer["journal"][-1]["type"] == "execution.completed"


def test_a_step_that_is_not_named_does_nothing(flow: MakeFlow) -> None:
    answer = simulated(flow(read("a"), write("b")), steps={"a": None})
    assert path_of(answer) == [("a", "succeeded"), ("b", "succeeded")]
    assert [step["output"] for step in answer["path"]] == [None, None]


def test_nothing_is_stored_and_nobody_is_called(flow: MakeFlow, http: Http) -> None:
    work = flow(read())
    simulated(work)
    assert http.get("/v1/executions", query={"workflow": work.name}).expect(200)["items"] == []
    work.assert_idle()


def test_without_a_body(flow: MakeFlow) -> None:
    work = flow(read())
    assert work.http.post(f"/v1/workflows/{work.name}/simulate").expect(200)["status"] == "completed"


def test_attempts_in_order_and_the_last_for_all_that_follow(flow: MakeFlow) -> None:
    work = flow(read("a"))
    again: Json = {"fail": {"class": "retryable"}}
    answer = simulated(work, steps={"a": [again, {"output": 1}]})
    assert (answer["path"][0]["attempts"], answer["path"][0]["output"]) == (2, 1)
    assert 1.5 < answer["simulated_seconds"] < 3
    answer = simulated(work, steps={"a": [again]})
    assert (answer["status"], answer["path"][0]["attempts"]) == ("failed", 3)
    assert answer["error"]["class"] == "retryable"


def test_a_failure_may_be_caught(flow: MakeFlow) -> None:
    work = flow(read("a", catch=[{"class": "declined", "value": "instead"}]), output=cel("steps.a.output"))
    answer = simulated(work, steps={"a": {"fail": {"class": "declined"}}})
    assert (answer["output"], answer["path"][0]["caught"]) == ("instead", True)


def test_a_write_that_nobody_knows_of(flow: MakeFlow) -> None:
    answer = simulated(flow(write("a")), steps={"a": {"fail": {"class": "fatal"}}})
    assert (answer["status"], path_of(answer)) == ("reconciliation_required", [("a", "uncertain")])


def test_a_worker_that_is_not_heard_of_any_more(flow: MakeFlow) -> None:
    work = flow(write("a"))
    answer = simulated(work, steps={"a": {"fail": {"class": "lost"}}})
    assert answer["status"] == "reconciliation_required"
    assert "attempt.orphaned" in [event["type"] for event in answer["journal"]]
    assert answer["simulated_seconds"] >= 1


def test_writes_that_stand(flow: MakeFlow) -> None:
    answer = simulated(flow(safe_write("a"), read("b")), steps={"b": {"fail": {"class": "fatal"}}})
    assert answer["status"] == "reconciliation_required"
    assert answer["standing_writes"] == [{"step": "a", "index": None}]


def test_waits_take_the_signals_that_are_given(flow: MakeFlow) -> None:
    wait = {"id": "approval", "kind": "wait", "event": "approved", "timeout_seconds": 60}
    work = flow(read(), wait, output=cel("steps.approval.output"))
    answer = simulated(work, signals=[{"name": "approved", "payload": {"by": "ann"}}, {"name": "approved"}])
    assert answer["output"] == {"by": "ann"}
    assert [signal["name"] for signal in answer["signals_not_taken"]] == ["approved"]
    answer = simulated(work)
    assert (answer["error"]["class"], answer["simulated_seconds"]) == ("wait_timeout", 60)


def test_one_that_would_wait_for_ever(flow: MakeFlow) -> None:
    answer = simulated(flow({"id": "w", "kind": "wait", "event": "e"}))
    assert (answer["stopped"], path_of(answer)) == ("nothing_moves", [("w", "waiting")])


def test_children_are_given_outcomes_too(flow: MakeFlow) -> None:
    work = flow({"id": "sub", "kind": "workflow", "workflow": unique()}, output=cel("steps.sub.output"))
    assert simulated(work, steps={"sub": {"output": 7}})["output"] == 7
    answer = simulated(work, steps={"sub": {"fail": {"class": "fatal"}}})
    assert answer["error"]["class"] == "child_failed"


def test_compensations_run(flow: MakeFlow) -> None:
    work = flow(safe_write("a", compensate="undo"), read("b"), read("undo"), on_failure="compensate")
    answer = simulated(work, steps={"b": {"fail": {"class": "fatal"}}})
    assert (answer["status"], answer["direction"]) == ("failed", "compensate")
    assert path_of(answer)[-1] == ("undo", "succeeded")
    assert answer["standing_writes"] == []


def test_items_are_given_their_own(flow: MakeFlow) -> None:
    work = flow(read("each", foreach="input"), output=cel("steps.each.output"))
    again: Json = {"fail": {"class": "retryable"}}
    answer = simulated(work, input=[1, 2, 3, 4], steps={"each": [{"output": "a"}, [again, {"output": "b"}], None]})
    assert answer["output"] == ["a", "b", None, None]
    items = [step for step in answer["path"] if step["index"] is not None]
    assert sorted((step["index"], step["attempts"]) for step in items) == [(0, 1), (1, 2), (2, 1), (3, 1)]


def test_rounds_are_given_their_own(flow: MakeFlow) -> None:
    work = flow(read("loop", repeat={"until": "last == 'done'", "max": 5}), output=cel("steps.loop.output"))
    answer = simulated(work, steps={"loop": [{"output": "on"}, {"output": "on"}, {"output": "done"}]})
    assert answer["output"] == "done"
    assert len([step for step in answer["path"] if step["index"] is not None]) == 3
    assert simulated(work)["error"]["class"] == "repeat_limit"


def test_what_is_too_long_is_cut_off(flow: MakeFlow) -> None:
    work = flow(read("each", foreach="input.map(x, input)"))
    answer = simulated(work, input=[0] * 100)
    assert answer["status"] == "completed"
    loop = flow(read("loop", repeat={"until": "false", "max": 10_000}))
    answer = simulated(loop)
    assert (answer["stopped"], answer["status"]) == ("bounds", "running")


def test_a_named_version(flow: MakeFlow) -> None:
    name = unique()
    work = flow(read("old"), name=name, version="1")
    flow(read("new"), name=name, version="2")
    assert path_of(simulated(work, version="1")) == [("old", "succeeded")]
    assert path_of(simulated(work)) == [("new", "succeeded")]


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "no such step": ({"steps": {"x": None}}, "/steps/x", "invalid_request"),
    "no such kind": ({"steps": {"wait": None}}, "/steps/wait", "invalid_request"),
    "both": ({"steps": {"task": {"output": 1, "fail": {"class": "x"}}}}, "/steps/task", "invalid_request"),
    "empty": ({"steps": {"task": []}}, "/steps/task", "invalid_request"),
    "deep": ({"steps": {"task": [None, {"outputs": 1}]}}, "/steps/task/1/outputs", "invalid_request"),
    "our own class": ({"steps": {"task": {"fail": {"class": "timeout"}}}}, "/steps/task/fail/class", "invalid_request"),
    "state": ({"state": 1}, "/state", "invalid_request"),
    "input": ({"input": "text"}, "/input", "invalid_input"),
    "signal": ({"input": 1, "signals": [{"name": "other"}]}, "/signals/0", "invalid_request"),
    "unknown field": ({"outputs": {}}, "/outputs", "invalid_request"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(flow: MakeFlow, case: str) -> None:
    body, path, code = REFUSED[case]
    wait = {"id": "wait", "kind": "wait", "event": "e"}
    work = flow(read("task"), wait, input_schema={"type": "integer"})
    problem = simulate(work, **body).expect_problem(422, code)
    assert [fault["path"] for fault in problem["errors"]] == [path]


def test_what_is_not_there(http: Http) -> None:
    http.post(f"/v1/workflows/{unique()}/simulate", {}).expect_problem(404, "not_found")
