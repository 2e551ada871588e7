"""Resolving by HTTP: who may, what is refused, what it leads to, and the first answer again for ever."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Http, Json
from tests.support.definitions import read, safe_write, unique, write
from tests.support.flow import Flow, Run, listed, make_flow
from tests.support.keys import make_key
from tests.support.wait import eventually

EVIDENCE = {"reference": "case 4711", "reason": "seen in the provider's ledger"}


def doubtful(flow: Flow, **fields: Json) -> Run:
    """An execution whose first step may have happened or not."""
    run = flow.start(**fields)
    flow.claim_step("work").begin().fail("fatal").expect(200)
    assert run.view()["status"] == "reconciliation_required"
    return run


def told(outcome: str, step: str = "work", **fields: Json) -> Json:
    return {"step": step, "outcome": outcome, **fields}


@pytest.fixture
def paying(flow: MakeFlow) -> Flow:
    return flow(write(), read("next"))


def test_succeeded_goes_on_with_the_operators_output(paying: Flow) -> None:
    run = doubtful(paying)
    answer = run.resolve("resume", results=[told("succeeded", output={"id": 7}, state={"paid": True})])
    body = answer.expect(200)
    assert body["id"] == run.id
    assert (body["status"], body["direction"], body["revision"]) == ("running", "forward", 2)
    assert body["standing_writes"] == [{"step": "work", "index": None}]
    assert body["resolution"].keys() == {"id", "at", "operator"}
    assert "idempotency-replayed" not in answer.headers
    lease = paying.claim_step("next")
    assert (lease.data["steps"]["work"]["output"], lease.data["state"]) == ({"id": 7}, {"paid": True})
    lease.complete().expect(200)
    assert run.view()["status"] == "completed"
    resolved = run.event("execution.resolved")["data"]
    assert (resolved["action"], resolved["evidence"]["reference"]) == ("resume", "case 4711")


def test_absent_runs_the_body_again_under_the_same_key(paying: Flow) -> None:
    run = paying.start(input={"n": 1})
    first = paying.claim_step("work").begin()
    first.fail("fatal").expect(200)
    run.resolve("resume", results=[told("absent")]).expect(200)
    again = paying.claim_step("work")
    assert again.fence > first.fence
    assert again.attempt == 1
    assert (again.data["input"], again.data["idempotency_key"]) == ({"n": 1}, first.data["idempotency_key"])
    again.begin().complete().expect(200)
    assert run.statuses()["work"] == "succeeded"


def test_as_reported_adopts_what_came_too_late(paying: Flow) -> None:
    run = paying.start()
    lease = paying.claim_step("work").begin()
    run.cancel(force=True).expect(202)
    lease.complete({"id": 8}).expect_refusal("lease_lost")
    answer = run.resolve("resume", results=[told("as_reported")]).expect(200)
    assert (answer["status"], answer["direction"]) == ("cancelled", "cancel")
    assert run.view(include="payloads")["steps"][0]["output"] == {"id": 8}


@pytest.mark.parametrize("verification", ["absent_verified", "compensated_verified", "accepted"])
def test_close_ends_it(paying: Flow, verification: str) -> None:
    run = doubtful(paying)
    answer = run.resolve("close", verification=verification).expect(200)
    assert answer["status"] == "failed"
    view = run.view()
    assert (view["status"], view["revision"], view["steps"][0]["status"]) == ("failed", 1, "failed")
    assert view["steps"][0]["error"]["class"] == verification
    assert [one["step"] for one in view["standing_writes"]] == (["work"] if verification == "accepted" else [])
    run.resolve("close", verification=verification).expect_problem(409, "not_resolvable")


def test_nothing_can_be_absent_where_a_write_stands(flow: MakeFlow) -> None:
    work = flow(safe_write("before"), write())
    run = work.start()
    work.claim_step("before").complete().expect(200)
    work.claim_step("work").begin().fail("fatal").expect(200)
    refused = run.resolve("close", verification="absent_verified").expect_problem(409, "not_resolvable")
    assert "writes stand (before)" in refused["detail"]
    assert run.view()["status"] == "reconciliation_required"


CLOSE = {"action": "close", "verification": "accepted"}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"action": "resume", "results": []}, "/results"),
    ({"action": "resume", "results": [told("absent"), told("absent", "nope")]}, "/results/1/step"),
    ({"action": "resume", "results": [told("absent"), told("absent")]}, "/results/1/step"),
    ({"action": "resume", "results": [told("as_reported")]}, "/results/0/outcome"),
    ({"action": "resume", "results": [told("absent", output=1)]}, "/results/0/outcome"),
    ({"action": "resume", "results": [told("absent", index=0)]}, "/results/0/step"),
    ({"action": "resume", "results": [told("gone")]}, "/results/0/outcome"),
    ({"action": "resume", "results": [told("succeeded", state=[])]}, "/results/0/state"),
    ({"action": "resume", "results": [told("absent")], "verification": "accepted"}, "/verification"),
    ({"action": "close"}, "/verification"),
    ({"action": "close", "verification": "failed"}, "/verification"),
    ({**CLOSE, "status": "completed"}, "/status"),
    ({**CLOSE, "expected_revision": -1}, "/expected_revision"),
    ({**CLOSE, "evidence": {"reference": " ", "reason": "x"}}, "/evidence/reference"),
    ({**CLOSE, "evidence": {"reference": "x", "reason": ""}}, "/evidence/reason"),
    ({**CLOSE, "evidence": {"reference": "x" * 257, "reason": "y"}}, "/evidence/reference"),
    ({**CLOSE, "evidence": {"reference": "x", "reason": "y" * 4001}}, "/evidence/reason"),
    ({**CLOSE, "evidence": {"reference": "x"}}, "/evidence/reason"),
    ({**CLOSE, "evidence": None}, "/evidence"),
    ({"action": "end"}, "/action"),
    ({"results": []}, "/action"),
]


def test_what_cannot_be_said_is_refused_and_changes_nothing(paying: Flow) -> None:
    run = doubtful(paying)
    for fields, place in REFUSED:
        body = dict(fields)
        answer = run.resolve(body.pop("action", None) or "", **body) if "action" in fields else _without_action(run)
        assert place in answer.expect_faults(422, "invalid_request"), str(answer)
    assert run.types()[-1] == "execution.reconciliation_required"


def _without_action(run: Run) -> Any:
    path = f"/v1/admin/executions/{run.id}/resolve"
    return run.http.post(path, {"results": [], "evidence": EVIDENCE}, headers={"Idempotency-Key": "k"})


def test_all_faults_are_named_at_once(paying: Flow) -> None:
    evidence = {"reference": " ", "reason": "x", "by": "me"}
    refused = doubtful(paying).resolve("close", verification="accepted", evidence=evidence)
    assert refused.expect_faults(422, "invalid_request").keys() == {"/evidence/reference", "/evidence/by"}


def test_an_output_must_fit_its_schema_and_may_be_ruled_out(flow: MakeFlow) -> None:
    work = flow(write(output_schema={"type": "object"}))
    run = doubtful(work)
    faults = run.resolve("resume", results=[told("succeeded", output=7)]).expect_faults(422, "invalid_output")
    assert faults.keys() == {"/results/0/output"}
    refused = flow(write(manual_result="refused"))
    run = doubtful(refused)
    run.resolve("resume", results=[told("succeeded")]).expect_faults(422, "invalid_request")
    run.resolve("resume", results=[told("absent")]).expect(200)


def test_an_output_over_its_limit_is_413(paying: Flow) -> None:
    run = doubtful(paying)
    answer = run.resolve("resume", results=[told("succeeded", output="x" * 300_000)])
    assert answer.expect_problem(413, "payload_too_large")["limit"] == 262_144


def test_an_expected_revision_must_be_the_executions(paying: Flow) -> None:
    run = doubtful(paying)
    refused = run.resolve("resume", results=[told("absent")], expected_revision=2)
    assert "its revision is 1, not 2" in refused.expect_problem(409, "not_resolvable")["detail"]
    run.resolve("resume", results=[told("absent")], expected_revision=1).expect(200)


@pytest.mark.parametrize("key", [None, "", "with space", "x" * 256])
def test_a_resolution_needs_a_key(paying: Flow, key: str | None) -> None:
    run = doubtful(paying)
    body = {"action": "close", "verification": "accepted", "evidence": EVIDENCE}
    headers = {} if key is None else {"Idempotency-Key": key}
    answer = run.http.post(f"/v1/admin/executions/{run.id}/resolve", body, headers=headers)
    assert "Idempotency-Key" in answer.expect_problem(422, "invalid_request")["detail"]


def test_the_same_again_gets_the_first_answer_also_after_the_end(paying: Flow) -> None:
    run = doubtful(paying)
    first = run.resolve("resume", key="k-1", results=[told("succeeded")])
    first.expect(200)
    paying.claim_step("next").complete().expect(200)
    seq = len(run.events())
    again = run.resolve("resume", key="k-1", results=[told("succeeded")])
    assert (again.status, again.body) == (200, first.body)
    assert again.headers["idempotency-replayed"] == "true"
    run.resolve("resume", key="k-1", results=[told("absent")]).expect_problem(409, "idempotency_conflict")
    run.resolve("close", key="k-1", verification="accepted").expect_problem(409, "idempotency_conflict")
    run.resolve("close", key="k-2", verification="accepted").expect_problem(409, "not_resolvable")
    assert len(run.events()) == seq


def test_a_key_belongs_to_one_execution_and_one_operator(paying: Flow, other: Http) -> None:
    one, two = doubtful(paying), doubtful(paying)
    one.resolve("close", key="k", verification="accepted").expect(200)
    two.resolve("close", key="k", verification="accepted").expect(200)
    answer = one.resolve("close", key="k", verification="accepted", http=other)
    answer.expect_problem(409, "idempotency_conflict")


def test_of_two_operators_at_once_one_wins(paying: Flow, other: Http) -> None:
    for _ in range(3):
        run = doubtful(paying)
        with ThreadPoolExecutor(2) as pool:
            answers = list(
                pool.map(
                    lambda http, run=run: run.resolve("close", verification="accepted", http=http), [run.http, other]
                )
            )
        assert sorted(answer.status for answer in answers) == [200, 409]
        next(answer for answer in answers if answer.status == 409).expect_problem(409, "not_resolvable")
        assert run.types().count("execution.resolved") == 1


def test_who_may_resolve(http: Http) -> None:
    if http.key is None:
        pytest.skip("needs STEPD_TEST_KEY: the first key would end open mode")
    a, b = unique("a"), unique("b")
    work = make_flow(http, write(), read("next"))
    run = doubtful(work, tenant=a)
    for scopes in (["read"], ["write"], ["execute"], ["worker"]):
        key = make_key(http, *scopes, tenants=[a])
        problem = run.resolve("close", verification="accepted", http=key.http).expect_problem(403, "forbidden")
        assert problem["scope"] == "operate"
    strange, own = make_key(http, "operate", tenants=[b]), make_key(http, "operate", tenants=[a])
    run.resolve("close", verification="accepted", http=strange.http).expect_problem(404, "not_found")
    assert run.view()["status"] == "reconciliation_required"
    body = run.resolve("close", verification="accepted", key="k", http=own.http).expect(200)
    assert body["resolution"]["operator"] == own.name
    run.resolve("close", verification="accepted", key="k", http=strange.http).expect_problem(404, "not_found")


def test_resolutions_stand_in_the_audit_log(paying: Flow, http: Http) -> None:
    run = doubtful(paying)
    run.resolve("close", key="k", verification="accepted").expect(200)
    run.resolve("close", key="other", verification="accepted").expect_problem(409, "not_resolvable")
    query = {"action": "execution.resolve", "target": run.id}
    items = http.get("/v1/admin/audit", query=query).expect(200)["items"]
    assert [item["outcome"] for item in items] == ["refused: not_resolvable", "done"]


def test_the_operators_queue_shows_what_waits_longest_first(paying: Flow) -> None:
    runs = [doubtful(paying) for _ in range(3)]
    query = {"workflow": paying.name, "status": "reconciliation_required", "order": "oldest", "limit": 2}
    assert [item["id"] for item in listed(paying.http, query)] == [run.id for run in runs]
    runs[1].resolve("close", verification="accepted").expect(200)
    assert [item["id"] for item in listed(paying.http, query)] == [runs[0].id, runs[2].id]


def test_an_unknown_execution_and_one_that_needs_nothing(paying: Flow) -> None:
    run = paying.start()
    run.resolve("close", verification="accepted").expect_problem(409, "not_resolvable")
    nothing = Run(run.http, "00000000-0000-7000-8000-000000000000", run.started)
    nothing.resolve("close", verification="accepted").expect_problem(404, "not_found")


def test_retention_takes_the_execution_and_leaves_the_answer(flow: MakeFlow) -> None:
    work = flow(write(), retention_seconds=0.05)
    run = doubtful(work)
    first = run.resolve("close", key="k", verification="accepted")
    first.expect(200)
    eventually(lambda: run.http.get(run.path).status == 404, seconds=10, what="the execution is removed")
    again = run.resolve("close", key="k", verification="accepted")
    assert (again.status, again.body) == (200, first.body)
    run.resolve("close", key="k", verification="compensated_verified").expect_problem(409, "idempotency_conflict")
    run.resolve("close", key="another", verification="accepted").expect_problem(404, "not_found")
