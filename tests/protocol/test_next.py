"""`next`: an outcome's answer carries what a claim would, and its faults never undo the outcome."""

import time
from uuid import uuid4

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Json
from tests.support.definitions import read, write
from tests.support.flow import Flow


def next_of(work: Flow, **fields: Json) -> dict[str, Json]:
    return {"worker": "tester", "claim_id": str(uuid4()), "serves": [{"workflow": work.name}], **fields}


def test_a_busy_worker_spends_one_call_a_step(flow: MakeFlow) -> None:
    work = flow(read("a"), read("b"), read("c"))
    run, lease = work.begin()
    steps = []
    while True:
        steps.append(lease.step)
        answer = lease.complete(next=next_of(work)).expect(200)
        if not answer["leases"]:
            break
        lease = type(lease)(lease.http, answer["leases"][0])
    assert steps == ["a", "b", "c"]
    assert answer["execution"]["status"] == "completed"
    assert run.view()["status"] == "completed"


def test_it_takes_a_batch_as_a_claim_does(flow: MakeFlow) -> None:
    work = flow(read())
    _, lease = work.begin()
    for priority in (0, 5, 3):
        work.start(priority=priority)
    answer = lease.complete(next=next_of(work, max=2)).expect(200)
    assert len(answer["leases"]) == 2
    assert answer["held_seconds"] == 0
    assert len(work.claim(max=10)) == 1


@pytest.mark.parametrize("kind", ["retryable", "fatal", "interrupted"])
def test_a_failure_carries_it_too(flow: MakeFlow, kind: str) -> None:
    work = flow(read())
    _, lease = work.begin()
    second = work.start()
    answer = lease.fail(kind, next=next_of(work, max=1, serves=[{"workflow": work.name}])).expect(200)
    assert len(answer["leases"]) == 1
    assert answer["leases"][0]["execution"]["id"] == second.id or kind == "interrupted"


def test_it_waits_for_nothing(flow: MakeFlow) -> None:
    work = flow(read())
    _, lease = work.begin()
    before = time.monotonic()
    answer = lease.complete(next=next_of(work, wait_seconds=0)).expect(200)
    assert time.monotonic() - before < 2
    assert answer["leases"] == []


def test_its_claim_id_is_one_like_any_other(flow: MakeFlow) -> None:
    work = flow(read())
    _, lease = work.begin()
    work.start()
    work.start()
    claim_id = str(uuid4())
    (first,) = lease.complete(next=next_of(work, claim_id=claim_id)).expect(200)["leases"]
    assert [again.id for again in work.claim(claim_id=claim_id)] == [first["id"]]


FAULTS: dict[str, Json] = {
    "no object": 5,
    "empty": {},
    "max": {"max": 0},
    "waits": {"wait_seconds": 5},
    "no serves": {"serves": []},
    "unknown field": {"maxx": 1},
    "bad worker": {"worker": "a b"},
}


@pytest.mark.parametrize("call", ["complete", "fail"])
@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_in_it_never_undoes_the_outcome(flow: MakeFlow, kind: str, call: str) -> None:
    work = flow(write())
    run, lease = work.begin()
    lease.begin()
    fault = FAULTS[kind]
    wrong = {**next_of(work), **fault} if isinstance(fault, dict) and fault else fault
    answer = lease.complete(1, next=wrong) if call == "complete" else lease.fail("fatal", effect="none", next=wrong)
    assert answer.expect(200)["leases"] == []
    assert run.view()["status"] == ("completed" if call == "complete" else "failed")


def test_a_null_next_is_none(flow: MakeFlow) -> None:
    work = flow(read())
    _, lease = work.begin()
    assert lease.complete(1, next=None).expect(200)["leases"] == []


def test_it_is_done_only_with_a_200(flow: MakeFlow) -> None:
    work = flow(read(output_schema={"type": "string"}))
    _, lease = work.begin()
    waiting = work.start()
    answer = lease.complete(5, next=next_of(work))
    assert "leases" not in answer.expect_problem(422, "invalid_output")
    assert waiting.view()["status"] == "queued"
    other = work.claim_one()
    other.complete("x").expect(200)
    answer = other.complete("y", next=next_of(work))
    assert "leases" not in answer.expect_refusal("already_settled")
