"""`unservable`: a worker that lacks the code gives the step back at no cost, and isn't offered it again for a while."""

from uuid import uuid4

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Json
from tests.support.definitions import ONCE, read, safe_write, write
from tests.support.wait import eventually


@pytest.mark.parametrize("step", [read(retry=ONCE), safe_write(retry=ONCE), write(retry=ONCE)])
def test_it_goes_back_unspent_to_others_only(flow: MakeFlow, step: Json) -> None:
    work = flow(step)
    run = work.start()
    mine, theirs = str(uuid4()), str(uuid4())
    lease = work.claim_one(instance=mine)
    answer = lease.fail("unservable").expect(200)
    assert answer["disposition"] == "requeued"
    assert run.step()["status"] == "queued"
    assert "attempt.requeued" in run.types()
    work.assert_idle(instance=mine, wait_seconds=0.2)
    again = work.claim_one(instance=theirs)
    assert again.attempt == 1
    again.complete().expect(200)
    assert run.view()["status"] == "completed"


def test_an_instance_left_out_is_the_worker_s_name(flow: MakeFlow) -> None:
    work = flow(read())
    work.start()
    work.claim_one(worker="unable").fail("unservable").expect(200)
    work.assert_idle(worker="unable", wait_seconds=0.2)
    assert work.claim_one(worker="able").attempt == 1


def test_a_worker_s_other_life_is_offered_it(flow: MakeFlow) -> None:
    work = flow(read())
    work.start()
    work.claim_one(worker="one", instance=str(uuid4())).fail("unservable").expect(200)
    assert work.claim_one(worker="one", instance=str(uuid4())).attempt == 1


def test_the_instance_does_not_count_as_serving_it(flow: MakeFlow) -> None:
    work = flow(read())
    run = work.start()
    only = str(uuid4())
    lease = work.claim_one(instance=only)
    assert run.step()["blocked"] is None
    lease.fail("unservable").expect(200)
    blocked = eventually(lambda: run.step()["blocked"], what="nobody serves it")
    assert blocked["code"] == "no_worker"
    work.assert_idle(instance=only)
    assert run.step()["blocked"]["code"] == "no_worker"
    work.claim_one(instance=str(uuid4()))
    assert run.step()["blocked"] is None


@pytest.mark.parametrize(
    ("step", "disposition", "execution"),
    [
        (read(), "step_failed", "failed"),
        (read(delivery="at_most_once"), "step_failed", "failed"),
        (safe_write(), "uncertain", "reconciliation_required"),
        (safe_write(delivery="at_most_once"), "uncertain", "reconciliation_required"),
        (write(), "uncertain", "reconciliation_required"),
    ],
)
def test_after_the_start_it_is_fatal(flow: MakeFlow, step: Json, disposition: str, execution: str) -> None:
    work = flow(step)
    run, lease = work.begin()
    lease.begin()
    assert lease.fail("unservable").expect(200)["disposition"] == disposition
    assert run.view()["status"] == execution


def test_after_a_heartbeat_without_a_start_it_costs_nothing(flow: MakeFlow) -> None:
    work = flow(safe_write(retry=ONCE))
    _, lease = work.begin()
    lease.heartbeat().expect(200)
    assert lease.fail("unservable").expect(200)["disposition"] == "requeued"
    assert work.claim_one(instance=str(uuid4())).attempt == 1


def test_its_next_is_not_the_step_it_gave_back(flow: MakeFlow) -> None:
    work = flow(read())
    work.start()
    instance = str(uuid4())
    lease = work.claim_one(instance=instance)
    body = {
        "worker": "tester",
        "instance": instance,
        "claim_id": str(uuid4()),
        "serves": [{"workflow": work.name}],
    }
    assert lease.fail("unservable", next=body).expect(200)["leases"] == []


def test_other_work_is_still_offered(flow: MakeFlow) -> None:
    work = flow(read("a", needs=[]), read("b", needs=[]))
    work.start()
    instance = str(uuid4())
    first = work.claim_step("a", instance=instance)
    first.fail("unservable").expect(200)
    assert work.claim_one(instance=instance).step == "b"
