"""Time-outs: of an attempt, of a stand in the queue, of an execution."""

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Json
from tests.support.definitions import AT_ONCE, ONCE, brief, cel, read, safe_write, write
from tests.support.flow import ahead
from tests.support.times import seconds
from tests.support.wait import eventually, moment


def test_an_attempt_past_its_time_has_failed(flow: MakeFlow) -> None:
    work = flow(read(timeout_seconds=0.3, retry=AT_ONCE))
    run, lease = work.begin()
    second = work.claim_one()
    assert second.attempt == 2
    assert second.data["previous"]["error"]["class"] == "timeout"
    failed = run.event("attempt.failed")
    leased = next(event for event in run.events() if event["type"] == "attempt.leased")
    assert 0.29 <= seconds(leased["at"], failed["at"]) <= 1.4
    lease.complete().expect_refusal("lease_lost")


def test_heartbeats_do_not_move_the_end_of_an_attempt(flow: MakeFlow) -> None:
    work = flow(read(timeout_seconds=0.6, retry=ONCE))
    run, lease = work.begin()

    def beat() -> bool:
        return lease.heartbeat().status == 409

    eventually(beat, seconds=3, every=0.1, what="the attempt is over though it beats")
    assert run.until("failed")["error"]["class"] == "timeout"


def test_a_timeout_waits_like_a_retry(flow: MakeFlow) -> None:
    work = flow(read(timeout_seconds=0.2, retry={"initial_seconds": 30}))
    run, _ = work.begin()
    step = run.step_until("retry_wait")
    assert step["next_attempt_at"] is not None
    assert step["error"]["class"] == "timeout"


def test_an_orphan_s_attempt_times_out_too(flow: MakeFlow) -> None:
    work = flow(write(**brief(0.6, 30), timeout_seconds=0.9))
    run, lease = work.begin()
    lease.begin()
    view = run.until("reconciliation_required", seconds=5)
    assert view["error"]["class"] == "timeout"
    lease.complete().expect_refusal("lease_lost")


def test_each_attempt_has_its_whole_time(flow: MakeFlow) -> None:
    work = flow(read(timeout_seconds=1.2, retry=AT_ONCE))
    _, first = work.begin()
    moment(0.7)
    first.fail("retryable").expect(200)
    second = work.claim_one()
    moment(0.7)
    second.complete().expect(200)


def test_a_stand_in_the_queue_has_a_bound(flow: MakeFlow) -> None:
    work = flow(read(queue_timeout_seconds=0.3, retry={"max_attempts": 5}))
    run = work.start()
    view = run.until("failed", seconds=5)
    assert (view["error"]["class"], view["error"]["step"]) == ("queue_timeout", "work")
    assert view["steps"][0]["status"] == "failed"
    assert 0.29 <= seconds(view["created_at"], view["ended_at"]) <= 1.4
    work.assert_idle()


def test_a_queue_timeout_may_be_caught(flow: MakeFlow) -> None:
    work = flow(
        write(queue_timeout_seconds=0.2, catch=[{"class": "queue_timeout", "value": "nobody came"}]),
        output=cel("steps.work.output"),
    )
    assert work.start().until("completed", seconds=5)["output"] == "nobody came"


def test_a_queue_timeout_counts_anew_each_time(flow: MakeFlow) -> None:
    work = flow(read(queue_timeout_seconds=1, retry=AT_ONCE))
    run = work.start()
    moment(0.5)
    lease = work.claim_one()
    moment(0.5)
    lease.fail("retryable").expect(200)
    moment(0.5)
    work.claim_one().complete().expect(200)
    assert run.view()["status"] == "completed"


def test_a_queue_timeout_after_a_write_that_may_have_happened_is_uncertain(flow: MakeFlow) -> None:
    work = flow(safe_write(queue_timeout_seconds=0.6, retry=AT_ONCE))
    run, lease = work.begin()
    lease.fail("retryable", effect="unknown").expect(200)
    view = run.until("reconciliation_required", seconds=5)
    assert view["steps"][0]["status"] == "uncertain"


def test_a_lease_ends_the_stand_in_the_queue(flow: MakeFlow) -> None:
    work = flow(read(queue_timeout_seconds=0.6))
    run, lease = work.begin()
    moment(0.8)
    lease.complete().expect(200)
    assert run.view()["status"] == "completed"


def test_an_execution_has_a_time_out(flow: MakeFlow) -> None:
    work = flow(read(), timeout_seconds=0.8)
    run, lease = work.begin()
    view = run.until("failed", seconds=5)
    assert view["error"]["class"] == "execution_timeout"
    assert view["error"]["cause"] is None
    assert 0.79 <= seconds(view["created_at"], view["ended_at"]) <= 1.9
    lease.complete().expect_refusal("execution_ended")


def test_its_cause_is_the_last_real_error(flow: MakeFlow) -> None:
    work = flow(read(retry=AT_ONCE), timeout_seconds=1)
    run, lease = work.begin()
    lease.fail("retryable", message="first").expect(200)
    work.claim_one().fail("retryable", message="the last one").expect(200)
    view = run.until("failed", seconds=5)
    assert view["error"]["class"] == "execution_timeout"
    assert "the last one" in str(view["error"]["cause"])


@pytest.mark.parametrize("state", ["queued", "running", "waiting", "paused"])
def test_it_acts_in_every_status_that_goes_on(flow: MakeFlow, state: str) -> None:
    work = flow(read(retry={"max_attempts": 3, "initial_seconds": 0.1, "max_seconds": 0.1}), timeout_seconds=1.2)
    run = work.start()
    if state in ("running", "waiting"):
        lease = work.claim_one()
        if state == "waiting":
            lease.fail("retryable", retry_after=0.5).expect(200)
    if state == "paused":
        run.pause().expect(202)
    assert run.view()["status"] == state
    view = run.until("failed", seconds=5)
    assert view["error"]["class"] == "execution_timeout"


def test_it_counts_from_the_start_that_was_asked_for(flow: MakeFlow) -> None:
    work = flow(read(), timeout_seconds=0.5)
    run = work.start(start_at=ahead(work.http, 0.8))
    view = run.until("failed", seconds=8)
    assert view["error"]["class"] == "execution_timeout"
    assert 1.1 <= seconds(view["created_at"], view["ended_at"]) <= 3.5


def test_a_write_in_flight_is_asked_to_stop_at_the_time_out(flow: MakeFlow) -> None:
    work = flow(safe_write(), timeout_seconds=0.6, on_failure="fail")
    run, lease = work.begin()
    run.until("failing", seconds=5)
    assert lease.heartbeat().expect(200)["cancel"]["reason"]
    lease.complete("done after all").expect(200)
    view = run.view()
    assert (view["status"], view["error"]["class"]) == ("failed", "execution_timeout")
    assert view["steps"][0]["status"] == "succeeded"


def test_an_ended_execution_does_not_time_out(flow: MakeFlow) -> None:
    work = flow(read(), timeout_seconds=0.8)
    run, lease = work.begin()
    lease.complete().expect(200)
    before: Json = run.view()
    moment(1.3)
    assert run.view() == before
