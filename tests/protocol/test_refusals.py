"""The four refusals: when each is given, and which comes first where several hold."""

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Answer, Json
from tests.support.definitions import AT_ONCE, ONCE, brief, read, safe_write, write
from tests.support.flow import Lease
from tests.support.wait import moment


def outcomes(lease: Lease) -> dict[str, Answer]:
    """Each of the calls that a lease's holder may make."""
    return {"heartbeat": lease.heartbeat(), "complete": lease.complete(), "fail": lease.fail("fatal", effect="none")}


def check_all(lease: Lease, reason: str) -> list[Json]:
    return [answer.expect_refusal(reason) for answer in outcomes(lease).values()]


def test_already_settled_tells_which_outcome_and_when(flow: MakeFlow) -> None:
    work = flow(read("a"), read("b"))
    _, lease = work.begin()
    lease.complete("x").expect(200)
    for problem in (
        lease.heartbeat().expect_refusal("already_settled"),
        lease.complete("y").expect_refusal("already_settled"),
        lease.fail().expect_refusal("already_settled"),
    ):
        assert problem["settled"].keys() >= {"outcome", "at"}


def test_already_settled_comes_before_execution_ended(flow: MakeFlow) -> None:
    work = flow(read())
    run, lease = work.begin()
    lease.complete("x").expect(200)
    assert run.view()["status"] == "completed"
    lease.heartbeat().expect_refusal("already_settled")
    lease.complete("y").expect_refusal("already_settled")
    lease.fail().expect_refusal("already_settled")


def test_already_settled_comes_before_a_wrong_fence(flow: MakeFlow) -> None:
    work = flow(read("a"), read("b"))
    _, lease = work.begin()
    lease.complete("x").expect(200)
    lease.heartbeat(fence=lease.fence + 1).expect_refusal("already_settled")


def test_a_failure_settles_as_a_completion_does(flow: MakeFlow) -> None:
    work = flow(read(retry=AT_ONCE))
    _, lease = work.begin()
    lease.fail("retryable").expect(200)
    lease.heartbeat().expect_refusal("already_settled")
    work.claim_one()
    lease.heartbeat().expect_refusal("already_settled")
    lease.complete().expect_refusal("already_settled")


def test_the_ending_of_an_execution_ends_its_reads(flow: MakeFlow) -> None:
    work = flow(read())
    run, lease = work.begin()
    run.cancel().expect(202)
    for problem in check_all(lease, "execution_ended"):
        assert problem["execution"]["status"] == "cancelled"


def test_an_execution_that_is_ending_has_ended_its_reads(flow: MakeFlow) -> None:
    work = flow(read("look", needs=[]), safe_write("put", needs=[]))
    run = work.start()
    look, put = work.claim_step("look"), work.claim_step("put")
    run.cancel().expect(202)
    assert run.view()["status"] == "cancelling"
    for problem in check_all(look, "execution_ended"):
        assert problem["execution"]["status"] == "cancelling"
    put.complete().expect(200)
    for problem in check_all(look, "execution_ended"):
        assert problem["execution"]["status"] == "cancelled"


def test_a_failing_execution_has_ended_its_reads(flow: MakeFlow) -> None:
    work = flow(read("a", needs=[]), read("b", needs=[]))
    run = work.start()
    a, b = work.claim_step("a"), work.claim_step("b")
    a.fail("fatal").expect(200)
    assert run.view()["status"] == "failed"
    check_all(b, "execution_ended")


def test_an_attempt_taken_back_is_lost(flow: MakeFlow) -> None:
    work = flow(read(**brief(0.1, 0), retry=AT_ONCE))
    _, lease = work.begin()
    again = work.claim_one()
    check_all(lease, "lease_lost")
    assert again.id != lease.id


def test_an_attempt_that_timed_out_is_lost(flow: MakeFlow) -> None:
    work = flow(read(timeout_seconds=0.1, retry=AT_ONCE))
    _, lease = work.begin()
    work.claim_one()
    check_all(lease, "lease_lost")


def test_an_attempt_that_was_forced_is_lost(flow: MakeFlow) -> None:
    work = flow(write())
    run, lease = work.begin()
    lease.begin()
    run.cancel(force=True).expect(202)
    assert run.view()["status"] == "reconciliation_required"
    check_all(lease, "lease_lost")


def test_a_fence_that_is_not_the_lease_s_is_lost(flow: MakeFlow) -> None:
    work = flow(write())
    run, lease = work.begin()
    lease.begin()
    wrong = lease.fence + 1
    lease.heartbeat(fence=wrong).expect_refusal("lease_lost")
    lease.complete(fence=wrong).expect_refusal("lease_lost")
    lease.fail("fatal", fence=wrong).expect_refusal("lease_lost")
    assert run.step()["status"] == "running"
    lease.complete().expect(200)


def test_execution_ended_comes_before_lease_lost(flow: MakeFlow) -> None:
    work = flow(read(**brief(0.5, 0)))
    run, lost = work.begin()
    lost_to = work.claim_one()
    lost_to.complete().expect(200)
    assert run.view()["status"] == "completed"
    for problem in check_all(lost, "execution_ended"):
        assert problem["execution"]["status"] == "completed"


def test_execution_ended_comes_before_a_wrong_fence(flow: MakeFlow) -> None:
    work = flow(read())
    run, lease = work.begin()
    run.cancel().expect(202)
    lease.complete(fence=lease.fence + 5).expect_refusal("execution_ended")


@pytest.mark.parametrize("step", [read(), safe_write(), write()])
def test_a_lapsed_lease_refuses_heartbeats_only(flow: MakeFlow, step: Json) -> None:
    work = flow({**step, **brief()})
    run, lease = work.begin()
    moment(0.15)
    problem = lease.heartbeat().expect_refusal("lease_expired")
    assert 25 < problem["reclaim_seconds"] <= 30
    again = lease.heartbeat().expect_refusal("lease_expired")
    assert again["reclaim_seconds"] <= problem["reclaim_seconds"]
    assert lease.complete().expect(200)["late"] is True
    lease.heartbeat().expect_refusal("already_settled")
    assert run.view()["status"] == "completed"


def test_a_wrong_fence_comes_before_a_lapse(flow: MakeFlow) -> None:
    work = flow(read(**brief()))
    _, lease = work.begin()
    moment(0.15)
    lease.heartbeat(fence=lease.fence + 1).expect_refusal("lease_lost")
    lease.heartbeat().expect_refusal("lease_expired")


def test_execution_ended_comes_before_a_lapse(flow: MakeFlow) -> None:
    work = flow(read(**brief()))
    run, lease = work.begin()
    moment(0.15)
    run.cancel().expect(202)
    lease.heartbeat().expect_refusal("execution_ended")


def test_a_step_out_of_its_attempts_leaves_its_last_holder_refused(flow: MakeFlow) -> None:
    work = flow(read(**brief(0.1, 0), retry=ONCE), on_failure="fail")
    run, lease = work.begin()
    view = run.until("failed")
    assert view["error"]["class"] == "lost"
    check_all(lease, "execution_ended")


def test_refusals_show_nothing_of_others(flow: MakeFlow) -> None:
    work = flow(read(**brief(0.1, 0)))
    _, lost = work.begin()
    holder = work.claim_one(worker="somebody-else")
    answer = lost.complete()
    answer.expect_refusal("lease_lost")
    assert "somebody-else" not in answer.text
    assert holder.id not in answer.text
