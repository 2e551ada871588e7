"""Pause and resume: nothing new is handed out, what was handed out goes on, and resuming lets due times act."""

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Json
from tests.support.definitions import AT_ONCE, brief, read, safe_write, write
from tests.support.flow import ahead
from tests.support.wait import beside, eventually, moment


def test_a_paused_execution_hands_nothing_out(flow: MakeFlow) -> None:
    work = flow(read())
    run = work.start()
    run.pause().expect(202)
    assert run.view()["status"] == "paused"
    work.assert_idle(wait_seconds=0.3)
    run.resume().expect(202)
    assert run.view()["status"] == "queued"
    work.claim_one().complete().expect(200)
    assert run.view()["status"] == "completed"
    types = run.types()
    assert types.index("execution.paused") < types.index("execution.unpaused")


def test_resuming_wakes_a_claim_that_waits(flow: MakeFlow) -> None:
    work = flow(read())
    run = work.start()
    run.pause().expect(202)
    parked = beside(lambda: work.claim(wait_seconds=20))
    moment(0.3)
    run.resume().expect(202)
    assert len(parked.result(5)) == 1


def test_a_body_may_be_sent_or_left_out(flow: MakeFlow) -> None:
    run = flow(read()).start()
    bodies: list[Json] = [{}, None]
    for call in ("pause", "resume"):
        for body in bodies:
            run.http.post(f"{run.path}/{call}", body).expect(202)
        run.http.post(f"{run.path}/{call}", {"x": 1}).expect_problem(422, "invalid_request")


def test_both_may_be_said_again(flow: MakeFlow) -> None:
    run = flow(read()).start()
    run.resume().expect(202)
    assert run.view()["status"] == "queued"
    run.pause().expect(202)
    run.pause().expect(202)
    assert run.types().count("execution.paused") == 1
    run.resume().expect(202)
    run.resume().expect(202)
    assert run.types().count("execution.unpaused") == 1


def test_what_was_handed_out_may_start_beat_and_settle(flow: MakeFlow) -> None:
    work = flow(write("a"), read("b"))
    run, lease = work.begin()
    run.pause().expect(202)
    lease.begin()
    assert lease.heartbeat().expect(200)["cancel"] is None
    answer = lease.complete("x").expect(200)
    assert answer["execution"]["status"] == "paused"
    view = run.view()
    assert (view["status"], view["steps"][0]["status"]) == ("paused", "succeeded")
    work.assert_idle()
    run.resume().expect(202)
    assert work.claim_one().step == "b"


def test_no_step_is_evaluated_while_paused(flow: MakeFlow) -> None:
    work = flow(read("a"), read("b", when="state.go"))
    run = work.start(state={"go": False})
    lease = work.claim_one()
    run.pause().expect(202)
    lease.complete(state={"go": False}).expect(200)
    assert run.statuses()["b"] == "pending"
    run.resume().expect(202)
    assert run.statuses()["b"] == "skipped"
    assert run.view()["status"] == "completed"


def test_the_last_step_may_settle_while_paused(flow: MakeFlow) -> None:
    work = flow(read())
    run, lease = work.begin()
    run.pause().expect(202)
    lease.complete().expect(200)
    assert run.statuses() == {"work": "succeeded"}
    assert run.resume().status in (202, 409), "it may have completed at once"
    assert run.view()["status"] == "completed"


def test_a_retry_due_while_paused_acts_at_resume(flow: MakeFlow) -> None:
    work = flow(read(retry={"initial_seconds": 0.1, "factor": 1}))
    run, lease = work.begin()
    run.pause().expect(202)
    assert lease.fail("retryable").expect(200)["disposition"] == "retry_scheduled"
    work.assert_idle(wait_seconds=0.6)
    assert run.view()["status"] == "paused"
    run.resume().expect(202)
    assert work.claim_one(wait_seconds=2).attempt == 2


def test_a_start_due_while_paused_acts_at_resume(flow: MakeFlow) -> None:
    work = flow(read())
    run = work.start(start_at=ahead(work.http, 0.5))
    run.pause().expect(202)
    work.assert_idle(wait_seconds=1)
    assert run.view()["status"] == "paused"
    run.resume().expect(202)
    assert run.view()["status"] == "queued"
    work.claim_one().complete().expect(200)


def test_resuming_before_the_start_is_due_is_scheduled_again(flow: MakeFlow) -> None:
    work = flow(read())
    run = work.start(start_at="2100-01-01T00:00:00Z")
    run.pause().expect(202)
    run.resume().expect(202)
    assert run.view()["status"] == "scheduled"


def test_a_lapse_acts_at_once(flow: MakeFlow) -> None:
    work = flow(write(**brief(0.5, 0)))
    run, lease = work.begin()
    lease.begin()
    run.pause().expect(202)
    view = run.until("reconciliation_required", seconds=5)
    assert view["error"]["class"] == "lost"


def test_a_time_out_of_an_attempt_acts_at_once(flow: MakeFlow) -> None:
    work = flow(read(timeout_seconds=0.2, retry=AT_ONCE))
    run, lease = work.begin()
    run.pause().expect(202)
    eventually(lambda: lease.heartbeat().status == 409, seconds=5, what="the attempt timed out")
    assert run.view()["status"] == "paused"
    work.assert_idle()
    run.resume().expect(202)
    assert work.claim_one().attempt == 2


def test_a_failure_ends_the_pause(flow: MakeFlow) -> None:
    work = flow(read())
    run, lease = work.begin()
    run.pause().expect(202)
    assert lease.fail("fatal").expect(200)["execution"]["status"] == "failed"
    assert run.view()["status"] == "failed"


def test_a_cancel_ends_the_pause(flow: MakeFlow) -> None:
    work = flow(read())
    run = work.start()
    run.pause().expect(202)
    run.cancel().expect(202)
    assert run.view()["status"] == "cancelled"


def test_a_cancel_of_a_paused_one_waits_for_its_writes(flow: MakeFlow) -> None:
    work = flow(safe_write())
    run, lease = work.begin()
    run.pause().expect(202)
    run.cancel().expect(202)
    assert run.view()["status"] == "cancelling"
    lease.fail("cancelled", effect="none").expect(200)
    assert run.view()["status"] == "cancelled"


def test_one_that_waits_may_be_paused(flow: MakeFlow) -> None:
    work = flow(read(retry={"initial_seconds": 60}))
    run, lease = work.begin()
    lease.fail("retryable").expect(200)
    assert run.view()["status"] == "waiting"
    run.pause().expect(202)
    assert run.view()["status"] == "paused"
    run.resume().expect(202)
    assert run.view()["status"] == "waiting"


def test_one_that_runs_may_be_paused(flow: MakeFlow) -> None:
    work = flow(read())
    run, lease = work.begin()
    run.pause().expect(202)
    run.resume().expect(202)
    assert run.view()["status"] == "running"
    lease.complete().expect(200)


@pytest.mark.parametrize("status", ["completed", "cancelled", "cancelling", "reconciliation_required", "failing"])
def test_what_does_not_go_on_is_not_paused(flow: MakeFlow, status: str) -> None:
    work = flow(read("look", needs=[]), safe_write("put", needs=[]))
    run = work.start()
    look, put = work.claim_step("look"), work.claim_step("put")
    if status in ("cancelled", "cancelling"):
        run.cancel().expect(202)
    else:
        (look.complete() if status == "completed" else look.fail("fatal")).expect(200)
    if status in ("completed", "cancelled"):
        put.complete().expect(200)
    elif status == "reconciliation_required":
        put.fail("fatal").expect(200)
    assert run.view()["status"] == status
    run.pause().expect_problem(409, "not_pausable")
    assert run.view()["status"] == status


def test_only_the_paused_one_stands_still(flow: MakeFlow) -> None:
    work = flow(read("a", needs=[]), read("b", needs=[]))
    first, second = work.start(), work.start()
    first.pause().expect(202)
    leases = work.claim(max=10)
    assert {lease.data["execution"]["id"] for lease in leases} == {second.id}
