"""The view of an execution: its fields, what may be included, what it never shows, and waiting for the end."""

import json
import time
from uuid import uuid4

import pytest

from tests.protocol.conftest import MakeFlow, Target
from tests.support.client import Json
from tests.support.definitions import AT_ONCE, brief, cel, read, safe_write, unique, write
from tests.support.times import instant
from tests.support.wait import beside, eventually, moment

FIELDS = set(
    "id workflow version status direction input output outcome state revision error correlation tenant labels usage "
    "standing_writes signals_not_taken blocked created_at started_at ended_at steps".split()
)
STEP_FIELDS = set("id index status attempt effect next_attempt_at error blocked".split())
SECRET_NAMES = {"fence", "claim_id", "key", "secret", "hash", "input_hash", "authorization"}


def names_in(value: Json) -> set[str]:
    """All names of objects within a value."""
    if isinstance(value, dict):
        return set(value).union(*(names_in(each) for each in value.values()))
    if isinstance(value, list):
        return set().union(*(names_in(each) for each in value))
    return set()


def test_a_view_has_all_of_its_fields(flow: MakeFlow) -> None:
    work = flow(read("a"), safe_write("b"), version="1")
    run = work.start(input={"i": 1}, state={"s": 1}, correlation="c", tenant="t", labels={"k": "v"})
    view = run.view()
    assert view.keys() >= FIELDS
    assert all(step.keys() >= STEP_FIELDS for step in view["steps"])
    expected: dict[str, Json] = {
        "id": run.id,
        "workflow": work.name,
        "version": "1",
        "status": "queued",
        "direction": "forward",
        "input": {"i": 1},
        "output": None,
        "outcome": None,
        "state": {"s": 1},
        "revision": 1,
        "error": None,
        "correlation": "c",
        "tenant": "t",
        "labels": {"k": "v"},
        "standing_writes": [],
        "started_at": None,
        "ended_at": None,
    }
    assert {name: view[name] for name in expected} == expected
    assert [(step["id"], step["index"], step["status"]) for step in view["steps"]] == [
        ("a", None, "queued"),
        ("b", None, "pending"),
    ]
    assert [step["effect"] for step in view["steps"]] == ["read_only", "idempotent_write"]


def test_a_view_follows_the_execution(flow: MakeFlow) -> None:
    work = flow(read("a", retry=AT_ONCE), read("b"))
    run = work.start()
    assert (run.view()["status"], run.statuses()) == ("queued", {"a": "queued", "b": "pending"})
    lease = work.claim_one()
    view = run.view()
    assert (view["status"], run.statuses()) == ("running", {"a": "running", "b": "pending"})
    assert instant(view["started_at"]) >= instant(view["created_at"])
    assert view["steps"][0]["attempt"] == 1
    lease.fail("retryable").expect(200)
    run.step_until("queued", id="a")
    assert run.view()["status"] == "running", "once a lease was given it is queued no more"
    work.claim_one().complete().expect(200)
    assert run.statuses() == {"a": "succeeded", "b": "queued"}
    work.claim_one().complete().expect(200)
    assert (run.view()["status"], run.statuses()) == ("completed", {"a": "succeeded", "b": "succeeded"})


def test_a_failed_step_shows_its_error(flow: MakeFlow) -> None:
    work = flow(read())
    run, lease = work.begin()
    lease.fail("fatal", message="boom", details=[1]).expect(200)
    view = run.view()
    assert view["error"].keys() >= {"class", "message", "step", "cause"}
    assert view["error"] == {**view["error"], "class": "fatal", "message": "boom", "step": "work"}
    assert view["steps"][0]["error"] == {"class": "fatal", "message": "boom", "details": [1]}


def test_payloads_of_steps_are_shown_only_when_asked_for(flow: MakeFlow) -> None:
    work = flow(read("a", input={"secret of a": 1}), read("b", input=cel("steps.a.output")))
    run, lease = work.begin()
    lease.complete({"result of a": 2}).expect(200)
    assert not {"input", "output"} & run.step("a").keys()
    shown = run.view(include="payloads")["steps"]
    assert (shown[0]["input"], shown[0]["output"]) == ({"secret of a": 1}, {"result of a": 2})
    assert shown[1]["input"] == {"result of a": 2}
    assert shown[1].get("output") is None
    assert not any("attempts" in step for step in shown)


def test_attempts_are_shown_with_their_workers_when_asked_for(flow: MakeFlow) -> None:
    work = flow(read(retry=AT_ONCE))
    run = work.start()
    one, two = unique("w"), unique("w")
    work.claim_one(worker=one).fail("retryable", message="first try").expect(200)
    work.claim_one(worker=two).complete().expect(200)
    assert "attempts" not in run.step()
    (step,) = run.view(include="attempts")["steps"]
    assert [(each["attempt"], each["worker"], each["status"]) for each in step["attempts"]] == [
        (1, one, "failed"),
        (2, two, "succeeded"),
    ]
    assert step["attempts"][0]["error"]["message"] == "first try"
    both = run.view(include="attempts,payloads")["steps"][0]
    assert {"attempts", "input", "output"} <= both.keys()


@pytest.mark.parametrize("include", ["secrets", "attempts,secrets", "attempts,,payloads", "attempts payloads"])
def test_what_cannot_be_included_is_refused(flow: MakeFlow, include: str) -> None:
    run = flow(read()).start()
    run.http.get(run.path, query={"include": include}).expect_problem(422, "invalid_request")


def test_no_answer_ever_holds_a_fence_a_claim_id_or_a_key(flow: MakeFlow, target: Target) -> None:
    work = flow(write(**brief(0.3, 0)))
    claim_id, key = str(uuid4()), unique("key")
    run = work.start(headers={"Idempotency-Key": key})
    lease = work.claim_one(claim_id=claim_id)
    lease.begin()
    run.until("reconciliation_required")
    refused = lease.complete("late evidence")
    seen = [
        run.view(include="attempts,payloads"),
        run.events(),
        work.list(),
        run.http.get(f"{run.path}/spans").expect(200),
        refused.expect_refusal("lease_lost"),
        run.http.get("/v1/workers").expect(200),
        run.http.get(f"/v1/workflows/{work.name}").expect(200),
        run.http.get("/v1/service").expect(200),
    ]
    for shown in seen:
        assert not names_in(shown) & SECRET_NAMES
        text = json.dumps(shown)
        for secret in (claim_id, key, target.key):
            assert secret is None or secret not in text


def test_a_view_waits_for_the_end(flow: MakeFlow) -> None:
    work = flow(read())
    run, lease = work.begin()
    waiting = beside(lambda: run.view(wait_seconds=20))
    moment(0.3)
    assert not waiting.done()
    before = time.monotonic()
    lease.complete().expect(200)
    assert waiting.result(5)["status"] == "completed"
    assert time.monotonic() - before < 1


def test_a_view_waits_for_a_need_of_reconciliation_too(flow: MakeFlow) -> None:
    work = flow(write())
    run, lease = work.begin()
    lease.begin()
    waiting = beside(lambda: run.view(wait_seconds=20))
    moment(0.2)
    lease.fail("fatal").expect(200)
    assert waiting.result(5)["status"] == "reconciliation_required"


def test_a_view_waits_no_longer_than_it_was_asked_to(flow: MakeFlow) -> None:
    run = flow(read()).start()
    before = time.monotonic()
    assert run.view(wait_seconds=0.5)["status"] == "queued"
    assert 0.45 <= time.monotonic() - before < 4


def test_a_view_of_what_has_ended_waits_for_nothing(flow: MakeFlow) -> None:
    work = flow(read())
    run, lease = work.begin()
    lease.complete().expect(200)
    before = time.monotonic()
    assert run.view(wait_seconds=30)["status"] == "completed"
    assert time.monotonic() - before < 3


def test_many_may_wait_for_one_end(flow: MakeFlow) -> None:
    work = flow(read())
    run, lease = work.begin()
    waiting = [beside(lambda: run.view(wait_seconds=20)) for _ in range(20)]
    moment(0.3)
    lease.complete().expect(200)
    assert {future.result(5)["status"] for future in waiting} == {"completed"}


def test_a_step_that_nobody_serves_is_blocked(flow: MakeFlow) -> None:
    work = flow(read())
    run = work.start()
    view = run.view()
    for blocked in (view["blocked"], view["steps"][0]["blocked"]):
        assert blocked["code"] == "no_worker"
        assert blocked["detail"]
        instant(blocked["since"])
    assert view["status"] == "queued"
    assert [item["id"] for item in work.list(blocked="true")["items"]] == [run.id]
    assert work.list(blocked="false")["items"] == []


def test_a_worker_that_waits_serves_it(flow: MakeFlow) -> None:
    work = flow(read(), read("other", needs=[]))
    serves = [{"workflow": work.name, "steps": ["other"]}]
    parked = beside(lambda: work.claim(serves=serves, wait_seconds=3))
    moment(0.2)
    run = work.start()
    assert [lease.step for lease in parked.result(5)] == ["other"]
    view = run.view()
    blocked = {step["id"]: step["blocked"] for step in view["steps"]}
    assert blocked["work"]["code"] == "no_worker"
    assert blocked["other"] is None
    assert view["blocked"]["code"] == "no_worker"


@pytest.mark.parametrize(
    ("serves", "is_blocked"),
    [
        ({}, False),
        ({"version": "1"}, False),
        ({"version": "2"}, True),
        ({"steps": ["work"]}, False),
        ({"steps": ["elsewhere"]}, True),
    ],
)
def test_a_worker_is_live_for_a_while_after_its_last_call(
    flow: MakeFlow, serves: dict[str, Json], is_blocked: bool
) -> None:
    work = flow(read(), version="1")
    work.assert_idle(serves=[{"workflow": work.name, **serves}])
    run = work.start()
    assert (run.view()["blocked"] is not None) is is_blocked
    assert (run.step()["blocked"] is not None) is is_blocked


def test_only_what_is_queued_is_blocked(flow: MakeFlow) -> None:
    work = flow(read("a"), read("b"))
    run = work.start()
    assert eventually(lambda: run.step("a")["blocked"])
    assert run.step("b")["blocked"] is None
    run.cancel().expect(202)
    view = run.view()
    assert view["blocked"] is None
    assert {step["blocked"] for step in view["steps"]} == {None}
