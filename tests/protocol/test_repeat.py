"""Steps that run again until a condition holds, seen from outside."""

from __future__ import annotations

from tests.protocol.conftest import MakeFlow
from tests.support.client import Json
from tests.support.definitions import cel, read, safe_write
from tests.support.flow import Flow


def loop(flow: MakeFlow, step: Json, *others: Json, until: str = "last.done", max: int = 5, **more: Json) -> Flow:
    return flow({**step, "repeat": {"until": until, "max": max, **more}}, *others)


def test_rounds_follow_until_the_condition_holds(flow: MakeFlow) -> None:
    work = loop(flow, read(), read("after", input=cel("steps.work.output")))
    run = work.start(input={"a": 1})
    first = work.claim_one()
    assert (first.data["index"], first.data["input"], first.data["idempotency_key"]) == (
        0,
        {"a": 1},
        f"{run.id}:work[0]",
    )
    work.assert_idle()
    first.complete({"done": False})
    second = work.claim_one()
    assert (second.data["index"], second.data["input"]) == (1, {"a": 1})
    second.complete({"done": True, "rounds": 2})
    assert run.step()["items"] == {"succeeded": 2}
    assert work.claim_step("after").data["input"] == {"done": True, "rounds": 2}


def test_the_next_input_is_made_of_the_last_output(flow: MakeFlow) -> None:
    work = loop(flow, read(), next={"page": cel("last.next"), "after": cel("index")})
    work.start(input={"page": 1})
    work.claim_one().complete({"done": False, "next": 7})
    assert work.claim_one().data["input"] == {"page": 7, "after": 0}


def test_the_answer_to_a_complete_may_hold_the_next_round(flow: MakeFlow) -> None:
    work = loop(flow, read(), until="index == 2")
    run = work.start()
    lease = work.claim_one()
    for claim_id in ("a", "b"):
        following = {"worker": "tester", "claim_id": f"{run.id}-{claim_id}", "serves": [{"workflow": work.name}]}
        answer = lease.complete(next=following).expect(200)
        lease = type(lease)(lease.http, answer["leases"][0])
    lease.complete()
    assert run.view()["status"] == "completed"


def test_out_of_rounds_the_step_fails(flow: MakeFlow) -> None:
    work = loop(flow, read(), max=1)
    run = work.start()
    work.claim_one().complete({"done": False})
    view = run.view()
    assert (view["status"], view["error"]["class"]) == ("failed", "repeat_limit")
    assert view["steps"][0]["items"] == {"succeeded": 1}


def test_out_of_rounds_may_be_caught(flow: MakeFlow) -> None:
    work = loop(flow, read(catch=[{"class": "repeat_limit", "value": "enough"}]), max=1)
    run = work.start()
    work.claim_one().complete({"done": False})
    assert run.view(include="payloads")["steps"][0]["output"] == "enough"


def test_writes_out_of_rounds_need_an_operator(flow: MakeFlow) -> None:
    work = loop(flow, safe_write(), max=1)
    run = work.start()
    work.claim_one().complete({"done": False})
    view = run.until("reconciliation_required")
    assert (view["steps"][0]["status"], view["standing_writes"]) == ("uncertain", [{"step": "work", "index": 0}])
    run.resolve("resume", results=[{"step": "work", "outcome": "succeeded", "output": 1}]).expect(200)
    assert run.view()["status"] == "completed"


def test_rounds_are_paged_like_items(flow: MakeFlow) -> None:
    work = loop(flow, read(), until="index == 2")
    run = work.start()
    for number in range(3):
        work.claim_one().complete(number)
    found = run.items(include="payloads").expect(200)
    assert [(item["index"], item["output"]) for item in found["items"]] == [(0, 0), (1, 1), (2, 2)]


def test_rounds_of_a_child_follow_each_other(flow: MakeFlow) -> None:
    child = flow(read())
    parent = flow(
        {
            "id": "turns",
            "kind": "workflow",
            "workflow": child.name,
            "input": {"turn": 0},
            "repeat": {"until": "last == 3", "max": 9, "next": {"turn": cel("index + 1")}},
        },
        output=cel("steps.turns.output"),
    )
    child_output = {"output": cel("steps.work.output")}
    child = flow(read(), name=child.name, version="2", **child_output)
    run = parent.start()
    turns = []
    for number in (1, 2, 3):
        lease = child.claim_one()
        turns.append(lease.data["input"]["turn"])
        lease.complete(number)
    assert run.until("completed")["output"] == 3
    assert turns == [0, 1, 2]
    items = run.items("turns").expect(200)["items"]
    assert len({item["child"] for item in items}) == 3
