"""Children: a `workflow` step waits for an execution of its own, and what either comes to reaches the other."""

from __future__ import annotations

from typing import Any

from tests.protocol.conftest import MakeFlow
from tests.support.client import Http, Json
from tests.support.definitions import ONCE, cel, read, safe_write, unique
from tests.support.flow import Flow, Run
from tests.support.wait import eventually

SECONDS = 0.5
"""Within this time what happens to a child is known to its parent; it takes a few milliseconds."""


def sub(child: Flow | str, **fields: Json) -> dict[str, Json]:
    """A step whose child is an execution of that workflow."""
    return {"id": "sub", "kind": "workflow", "workflow": child if isinstance(child, str) else child.name, **fields}


def child_of(run: Run) -> Run:
    """The child of the step `sub`, once it has begun."""
    eventually(lambda: "child.started" in run.types(), seconds=SECONDS, what="a child that has started")
    id_ = run.event("child.started")["data"]["execution"]
    return Run(run.http, id_, run.http.get(f"/v1/executions/{id_}"))


def family(flow: MakeFlow, *, step: dict[str, Any] | None = None, **child: Any) -> tuple[Flow, Run]:
    """The child's workflow, and a parent that has been started."""
    steps = child.pop("steps", [read()])
    below = flow(*steps, output=cel(f"steps.{steps[0]['id']}.output"), **child)
    above = flow(sub(below, **(step or {})), output=cel("steps.sub.output"))
    return below, above.start(correlation="case", labels={"k": "v"}, priority=3, input={"n": 1})


def test_a_child_gives_its_output(flow: MakeFlow) -> None:
    below, run = family(flow, step={"input": {"n": cel("input.n + 1")}})
    lease = below.claim_one()
    assert lease.data["input"] == {"n": 2}
    child = child_of(run)
    assert lease.data["execution"]["id"] == child.id
    step = run.step("sub")
    assert (step["status"], step["child"], step["blocked"]) == ("waiting", child.id, None)
    lease.complete({"found": 1}).expect(200)
    assert run.until("completed", seconds=SECONDS)["output"] == {"found": 1}
    types = run.types()
    assert [one for one in types if one.split(".")[0] in ("wait", "child")] == [
        "wait.armed",
        "child.started",
        "child.ended",
    ]


def test_a_child_takes_after_its_parent(flow: MakeFlow) -> None:
    _, run = family(flow)
    view = child_of(run).view()
    assert (view["correlation"], view["labels"], view["tenant"]) == ("case", {"k": "v"}, None)
    assert view["parent"] == {"execution": run.id, "step": "sub", "index": None}
    assert view["input"] == {"n": 1}
    assert "parent" not in run.view()


def test_a_failed_child_fails_its_step(flow: MakeFlow) -> None:
    below, run = family(flow, steps=[read(retry=ONCE)])
    below.claim_one().fail("card_declined").expect(200)
    error = run.until("failed", seconds=SECONDS)["error"]
    assert (error["class"], error["step"]) == ("child_failed", "sub")
    details = run.step("sub")["error"]["details"]
    assert details["execution"] == child_of(run).id
    assert details["error"]["class"] == "card_declined"


def test_a_failed_child_can_be_caught(flow: MakeFlow) -> None:
    below, run = family(flow, step={"catch": [{"class": "child_failed", "value": "so be it"}]})
    below.claim_one().fail("fatal").expect(200)
    assert run.until("completed", seconds=SECONDS)["output"] == "so be it"
    assert run.step("sub")["caught"]


def test_a_cancelled_parent_cancels_its_child_first(flow: MakeFlow) -> None:
    below, run = family(flow, steps=[safe_write()])
    lease = below.claim_one()
    child = child_of(run)
    run.cancel().expect(202)
    assert run.view()["status"] == "cancelling"
    child.until("cancelling", seconds=SECONDS)
    assert lease.heartbeat().expect(200)["cancel"] is not None
    assert run.view()["status"] == "cancelling"
    lease.fail("cancelled", effect="none").expect(200)
    run.until("cancelled", seconds=SECONDS)
    assert child.view()["status"] == "cancelled"


def test_a_write_below_stands_above(flow: MakeFlow, http: Http) -> None:
    below = flow(safe_write())
    above = flow(sub(below), read("after", retry=ONCE))
    run = above.start()
    below.claim_one().complete().expect(200)
    above.claim_one().fail("fatal").expect(200)
    view = run.until("reconciliation_required")
    assert view["standing_writes"] == [{"step": "sub", "index": None}]
    listed = above.list()["items"][0]
    assert listed["standing_writes"] == view["standing_writes"]


def test_a_child_that_needs_reconciliation_blocks_its_parent(flow: MakeFlow) -> None:
    below, run = family(flow, steps=[safe_write(retry=ONCE)])
    below.claim_one().fail("fatal").expect(200)
    child = child_of(run)
    blocked = eventually(lambda: run.view()["blocked"], seconds=SECONDS, what="the parent is blocked")
    assert (blocked["code"], blocked["execution"]) == ("child_reconciliation", child.id)
    assert run.step("sub")["blocked"] == blocked
    above = run.view()["workflow"]
    for query, blockers in (({"blocked": "true"}, [child.id]), ({"blocked": "false"}, []), ({}, [child.id])):
        items = run.http.get("/v1/executions", query={"workflow": above, **query}).expect(200)["items"]
        assert [one["blocked"]["execution"] for one in items] == blockers


def test_a_workflow_that_is_not_registered(flow: MakeFlow) -> None:
    run = flow(sub(unique())).start()
    error = run.until("failed", seconds=SECONDS)["error"]
    assert error["class"] == "child_failed"
    assert "not registered" in error["message"]


def test_a_version_may_be_named(flow: MakeFlow) -> None:
    name = unique()
    first = flow(read("first"), name=name, version="1")
    flow(read("second"), name=name, version="2")
    run = flow(sub(first, version="1")).start()
    assert child_of(run).view()["version"] == "1"
    assert first.claim_one().step == "first"


def test_a_child_may_be_repeated(flow: MakeFlow) -> None:
    repeat = {"until": "last.left == 0", "max": 10, "next": {"n": cel("last.left")}}
    below, run = family(flow, step={"input": {"n": 3}, "repeat": repeat})
    for left in (2, 1, 0):
        lease = below.claim_one()
        assert lease.data["input"] == {"n": left + 1}
        lease.complete({"left": left}).expect(200)
    assert run.until("completed", seconds=SECONDS)["output"] == {"left": 0}
    started = [event for event in run.events() if event["type"] == "child.started"]
    assert [event["index"] for event in started] == [0, 1, 2]
    rounds = run.items("sub").expect(200)["items"]
    children = {one["id"]: one["parent"]["index"] for one in below.list()["items"]}
    assert [children[one["child"]] for one in rounds] == [0, 1, 2]


def test_a_round_s_child_that_needs_reconciliation_blocks_its_parent(flow: MakeFlow) -> None:
    below, run = family(flow, steps=[safe_write(retry=ONCE)], step={"repeat": {"until": "false", "max": 2}})
    below.claim_one().fail("fatal").expect(200)
    blocked = eventually(lambda: run.view()["blocked"], seconds=SECONDS, what="the parent is blocked")
    assert (blocked["code"], blocked["execution"]) == ("child_reconciliation", child_of(run).id)
    assert run.step("sub")["blocked"] == blocked
    assert run.step("sub")["child"] == blocked["execution"]


def test_children_stand_ten_deep_at_most(flow: MakeFlow, http: Http) -> None:
    name = unique()
    run = flow(sub(name), name=name).start(correlation=name)
    run.until("failed", seconds=5)
    items = http.get("/v1/executions", query={"correlation": name}).expect(200)["items"]
    assert len(items) == 11
    assert {one["status"] for one in items} == {"failed"}


def test_the_journal_of_a_child_names_its_parent(flow: MakeFlow) -> None:
    _, run = family(flow)
    created = child_of(run).event("execution.created")
    assert created["data"]["parent"] == {"execution": run.id, "step": "sub", "index": None}


def test_who_started_the_parent_may_see_the_child(flow: MakeFlow, http: Http) -> None:
    _, run = family(flow)
    child = child_of(run)
    listed = http.get("/v1/executions", query={"workflow": child.view()["workflow"]}).expect(200)["items"]
    assert [one["parent"]["execution"] for one in listed] == [run.id]


def test_a_step_that_times_out_ends_its_child(flow: MakeFlow) -> None:
    _, run = family(flow, step={"timeout_seconds": 0.1})
    child = child_of(run)
    assert run.until("failed", seconds=3)["error"]["class"] == "timeout"
    assert child.view()["status"] == "cancelled"
