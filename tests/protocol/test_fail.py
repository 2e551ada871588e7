"""Fail: what it answers for each class, and what each leaves behind."""

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Json
from tests.support.definitions import AT_ONCE, ONCE, cel, read, safe_write, write
from tests.support.times import seconds

DAEMONS_OWN = (
    "timeout lost queue_timeout wait_timeout expression_failed no_match ambiguous_match repeat_limit child_failed "
    "execution_timeout finish_invalid checkpoint_mismatch server_restarted budget_exceeded"
).split()


def test_a_failure_answers_with_all_of_it(flow: MakeFlow) -> None:
    work = flow(read(retry={"initial_seconds": 100, "max_seconds": 100}))
    run, lease = work.begin()
    answer = lease.fail("retryable").expect(200)
    assert answer["disposition"] == "retry_scheduled"
    assert answer["late"] is False
    assert answer["replayed"] is False
    assert answer["execution"] == {"id": run.id, "status": "waiting"}
    assert answer["leases"] == []
    assert answer["held_seconds"] == 0
    assert answer["warnings"] == []
    step = run.step()
    assert (step["status"], step["next_attempt_at"]) == ("retry_wait", answer["next_attempt_at"])
    event = run.event("step.retry_scheduled")
    assert 79 < seconds(event["at"], answer["next_attempt_at"]) < 101


def test_a_retry_leads_to_another_attempt(flow: MakeFlow) -> None:
    work = flow(read(retry=AT_ONCE))
    run, first = work.begin()
    first.fail("retryable").expect(200)
    second = work.claim_one()
    assert second.attempt == 2
    second.fail("retryable").expect(200)
    third = work.claim_one()
    assert third.attempt == 3
    third.complete().expect(200)
    assert run.view()["status"] == "completed"


def test_three_attempts_run_a_body_thrice_at_most(flow: MakeFlow) -> None:
    work = flow(read(retry=AT_ONCE))
    run = work.start()
    dispositions = [work.claim_one().fail("retryable").expect(200)["disposition"] for _ in range(3)]
    assert dispositions == ["retry_scheduled", "retry_scheduled", "step_failed"]
    view = run.view()
    assert (view["status"], view["error"]["class"], view["error"]["step"]) == ("failed", "retryable", "work")
    work.assert_idle()


def test_interrupted_is_queued_again_at_once_and_unspent(flow: MakeFlow) -> None:
    work = flow(read(retry=ONCE))
    run, lease = work.begin()
    answer = lease.fail("interrupted").expect(200)
    assert answer["disposition"] == "requeued"
    assert answer.get("next_attempt_at") is None
    assert run.step()["status"] == "queued"
    again = work.claim_one(wait_seconds=0)
    assert again.attempt == 1


def test_the_twentieth_interruption_in_a_row_counts(flow: MakeFlow) -> None:
    work = flow(read(retry=AT_ONCE))
    work.start()
    dispositions, attempts = [], []
    for _ in range(20):
        lease = work.claim_one()
        attempts.append(lease.attempt)
        dispositions.append(lease.fail("interrupted").expect(200)["disposition"])
    assert dispositions == ["requeued"] * 19 + ["retry_scheduled"]
    assert attempts == [1] * 20
    assert work.claim_one().attempt == 2


def test_another_outcome_between_begins_the_row_of_interruptions_anew(flow: MakeFlow) -> None:
    work = flow(read(retry=AT_ONCE))
    work.start()
    for _ in range(19):
        work.claim_one().fail("interrupted").expect(200)
    work.claim_one().fail("retryable").expect(200)
    dispositions = [work.claim_one().fail("interrupted").expect(200)["disposition"] for _ in range(3)]
    assert dispositions == ["requeued"] * 3


def test_cancelled_though_nobody_asked_is_fatal(flow: MakeFlow) -> None:
    work = flow(read(retry=AT_ONCE))
    run, lease = work.begin()
    assert lease.fail("cancelled").expect(200)["disposition"] == "step_failed"
    assert run.view()["status"] == "failed"
    work = flow(write())
    run, lease = work.begin()
    lease.begin()
    assert lease.fail("cancelled").expect(200)["disposition"] == "uncertain"


def test_a_typed_failure_is_not_retried(flow: MakeFlow) -> None:
    work = flow(read(retry=AT_ONCE))
    run, lease = work.begin()
    answer = lease.fail("card_declined", message="no funds", details={"code": 51}).expect(200)
    assert answer["disposition"] == "step_failed"
    assert answer["execution"]["status"] == "failed"
    view = run.view()
    assert view["error"].keys() >= {"class", "message", "step", "cause"}
    assert (view["error"]["class"], view["error"]["message"]) == ("card_declined", "no funds")
    step = view["steps"][0]
    assert step["error"] == {"class": "card_declined", "message": "no funds", "details": {"code": 51}}


def test_a_class_may_be_caught(flow: MakeFlow) -> None:
    work = flow(
        read(catch=[{"class": "card_declined", "value": {"paid": False}}]),
        output=cel("steps.work.output"),
    )
    run, lease = work.begin()
    answer = lease.fail("card_declined").expect(200)
    assert answer["disposition"] == "caught"
    assert answer["execution"]["status"] == "completed"
    view = run.view()
    assert view["output"] == {"paid": False}
    assert (view["steps"][0]["status"], view["steps"][0]["caught"]) == ("succeeded", True)
    assert "step.caught" in run.types()


@pytest.mark.parametrize("kind", DAEMONS_OWN)
def test_the_daemon_s_own_classes_are_refused(flow: MakeFlow, kind: str) -> None:
    work = flow(read())
    run, lease = work.begin()
    assert "/class" in lease.fail(kind).expect_faults(422, "invalid_request")
    lease.complete().expect(200)
    assert run.view()["status"] == "completed"


@pytest.mark.parametrize("kind", ["invalid_input", "invalid_output", "Card.Declined:51_x-y", "x" * 128])
def test_other_names_are_a_worker_s_to_give(flow: MakeFlow, kind: str) -> None:
    work = flow(read())
    run, lease = work.begin()
    assert lease.fail(kind).expect(200)["disposition"] == "step_failed"
    assert run.view()["error"]["class"] == kind


FAULTS: list[dict[str, Json]] = [
    {"class": "a b"},
    {"class": ""},
    {"class": "x" * 129},
    {"class": "x\n"},
    {"class": None},
    {"class": 5},
    {"class": "retryable", "effect": "maybe"},
    {"class": "retryable", "effect": 5},
]


@pytest.mark.parametrize("fields", FAULTS)
def test_what_is_no_failure_is_refused_and_settles_nothing(flow: MakeFlow, fields: dict[str, Json]) -> None:
    work = flow(read())
    run, lease = work.begin()
    body = {"fence": lease.fence, "message": "m", **fields}
    problem = lease.http.post(f"/v1/leases/{lease.id}/fail", body).expect_problem(422, "invalid_request")
    assert "settled" not in problem
    assert run.step()["status"] == "running"
    lease.complete().expect(200)


def test_a_class_is_required(flow: MakeFlow) -> None:
    work = flow(read())
    _, lease = work.begin()
    answer = lease.http.post(f"/v1/leases/{lease.id}/fail", {"fence": lease.fence, "message": "m"})
    assert "class" in str(answer.expect_problem(422, "invalid_request"))


@pytest.mark.parametrize("character", ["x", "é", "😀"])
def test_a_long_message_is_cut_and_never_refused(flow: MakeFlow, character: str) -> None:
    work = flow(read())
    run, lease = work.begin()
    lease.fail("fatal", message=character * 50_000).expect(200)
    message = run.view()["error"]["message"]
    assert 4000 < len(message.encode()) <= 4096
    assert message.startswith(character * 900)
    assert "�" not in message, "no character is cut in two"


def test_a_message_is_cleaned_of_what_cannot_be_stored(flow: MakeFlow) -> None:
    work = flow(read())
    run, lease = work.begin()
    lease.fail("fatal", message="before\u0000after").expect(200)
    message = run.view()["error"]["message"]
    assert "\u0000" not in message
    assert message.startswith("before")
    assert message.endswith("after")


@pytest.mark.parametrize("fields", [{}, {"message": ""}, {"message": None}])
def test_a_message_may_be_missing(flow: MakeFlow, fields: dict[str, Json]) -> None:
    work = flow(read())
    _, lease = work.begin()
    answer = lease.http.post(f"/v1/leases/{lease.id}/fail", {"fence": lease.fence, "class": "fatal", **fields})
    assert answer.status == 200 or fields == {"message": None}, str(answer)


def test_details_too_large_are_dropped_with_a_warning(flow: MakeFlow) -> None:
    work = flow(read())
    run, lease = work.begin()
    answer = lease.fail("fatal", details={"x": "y" * 65536}).expect(200)
    assert any("details" in warning for warning in map(str, answer["warnings"])), answer
    assert run.view()["steps"][0]["error"]["details"] is None


def test_a_reported_effect_none_speaks_for_its_own_attempt_only(flow: MakeFlow) -> None:
    work = flow(safe_write(retry=AT_ONCE))
    run, first = work.begin()
    first.fail("retryable", effect="unknown").expect(200)
    assert work.claim_one().fail("fatal", effect="none").expect(200)["disposition"] == "uncertain"
    assert run.view()["status"] == "reconciliation_required"


def test_absent_speaks_for_all_attempts(flow: MakeFlow) -> None:
    work = flow(safe_write(retry=AT_ONCE))
    run, first = work.begin()
    first.fail("retryable", effect="unknown").expect(200)
    assert work.claim_one().fail("fatal", effect="absent").expect(200)["disposition"] == "step_failed"
    assert run.view()["status"] == "failed"


def test_applied_is_worse_than_a_later_unknown(flow: MakeFlow) -> None:
    work = flow(safe_write(retry=AT_ONCE))
    run, first = work.begin()
    assert first.fail("retryable", effect="applied").expect(200)["disposition"] == "retry_scheduled"
    second = work.claim_one()
    assert second.fail("retryable", effect="none").expect(200)["disposition"] == "retry_scheduled"
    assert work.claim_one().fail("retryable", effect="none").expect(200)["disposition"] == "uncertain"
    assert run.view()["status"] == "reconciliation_required"


def test_a_read_s_effect_is_always_none(flow: MakeFlow) -> None:
    work = flow(read())
    run, lease = work.begin()
    assert lease.fail("fatal", effect="applied").expect(200)["disposition"] == "step_failed"
    assert run.view()["status"] == "failed"


def test_an_uncertain_step_is_never_caught(flow: MakeFlow) -> None:
    work = flow(write(catch=[{"class": "*", "value": 1}]))
    run, lease = work.begin()
    lease.begin()
    assert lease.fail("card_declined").expect(200)["disposition"] == "uncertain"
    assert run.view()["status"] == "reconciliation_required"


def test_out_of_attempts_is_caught_by_the_last_class(flow: MakeFlow) -> None:
    work = flow(read(retry=ONCE, catch=[{"class": "retryable", "value": "given up"}]))
    run, lease = work.begin()
    assert lease.fail("retryable").expect(200)["disposition"] == "caught"
    assert run.view()["status"] == "completed"
