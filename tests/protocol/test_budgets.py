"""Budgets: who has used up what it may is paused before its next lease, and goes on when it may use more."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Http, Json
from tests.support.definitions import AT_ONCE, read, safe_write, unique, write
from tests.support.flow import Flow, Run
from tests.support.money import exact, price, put_prices, usage
from tests.support.wait import eventually, together

MODEL = "a-model"
USED_UP = {"status": "paused", "reason": "budget_exceeded"}


def child(id: str, workflow: str) -> dict[str, Json]:
    return {"id": id, "kind": "workflow", "workflow": workflow}


def used(tokens: int) -> list[Json]:
    """A usage of so many tokens, of all five kinds where there are enough."""
    each, rest = divmod(tokens, 5)
    return [usage(MODEL, each + rest, each, each, each, each)]


def standing(run: Run) -> Json:
    view = run.view()
    return {"status": view["status"], "reason": view["paused"] and view["paused"]["reason"]}


def resume(run: Run, **budget: Any) -> Any:
    return run.http.post(f"{run.path}/resume", {"budget": budget} if budget else {})


# -- where it is paused -----------------------------------------------------------------------------------------------


def test_it_is_paused_before_the_next_lease(flow: MakeFlow) -> None:
    work = flow(read("a"), read("b"), budget={"tokens": 10})
    run, lease = work.begin()
    answer = lease.complete(usage=used(10)).expect(200)
    assert answer["execution"]["status"] == "paused"
    view = run.view()
    assert view["budget"] == {"cost": None, "tokens": 10}
    assert view["paused"] == {"reason": "budget_exceeded", "since": view["paused"]["since"]}
    assert view["paused"]["since"] >= view["started_at"]
    paused = run.events()[-1]
    assert (paused["type"], paused["data"]) == ("execution.paused", {"reason": "budget_exceeded"})
    work.assert_idle()
    assert resume(run, tokens=11).expect(202)["paused"] is None
    assert run.events()[-1]["data"] == {"budget": {"cost": None, "tokens": 11}}
    work.claim_one().complete().expect(200)
    assert run.view()["status"] == "completed"


def test_one_token_less_goes_on(flow: MakeFlow) -> None:
    work = flow(read("a"), read("b"), budget={"tokens": 11})
    run, lease = work.begin()
    lease.complete(usage=used(10)).expect(200)
    assert run.view()["paused"] is None
    work.claim_one().complete(usage=used(10)).expect(200)
    assert run.view()["status"] == "completed", "nothing is left that could be held back"


def test_next_in_the_same_call_brings_none_of_it(flow: MakeFlow) -> None:
    work = flow(read("a"), read("b"), budget={"tokens": 5})
    run, lease = work.begin()
    claim = {"worker": "tester", "claim_id": str(uuid4()), "serves": [{"workflow": work.name}]}
    assert lease.complete(usage=used(5), next=claim).expect(200)["leases"] == []
    assert standing(run) == USED_UP


@pytest.mark.parametrize("budget", [{"tokens": 0}, {"cost": 0}])
def test_a_budget_of_nothing_stops_it_at_the_start(flow: MakeFlow, budget: Json) -> None:
    work = flow(read())
    run = work.start(budget=budget)
    assert standing(run) == USED_UP
    work.assert_idle()
    resume(run, **dict.fromkeys(budget, 1)).expect(202)
    assert run.view()["status"] == "queued"
    work.claim_one()


def test_a_heartbeat_tells_too_and_its_body_may_end(flow: MakeFlow) -> None:
    work = flow(write("a"), read("b"), budget={"tokens": 5})
    run, lease = work.begin()
    lease.begin()
    assert lease.heartbeat(usage=used(7)).expect(200)["cancel"] is None
    assert standing(run) == USED_UP
    lease.complete(usage=used(9)).expect(200)
    assert run.view()["steps"][0]["status"] == "succeeded"
    work.assert_idle()
    resume(run, tokens=9).expect_problem(409, "not_pausable")
    resume(run, tokens=10).expect(202)
    assert work.claim_one().step == "b"


def test_what_a_failed_attempt_used_counts(flow: MakeFlow) -> None:
    work = flow(read(retry=AT_ONCE), budget={"tokens": 5})
    run, lease = work.begin()
    answer = lease.fail(usage=used(5)).expect(200)
    assert (answer["disposition"], answer["execution"]["status"]) == ("retry_scheduled", "paused")
    work.assert_idle(wait_seconds=0.3)
    resume(run, tokens=6).expect(202)
    assert work.claim_one().attempt == 2


def test_spans_count(flow: MakeFlow) -> None:
    work = flow(read("a"), read("b"), budget={"tokens": 5})
    run, lease = work.begin()
    span: Json = {"span_id": "00f067aa0ba902b7", "name": "chat", "kind": "client", "status": "ok"}
    span |= {"start_unix_nano": "1", "end_unix_nano": "2", "attributes": {}, "usage": used(5)}
    lease.complete(spans=[span]).expect(200)
    assert standing(run) == USED_UP


def test_eight_in_flight_are_all_that_goes_beyond(flow: MakeFlow) -> None:
    work = flow({**read(), "foreach": "input.items"}, budget={"tokens": 10})
    run = work.start(input={"items": list(range(40))})
    leases = work.claim(max=8)
    assert len(leases) == 8
    for lease in leases:
        lease.complete(usage=used(10)).expect(200)
        work.assert_idle()
    assert run.view()["usage"]["input_tokens"] == 8 * 2
    assert run.view()["steps"][0]["items"] == {"succeeded": 8, "queued": 32}
    resume(run, tokens=80).expect_problem(409, "not_pausable")
    resume(run, tokens=81).expect(202)
    assert len(work.claim(max=40)) == 32


def test_rounds_stop_between_two(flow: MakeFlow) -> None:
    work = flow(read(repeat={"until": "last == 3", "max": 9}), budget={"tokens": 10})
    run, lease = work.begin()
    lease.complete(1, usage=used(5)).expect(200)
    work.claim_one().complete(2, usage=used(5)).expect(200)
    assert standing(run) == USED_UP
    work.assert_idle()
    resume(run, tokens=100).expect(202)
    work.claim_one().complete(3).expect(200)
    assert run.view()["status"] == "completed"


# -- money ------------------------------------------------------------------------------------------------------------


def test_money_is_counted_exactly(http: Http, flow: MakeFlow) -> None:
    model = unique()
    put_prices(http, price(model, "0.1", None, None, None))
    work = flow(read("a"), read("b"), budget={"cost": 0.0000003})
    run, lease = work.begin()
    # 3 × 0.1 millionths; in doubles that would be more than 0.3
    lease.complete(usage=[usage(model, 3), usage(unique(), 1_000_000)]).expect(200)
    assert standing(run) == USED_UP
    assert exact(run.http.get(run.path))["budget"]["cost"] == Decimal("0.0000003")
    problem = resume(run, cost=0.0000003).expect_problem(409, "not_pausable")
    assert "0.0000003 USD of 0.0000003 USD" in problem["detail"]
    resume(run, cost=0.000000301).expect(202)
    assert work.claim_one().step == "b"


# -- children ---------------------------------------------------------------------------------------------------------


def test_what_children_use_counts_and_no_further_one_begins(flow: MakeFlow) -> None:
    below = flow(read("a"), read("b"))
    work = flow(child("one", below.name), child("two", below.name), budget={"tokens": 10})
    run = work.start()
    first = below.claim_one(wait_seconds=5)
    first.complete(usage=used(10)).expect(200)
    eventually(lambda: standing(run) == USED_UP)
    second = below.claim_one()
    assert second.step == "b", "a child that has begun has its own definition's budget"
    second.complete(usage=used(5)).expect(200)
    eventually(lambda: run.view()["steps"][0]["status"] == "succeeded")
    below.assert_idle(wait_seconds=0.3)
    assert run.view()["steps"][1]["status"] == "pending"
    resume(run, tokens=15).expect_problem(409, "not_pausable")
    resume(run, tokens=16).expect(202)
    assert below.claim_one(wait_seconds=5).step == "a"


def test_a_child_begins_with_its_own_definitions_budget(flow: MakeFlow) -> None:
    below = flow(read("a"), budget={"tokens": 0})
    work = flow(child("one", below.name))
    run = work.start(budget={"tokens": 5})
    found = eventually(lambda: run.view()["steps"][0].get("child"))
    eventually(lambda: run.http.get(f"/v1/executions/{found}").status == 200)
    view = run.http.get(f"/v1/executions/{found}").expect(200)
    assert (view["status"], view["budget"]) == ("paused", {"cost": None, "tokens": 0})
    assert run.view()["budget"] == {"cost": None, "tokens": 5}


# -- resuming ---------------------------------------------------------------------------------------------------------


def exceed(flow: MakeFlow, **start: Any) -> tuple[Flow, Run]:
    work = flow(read("a"), read("b"))
    run, lease = work.begin(**{"budget": {"tokens": 5}} | start)
    lease.complete(usage=used(7)).expect(200)
    assert standing(run) == USED_UP
    return work, run


def test_resuming_without_raising_is_refused_and_says_how(flow: MakeFlow) -> None:
    work, run = exceed(flow)
    before = run.events()
    for refused in (resume(run), resume(run, tokens=7), resume(run, cost=9)):
        problem = refused.expect_problem(409, "not_pausable")
        assert run.id in problem["detail"]
        assert "7 of " in problem["detail"]
        assert '"tokens": more than 7' in problem["detail"]
    assert run.events() == before
    assert run.view()["budget"] == {"cost": None, "tokens": 5}
    work.assert_idle()


def test_two_resumes_at_once_agree(flow: MakeFlow) -> None:
    work, run = exceed(flow)
    for answer in together([lambda: resume(run, tokens=50), lambda: resume(run, tokens=60)]):
        answer.expect(202)
    assert run.types().count("execution.unpaused") == 1
    assert run.view()["budget"]["tokens"] in (50, 60)
    assert len(work.claim(max=5)) == 1


def test_null_lifts_a_bound_and_what_is_left_out_stays(flow: MakeFlow) -> None:
    _, run = exceed(flow, budget={"tokens": 5, "cost": 3})
    assert resume(run, tokens=None).expect(202)["budget"] == {"cost": 3, "tokens": None}
    assert resume(run, cost=None).expect(202)["budget"] is None


def test_what_goes_on_may_get_another_budget_but_none_that_is_used_up(flow: MakeFlow) -> None:
    work = flow(read("a"), read("b"))
    run, lease = work.begin()
    lease.complete(usage=used(7)).expect(200)
    resume(run, tokens=7).expect_problem(409, "not_pausable")
    assert run.view()["budget"] is None
    assert resume(run, tokens=8).expect(202)["status"] == "running"
    work.claim_one().heartbeat(usage=used(1)).expect(200)
    assert standing(run) == USED_UP


def test_a_pause_that_was_asked_for_says_so(flow: MakeFlow) -> None:
    run = flow(read()).start()
    assert run.view()["paused"] is None
    paused = run.pause().expect(202)["paused"]
    assert (paused["reason"], paused["since"] >= run.view()["created_at"]) == ("requested", True)
    assert run.resume().expect(202)["paused"] is None


def test_cancelling_ends_the_pause(flow: MakeFlow) -> None:
    work, run = exceed(flow)
    run.cancel().expect(202)
    view = run.view()
    assert (view["status"], view["paused"]) == ("cancelled", None)
    work.assert_idle()
    resume(run, tokens=100).expect_problem(409, "already_ended")
    run.resume().expect(202)


def test_a_compensation_is_not_held_back(flow: MakeFlow) -> None:
    work = flow(
        write("charge", compensate="refund"),
        read("check"),
        safe_write("refund"),
        on_failure="compensate",
        budget={"tokens": 5},
    )
    run, lease = work.begin()
    lease.begin()
    lease.complete(usage=used(5)).expect(200)
    assert standing(run) == USED_UP
    run.cancel().expect(202)
    refund = work.claim_one()
    assert refund.step == "refund"
    refund.complete(usage=used(5)).expect(200)
    assert run.view()["status"] == "cancelled"


# -- where it is said -------------------------------------------------------------------------------------------------


def test_a_starts_budget_takes_the_place_of_the_definitions(flow: MakeFlow) -> None:
    work = flow(read(), budget={"tokens": 5, "cost": 1.5})
    assert work.start().view()["budget"] == {"cost": 1.5, "tokens": 5}
    assert work.start(budget=None).view()["budget"] == {"cost": 1.5, "tokens": 5}
    assert work.start(budget={"cost": 2}).view()["budget"] == {"cost": 2, "tokens": None}
    assert work.start(budget={}).view()["budget"] is None


def test_a_start_said_again_keeps_its_first_budget(http: Http, flow: MakeFlow) -> None:
    work = flow(read())
    body: Json = {"workflow": work.name, "budget": {"tokens": 5}}
    headers = {"Idempotency-Key": unique()}
    first = http.post("/v1/executions", body, headers=headers).expect(202)
    assert http.post("/v1/executions", body, headers=headers).expect(202) == first
    body["budget"]["tokens"] = 6
    http.post("/v1/executions", body, headers=headers).expect_problem(409, "idempotency_conflict")


@pytest.mark.parametrize(
    ("budget", "path"),
    [
        ({"tokens": -1}, "/budget/tokens"),
        ({"tokens": 1.5}, "/budget/tokens"),
        ({"tokens": "5"}, "/budget/tokens"),
        ({"tokens": True}, "/budget/tokens"),
        ({"tokens": 2**53 + 1}, "/budget/tokens"),
        ({"cost": -0.5}, "/budget/cost"),
        ({"cost": "5"}, "/budget/cost"),
        ({"cost": True}, "/budget/cost"),
        ({"cost": {}}, "/budget/cost"),
        ({"cost": 0.0000000001}, "/budget/cost"),
        ({"cost": 1e30}, "/budget/cost"),
        ({"money": 5}, "/budget/money"),
        (5, "/budget"),
    ],
)
def test_what_is_no_budget_is_refused_everywhere(flow: MakeFlow, budget: Any, path: str) -> None:
    work = flow(read())
    run = work.start()
    starting = run.http.post("/v1/executions", {"workflow": work.name, "budget": budget})
    resuming = run.http.post(f"{run.path}/resume", {"budget": budget})
    for answer in (starting, resuming):
        assert [fault["path"] for fault in answer.expect_problem(422, "invalid_request")["errors"]] == [path]
    definition = {"steps": [read()], "budget": budget}
    problem = run.http.send("PUT", f"/v1/workflows/{unique()}", definition).expect_problem(422, "invalid_definition")
    assert path in [fault["path"] for fault in problem["errors"]]


def test_a_definition_without_a_budget_keeps_its_digest(http: Http) -> None:
    name = unique()
    digests = []
    for more in ({}, {"budget": None}, {"budget": {"tokens": 5}}, {"budget": {"tokens": 6}}):
        digests.append(http.send("PUT", f"/v1/workflows/{name}", {"steps": [read()], **more}).json["digest"])
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


def test_a_worker_may_not_say_it(flow: MakeFlow) -> None:
    _, lease = flow(read()).begin()
    lease.fail("budget_exceeded").expect_problem(422, "invalid_request")


def test_the_list_shows_it(http: Http, flow: MakeFlow) -> None:
    work, run = exceed(flow)
    found = http.get("/v1/executions", query={"workflow": work.name, "status": "paused"}).expect(200)["items"]
    assert [(one["id"], one["paused"]["reason"], one["budget"]["tokens"]) for one in found] == [
        (run.id, "budget_exceeded", 5)
    ]
