"""How an execution ends badly: what is held, what becomes uncertain, and when an operator is needed."""

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Json
from tests.support.definitions import AT_ONCE, ONCE, brief, read, safe_write, write
from tests.support.flow import Flow, Lease, Run

BRANCHES = (
    read("bad", needs=[]),
    safe_write("put", needs=[]),
    read("look", needs=[]),
    write("slow", needs=[]),
    read("later", needs=["look"]),
)


def both(work: Flow) -> tuple[Run, Lease, Lease]:
    """An execution whose steps `bad` and `put` are both in flight."""
    run = work.start()
    return run, work.claim_step("bad"), work.claim_step("put")


def test_a_failed_read_with_nothing_written_fails_the_execution(flow: MakeFlow) -> None:
    work = flow(read("a"), read("b"), write("c"))
    run = work.start()
    work.claim_one().complete("x").expect(200)
    answer = work.claim_one().fail("fatal").expect(200)
    assert answer["execution"]["status"] == "failed"
    view = run.view()
    assert (view["status"], view["direction"], view["standing_writes"]) == ("failed", "forward", [])
    assert run.statuses() == {"a": "succeeded", "b": "failed", "c": "cancelled"}
    types = run.types()
    assert "execution.failing" in types
    assert types[-1] == "execution.failed"


@pytest.mark.parametrize(
    ("on_failure", "status"),
    [(None, "reconciliation_required"), ("reconcile", "reconciliation_required"), ("fail", "failed")],
)
def test_a_standing_write_needs_an_operator_unless_told_otherwise(
    flow: MakeFlow, on_failure: str | None, status: str
) -> None:
    fields = {} if on_failure is None else {"on_failure": on_failure}
    work = flow(safe_write("put"), read("bad"), **fields)
    run = work.start()
    work.claim_one().complete().expect(200)
    work.claim_one().fail("fatal").expect(200)
    view = run.view()
    assert view["status"] == status
    assert "put" in str(view["standing_writes"])
    assert (view["error"]["class"], view["error"]["step"]) == ("fatal", "bad")
    assert (view["ended_at"] is None) is (status == "reconciliation_required")


def test_a_failing_execution_holds_what_has_not_begun(flow: MakeFlow) -> None:
    work = flow(*BRANCHES, on_failure="fail")
    run, bad, put = both(work)
    bad.fail("fatal").expect(200)
    view = run.view()
    assert (view["status"], view["direction"]) == ("failing", "forward")
    held = {step["id"]: step.get("held", False) for step in view["steps"]}
    assert held == {"bad": False, "put": False, "look": True, "slow": True, "later": True}
    assert run.statuses() == {
        "bad": "failed",
        "put": "running",
        "look": "queued",
        "slow": "queued",
        "later": "pending",
    }  # fmt: skip — one line reads as one picture
    work.assert_idle(max=10)
    assert "step.held" in run.types()
    put.complete().expect(200)
    assert run.view()["status"] == "failed"
    assert run.statuses() == {
        "bad": "failed",
        "put": "succeeded",
        "look": "cancelled",
        "slow": "cancelled",
        "later": "cancelled",
    }  # fmt: skip — one line reads as one picture


def test_reads_in_flight_and_writes_not_started_are_held_and_queued(flow: MakeFlow) -> None:
    work = flow(*BRANCHES)
    run, bad, put = both(work)
    look, slow = work.claim_step("look"), work.claim_step("slow")
    bad.fail("fatal").expect(200)
    steps = {step["id"]: step for step in run.view()["steps"]}
    for id in ("look", "slow"):
        assert steps[id]["status"] == "queued"
        assert steps[id]["held"] is True
    look.complete().expect_refusal("execution_ended")
    slow.heartbeat(started=True).expect_refusal("execution_ended")
    assert put.heartbeat().expect(200)["cancel"] is not None


def test_writes_in_flight_are_asked_to_stop(flow: MakeFlow) -> None:
    work = flow(*BRANCHES)
    run, bad, put = both(work)
    slow = work.claim_step("slow").begin()
    bad.fail("fatal").expect(200)
    for lease in (put, slow):
        assert lease.heartbeat().expect(200)["cancel"]["reason"]
    put.fail("cancelled", effect="none").expect(200)
    assert run.view()["status"] == "failing"
    answer = slow.fail("cancelled", effect="none").expect(200)
    assert (answer["disposition"], answer["execution"]["status"]) == ("held", "failed")


def test_a_success_during_the_ending_is_recorded_and_stands(flow: MakeFlow) -> None:
    work = flow(*BRANCHES)
    run, bad, put = both(work)
    bad.fail("fatal").expect(200)
    put.complete("written", state={"n": 1}).expect(200)
    view = run.view()
    assert view["status"] == "reconciliation_required"
    assert "put" in str(view["standing_writes"])
    assert view["error"]["step"] == "bad"
    assert view["state"] == {"n": 1}
    held = {step["id"] for step in view["steps"] if step.get("held")}
    assert held == {"look", "slow", "later"}, "what is held is kept for the operator"


def test_a_retry_during_the_ending_is_none(flow: MakeFlow) -> None:
    work = flow(*BRANCHES)
    run, bad, put = both(work)
    bad.fail("fatal").expect(200)
    answer = put.fail("retryable", effect="none").expect(200)
    assert answer["disposition"] == "held"
    assert answer["execution"]["status"] == "failed"
    assert run.statuses()["put"] == "cancelled"


def test_a_doubtful_write_during_the_ending_is_uncertain(flow: MakeFlow) -> None:
    work = flow(*BRANCHES)
    run, bad, put = both(work)
    bad.fail("fatal").expect(200)
    answer = put.fail("retryable", effect="unknown").expect(200)
    assert (answer["disposition"], answer["execution"]["status"]) == ("uncertain", "reconciliation_required")
    assert run.statuses()["put"] == "uncertain"


def test_a_silent_write_during_the_ending_is_uncertain(flow: MakeFlow) -> None:
    work = flow(read("bad", needs=[]), safe_write("put", needs=[], **brief(0.6, 0)))
    run, bad, _ = both(work)
    bad.fail("fatal").expect(200)
    view = run.until("reconciliation_required", seconds=5)
    assert run.statuses()["put"] == "uncertain"
    assert view["error"]["step"] == "bad"


def test_a_write_that_times_out_during_the_ending_is_uncertain(flow: MakeFlow) -> None:
    work = flow(read("bad", needs=[]), safe_write("put", needs=[], timeout_seconds=0.6))
    run, bad, _ = both(work)
    bad.fail("fatal").expect(200)
    run.until("reconciliation_required", seconds=5)
    assert run.statuses()["put"] == "uncertain"


def test_an_uncertain_write_begins_the_ending(flow: MakeFlow) -> None:
    work = flow(*BRANCHES, on_failure="fail")
    run, bad, put = both(work)
    put.fail("fatal", effect="unknown").expect(200)
    view = run.view()
    assert view["status"] == "reconciliation_required", "the read in flight is fenced, so nothing is in flight"
    assert run.statuses()["put"] == "uncertain"
    assert (view["error"]["class"], view["error"]["step"]) == ("fatal", "put")
    bad.complete().expect_refusal("execution_ended")
    assert "step.uncertain" in run.types()


def test_an_uncertain_write_waits_for_the_other_writes(flow: MakeFlow) -> None:
    work = flow(*BRANCHES, on_failure="fail")
    run, _, put = both(work)
    slow = work.claim_step("slow").begin()
    put.fail("fatal").expect(200)
    assert run.view()["status"] == "failing"
    slow.complete().expect(200)
    assert run.view()["status"] == "reconciliation_required"


def test_a_write_that_waits_for_a_doubtful_retry_becomes_uncertain(flow: MakeFlow) -> None:
    work = flow(read("bad", needs=[]), safe_write("put", needs=[], retry={"initial_seconds": 60}))
    run, bad, put = both(work)
    put.fail("retryable", effect="unknown").expect(200)
    bad.fail("fatal").expect(200)
    assert run.view()["status"] == "reconciliation_required"
    assert run.statuses() == {"bad": "failed", "put": "uncertain"}


def test_an_attempt_that_the_ending_ended_is_not_spent(flow: MakeFlow) -> None:
    work = flow(read("bad", needs=[]), safe_write("put", needs=[]), read("look", needs=[], retry=ONCE))
    run, bad, put = both(work)
    look = work.claim_step("look")
    bad.fail("fatal").expect(200)
    put.complete().expect(200)
    assert run.view()["status"] == "reconciliation_required"
    step = run.step("look")
    assert (step["status"], step["held"]) == ("queued", True)
    look.complete().expect_refusal("execution_ended")


def test_the_first_failure_is_the_execution_s_error(flow: MakeFlow) -> None:
    work = flow(safe_write("one", needs=[]), safe_write("two", needs=[]))
    run = work.start()
    one, two = work.claim_step("one"), work.claim_step("two")
    one.fail("first_class", effect="none").expect(200)
    two.fail("second_class", effect="none").expect(200)
    view = run.view()
    assert (view["status"], view["error"]["class"], view["error"]["step"]) == ("failed", "first_class", "one")
    assert run.statuses() == {"one": "failed", "two": "failed"}


def test_a_caught_write_does_not_stand(flow: MakeFlow) -> None:
    work = flow(safe_write("put", catch=[{"class": "*", "value": None}]), read("bad"))
    run = work.start()
    assert work.claim_one().fail("fatal", effect="none").expect(200)["disposition"] == "caught"
    work.claim_one().fail("fatal").expect(200)
    view = run.view()
    assert (view["status"], view["standing_writes"]) == ("failed", [])


def test_nothing_moves_in_reconciliation(flow: MakeFlow) -> None:
    work = flow(write("a"), read("b"), read("c", needs=[], retry=AT_ONCE))
    run = work.start()
    lease = work.claim_step("a").begin()
    lease.fail("fatal").expect(200)
    assert run.view()["status"] == "reconciliation_required"
    work.assert_idle(max=10, wait_seconds=0.3)
    before: Json = run.view()
    assert before["ended_at"] is None
    assert run.resume().status in (202, 409)
    assert run.view()["status"] == "reconciliation_required"


def test_standing_writes_are_named_after_a_success_too(flow: MakeFlow) -> None:
    work = flow(write("a"), read("b"))
    run, lease = work.begin()
    lease.begin().complete().expect(200)
    run.cancel().expect(202)
    assert "a" in str(run.view()["standing_writes"])


def test_a_time_out_leaves_a_doubtful_write_uncertain(flow: MakeFlow) -> None:
    work = flow(safe_write(retry={"initial_seconds": 0.3, "factor": 1}), timeout_seconds=1)
    run, lease = work.begin()
    assert lease.fail("retryable", effect="unknown").expect(200)["disposition"] == "retry_scheduled"
    view = run.until("reconciliation_required", seconds=5)
    assert (view["error"]["class"], view["error"]["cause"]["class"]) == ("execution_timeout", "retryable")
    assert run.statuses() == {"work": "uncertain"}
