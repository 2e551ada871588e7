"""Outcomes that come after the daemon ended an attempt: refused, and kept where a write may have been running."""

from tests.protocol.conftest import MakeFlow
from tests.support.definitions import brief, read, safe_write, write
from tests.support.flow import Run
from tests.support.wait import beside


def stale_events(run: Run) -> int:
    return run.types().count("attempt.stale_outcome")


def test_the_first_outcome_of_a_lost_write_is_kept(flow: MakeFlow) -> None:
    work = flow(write(**brief(0.5, 0)))
    run, lease = work.begin()
    lease.begin()
    run.until("reconciliation_required")
    lease.complete({"charged": True}).expect_refusal("lease_lost")
    assert stale_events(run) == 1
    view = run.view(include="attempts,payloads")
    assert "stale_outcome" in str(view)
    assert view["steps"][0]["status"] == "uncertain", "it changes nothing"
    lease.complete({"charged": False}).expect_refusal("lease_lost")
    lease.fail("fatal").expect_refusal("lease_lost")
    assert stale_events(run) == 1, "only the first is kept"


def test_a_stale_failure_is_kept_too(flow: MakeFlow) -> None:
    work = flow(write())
    run, lease = work.begin()
    lease.begin()
    run.cancel(force=True).expect(202)
    lease.fail("card_declined", effect="none").expect_refusal("lease_lost")
    assert stale_events(run) == 1
    assert run.view()["status"] == "reconciliation_required"


def test_a_stale_outcome_of_a_write_that_may_be_repeated_is_kept(flow: MakeFlow) -> None:
    work = flow(safe_write(**brief(0.3, 0)))
    run, first = work.begin()
    second = work.claim_one()
    first.complete("first").expect_refusal("lease_lost")
    assert stale_events(run) == 1
    second.complete("second").expect(200)
    view = run.view(include="payloads")
    assert view["status"] == "completed"
    assert view["steps"][0]["output"] == "second"


def test_a_read_s_stale_outcome_is_dropped(flow: MakeFlow) -> None:
    work = flow(read(**brief(0.5, 0)), read("next"))
    run, first = work.begin()
    work.claim_one().complete("second").expect(200)
    first.complete("first").expect_refusal("lease_lost")
    assert stale_events(run) == 0


def test_a_write_that_never_started_leaves_no_evidence(flow: MakeFlow) -> None:
    work = flow(write(**brief(0.3, 0)))
    run, first = work.begin()
    second = work.claim_one()
    first.complete().expect_refusal("lease_lost")
    assert stale_events(run) == 0
    second.begin().complete().expect(200)


def test_after_the_end_it_is_kept_without_an_event(flow: MakeFlow) -> None:
    work = flow(safe_write(**brief(0.5, 0)))
    run, first = work.begin()
    work.claim_one().complete("second").expect(200)
    before = run.events()
    assert before[-1]["type"] == "execution.completed"
    first.complete({"evidence": "of the first"}).expect_refusal("execution_ended")
    assert run.events() == before, "nothing follows the event of the end"
    view = run.view(include="attempts,payloads")
    assert "of the first" in str(view)


def test_heartbeats_are_no_outcome(flow: MakeFlow) -> None:
    work = flow(write(**brief(0.5, 0)))
    run, lease = work.begin()
    lease.begin()
    run.until("reconciliation_required")
    lease.heartbeat().expect_refusal("lease_lost")
    assert stale_events(run) == 0
    answers = [future.result(10) for future in [beside(lease.complete) for _ in range(5)]]
    for answer in answers:
        answer.expect_refusal("lease_lost")
    assert stale_events(run) == 1


def test_a_stale_outcome_with_another_fence_is_no_evidence(flow: MakeFlow) -> None:
    work = flow(write(**brief(0.3, 0)))
    run, lease = work.begin()
    lease.begin()
    run.until("reconciliation_required")
    lease.complete(fence=lease.fence + 1).expect_refusal("lease_lost")
    lease.complete("real").expect_refusal("lease_lost")
    view = run.view(include="attempts,payloads")
    assert "real" in str(view)


def test_the_outcome_of_a_write_that_timed_out_is_kept(flow: MakeFlow) -> None:
    work = flow(write(timeout_seconds=0.3))
    run, lease = work.begin()
    lease.begin()
    run.until("reconciliation_required")
    lease.complete("it was done, but late").expect_refusal("lease_lost")
    assert stale_events(run) == 1
    assert "it was done, but late" in str(run.view(include="attempts,payloads"))


def test_a_stale_outcome_refused_for_its_form_is_no_evidence(flow: MakeFlow) -> None:
    work = flow(write())
    run, lease = work.begin()
    lease.begin()
    run.cancel(force=True).expect(202)
    lease.complete(state=5).expect_problem(422, "invalid_request")
    assert stale_events(run) == 0
    lease.complete("well-formed").expect_refusal("lease_lost")
    assert stale_events(run) == 1
