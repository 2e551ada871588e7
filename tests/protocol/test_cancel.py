"""Cancel: from every status, with and without force, with reads and writes in flight, and against the last complete."""

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Json
from tests.support.definitions import AT_ONCE, brief, cel, read, safe_write, write
from tests.support.flow import Lease, Run
from tests.support.wait import together


def test_what_has_not_begun_is_cancelled_at_once(flow: MakeFlow) -> None:
    work = flow(read("a"), write("b"))
    run = work.start()
    answer = run.cancel(reason="not needed").expect(202)
    assert (answer["id"], answer["status"]) == (run.id, "cancelled")
    view = run.view()
    assert (view["status"], view["direction"]) == ("cancelled", "cancel")
    assert run.statuses() == {"a": "cancelled", "b": "cancelled"}
    assert view["ended_at"] is not None
    assert view["standing_writes"] == []
    work.assert_idle()
    types = run.types()
    assert "execution.cancel_requested" in types
    assert types[-1] == "execution.cancelled"
    assert "not needed" in str(run.event("execution.cancel_requested"))


def test_a_scheduled_one_is_cancelled_at_once(flow: MakeFlow) -> None:
    run = flow(read()).start(start_at="2100-01-01T00:00:00Z")
    run.cancel().expect(202)
    assert run.view()["status"] == "cancelled"


def test_one_that_waits_for_a_retry_is_cancelled_at_once(flow: MakeFlow) -> None:
    work = flow(read(retry={"initial_seconds": 60}))
    run, lease = work.begin()
    lease.fail("retryable").expect(200)
    run.cancel().expect(202)
    assert (run.view()["status"], run.statuses()) == ("cancelled", {"work": "cancelled"})


@pytest.mark.parametrize("ending", ["completed", "failed", "cancelled"])
def test_what_has_ended_is_not_cancelled(flow: MakeFlow, ending: str) -> None:
    work = flow(read())
    run, lease = work.begin()
    if ending == "cancelled":
        run.cancel().expect(202)
    elif ending == "failed":
        lease.fail("fatal").expect(200)
    else:
        lease.complete().expect(200)
    before = run.events()
    for force in (False, True):
        run.cancel(force=force).expect_problem(409, "already_ended")
    assert run.view()["status"] == ending
    assert run.events() == before


def test_reads_in_flight_are_fenced_at_once(flow: MakeFlow) -> None:
    work = flow(read())
    run, lease = work.begin()
    run.cancel().expect(202)
    assert (run.view()["status"], run.statuses()) == ("cancelled", {"work": "cancelled"})
    assert lease.heartbeat().expect_refusal("execution_ended")["execution"]["status"] == "cancelled"


@pytest.mark.parametrize("step", [safe_write(), write()])
def test_a_write_in_flight_is_asked_and_its_success_is_recorded(flow: MakeFlow, step: Json) -> None:
    work = flow(step, read("after"))
    run, lease = work.begin()
    lease.begin()
    run.cancel(reason="stop").expect(202)
    view = run.view()
    assert (view["status"], view["direction"]) == ("cancelling", "cancel")
    assert lease.heartbeat().expect(200)["cancel"] == {"reason": "stop"}
    answer = lease.complete("done", state={"charged": True}).expect(200)
    assert answer["execution"]["status"] == "cancelled"
    view = run.view(include="payloads")
    assert view["status"] == "cancelled"
    assert view["steps"][0]["status"] == "succeeded"
    assert view["steps"][0]["output"] == "done"
    assert view["steps"][1]["status"] == "cancelled"
    assert "work" in str(view["standing_writes"])
    assert view["state"] == {"charged": True}


SETTLED_IN_CANCEL = [
    ("cancelled", "none", "held", "cancelled"),
    ("cancelled", "absent", "held", "cancelled"),
    ("cancelled", "unknown", "uncertain", "reconciliation_required"),
    ("cancelled", "applied", "uncertain", "reconciliation_required"),
    ("cancelled", None, "uncertain", "reconciliation_required"),
    ("retryable", "none", "held", "cancelled"),
    ("retryable", "unknown", "uncertain", "reconciliation_required"),
    ("interrupted", "none", "held", "cancelled"),
    ("interrupted", "unknown", "uncertain", "reconciliation_required"),
    ("fatal", "none", "step_failed", "cancelled"),
    ("fatal", "unknown", "uncertain", "reconciliation_required"),
    ("card_declined", "none", "step_failed", "cancelled"),
    ("card_declined", "applied", "uncertain", "reconciliation_required"),
]


@pytest.mark.parametrize("step", [safe_write(), write()], ids=["safe write", "write"])
@pytest.mark.parametrize(("kind", "effect", "disposition", "execution"), SETTLED_IN_CANCEL)
def test_a_write_asked_to_stop_ends_by_what_it_knows(
    flow: MakeFlow, step: Json, kind: str, effect: str | None, disposition: str, execution: str
) -> None:
    work = flow(step)
    run, lease = work.begin()
    lease.begin()
    run.cancel().expect(202)
    said = {} if effect is None else {"effect": effect}
    answer = lease.fail(kind, **said).expect(200)
    assert answer["disposition"] == disposition
    assert answer["execution"]["status"] == execution
    expected = {"held": "cancelled", "step_failed": "failed", "uncertain": "uncertain"}[disposition]
    assert run.step()["status"] == expected
    work.assert_idle()


def test_a_write_that_is_silent_after_a_cancel_is_uncertain(flow: MakeFlow) -> None:
    work = flow(safe_write(**brief(0.5, 0)))
    run, lease = work.begin()
    run.cancel().expect(202)
    assert run.view()["status"] == "cancelling"
    view = run.until("reconciliation_required", seconds=5)
    assert view["steps"][0]["status"] == "uncertain"
    assert view["direction"] == "cancel"
    lease.complete().expect_refusal("lease_lost")


def test_a_write_whose_earlier_attempt_may_have_happened_is_uncertain(flow: MakeFlow) -> None:
    work = flow(safe_write(retry={"initial_seconds": 60}))
    run, lease = work.begin()
    lease.fail("retryable", effect="unknown").expect(200)
    run.cancel().expect(202)
    view = run.view()
    assert (view["status"], view["steps"][0]["status"]) == ("reconciliation_required", "uncertain")


def test_a_write_whose_earlier_attempt_did_nothing_is_cancelled(flow: MakeFlow) -> None:
    work = flow(safe_write(retry={"initial_seconds": 60}))
    run, lease = work.begin()
    lease.fail("retryable", effect="none").expect(200)
    run.cancel().expect(202)
    assert run.view()["status"] == "cancelled"


def test_force_makes_a_write_in_flight_uncertain_at_once(flow: MakeFlow) -> None:
    work = flow(safe_write())
    run, lease = work.begin()
    run.cancel(force=True).expect(202)
    view = run.view()
    assert (view["status"], view["steps"][0]["status"]) == ("reconciliation_required", "uncertain")
    lease.heartbeat().expect_refusal("lease_lost")
    assert "attempt.lost" in run.types()


def test_force_leaves_a_write_that_did_not_start(flow: MakeFlow) -> None:
    work = flow(write())
    run, _ = work.begin()
    run.cancel(force=True).expect(202)
    assert run.view()["status"] == "cancelled"


def test_force_may_come_second(flow: MakeFlow) -> None:
    work = flow(safe_write())
    run, lease = work.begin()
    run.cancel().expect(202)
    run.cancel().expect(202)
    assert run.view()["status"] == "cancelling"
    run.cancel(force=True).expect(202)
    assert run.view()["status"] == "reconciliation_required"
    lease.complete().expect_refusal("lease_lost")


def test_a_cancel_of_what_is_failing_makes_it_cancelling(flow: MakeFlow) -> None:
    work = flow(read("bad", needs=[]), safe_write("put", needs=[]))
    run = work.start()
    bad, put = work.claim_step("bad"), work.claim_step("put")
    bad.fail("fatal").expect(200)
    assert (run.view()["status"], run.view()["direction"]) == ("failing", "forward")
    run.cancel().expect(202)
    assert (run.view()["status"], run.view()["direction"]) == ("cancelling", "cancel")
    put.complete().expect(200)
    assert run.view()["status"] == "cancelled", "in direction cancel a standing write needs no operator"


def test_a_forced_cancel_of_what_is_failing_ends_its_writes(flow: MakeFlow) -> None:
    work = flow(read("bad", needs=[]), safe_write("put", needs=[]))
    run = work.start()
    bad, put = work.claim_step("bad"), work.claim_step("put")
    bad.fail("fatal").expect(200)
    run.cancel(force=True).expect(202)
    assert run.statuses() == {"bad": "failed", "put": "uncertain"}
    assert run.view()["status"] == "reconciliation_required"
    put.heartbeat().expect_refusal("lease_lost")


def test_a_cancel_in_reconciliation_is_a_wish_that_is_kept(flow: MakeFlow) -> None:
    work = flow(write())
    run, lease = work.begin()
    lease.begin()
    lease.fail("fatal").expect(200)
    assert run.view()["direction"] == "forward"
    answer = run.cancel().expect(202)
    assert answer["status"] == "reconciliation_required"
    view = run.view()
    assert (view["status"], view["direction"]) == ("reconciliation_required", "cancel")
    assert "execution.cancel_requested" in run.types()


@pytest.mark.parametrize("fields", [{"reason": 5}, {"force": "yes"}, {"force": 1}])
def test_a_cancel_of_a_wrong_form_is_refused(flow: MakeFlow, fields: dict[str, Json]) -> None:
    run = flow(read()).start()
    run.cancel(**fields).expect_problem(422, "invalid_request")
    assert run.view()["status"] == "queued"


def test_of_cancel_and_the_last_complete_one_wins_and_the_other_is_told(flow: MakeFlow) -> None:
    work = flow(read())
    for _ in range(25):
        run, lease = work.begin()
        cancelled, completed = together([run.cancel, lease.complete])
        check_crossing(run, lease, cancelled.status, completed.status)


def check_crossing(run: Run, lease: Lease, cancelled: int, completed: int) -> None:
    """Either the one or the other counted; the journal, checked as it is read, has one end."""
    view = run.view()
    if completed == 200:
        assert (view["status"], cancelled) == ("completed", 409)
    else:
        assert (view["status"], cancelled, completed) == ("cancelled", 202, 409)
        lease.complete().expect_refusal("execution_ended")
    assert run.types()[-1] == f"execution.{view['status']}"


def test_cancels_at_once_end_it_once(flow: MakeFlow) -> None:
    work = flow(read(retry=AT_ONCE), output=cel("steps.work.output"))
    for _ in range(5):
        run = work.start()
        answers = together([run.cancel for _ in range(8)])
        assert sorted(answer.status for answer in answers) == [202] + [409] * 7
        assert run.types().count("execution.cancelled") == 1


def test_an_output_that_breaks_its_schema_after_a_cancel_leaves_the_write_applied(flow: MakeFlow) -> None:
    work = flow(safe_write(output_schema={"type": "string"}))
    run, lease = work.begin()
    run.cancel().expect(202)
    assert lease.complete(5).expect_problem(422, "invalid_output")["settled"]
    view = run.view()
    assert (view["status"], view["steps"][0]["status"]) == ("reconciliation_required", "uncertain")
