"""Delivery at most once: nothing may happen outside before a heartbeat with `started` got 200 without `cancel`."""

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Json
from tests.support.definitions import AT_ONCE, ONCE, brief, read, safe_write, write
from tests.support.wait import moment

AT_MOST_ONCE = {
    "read_only": read(delivery="at_most_once", **brief(0.3, 0)),
    "idempotent_write": safe_write(delivery="at_most_once", **brief(0.3, 0)),
    "non_idempotent_write": write(**brief(0.3, 0)),
}


@pytest.mark.parametrize("effect", AT_MOST_ONCE)
def test_a_lease_that_lapses_before_its_start_costs_nothing(flow: MakeFlow, effect: str) -> None:
    work = flow({**AT_MOST_ONCE[effect], "retry": ONCE})
    run, first = work.begin()
    second = work.claim_one()
    assert second.attempt == 1, "unspent"
    assert second.fence > first.fence
    first.heartbeat(started=True).expect_refusal("lease_lost")
    assert "attempt.requeued" in run.types()


@pytest.mark.parametrize(
    ("effect", "step", "execution"),
    [
        ("read_only", "failed", "failed"),
        ("idempotent_write", "uncertain", "reconciliation_required"),
        ("non_idempotent_write", "uncertain", "reconciliation_required"),
    ],
)
def test_a_lease_that_lapses_after_its_start_is_not_run_again(
    flow: MakeFlow, effect: str, step: str, execution: str
) -> None:
    work = flow(AT_MOST_ONCE[effect])
    run, lease = work.begin()
    lease.begin()
    view = run.until(execution)
    assert view["steps"][0]["status"] == step
    assert view["error"]["class"] == "lost"
    work.assert_idle()


def test_a_lapsed_lease_is_not_started_any_more(flow: MakeFlow) -> None:
    work = flow(write(**brief()))
    run, lease = work.begin()
    moment(0.15)
    problem = lease.heartbeat(started=True).expect_refusal("lease_expired")
    assert 0 < problem["reclaim_seconds"] <= 30
    assert "attempt.started" not in run.types()


def test_a_lapsed_lease_is_settled_late_though_it_never_started(flow: MakeFlow) -> None:
    work = flow(write(**brief()))
    run, lease = work.begin()
    moment(0.15)
    assert lease.fail("interrupted", effect="none").expect(200)["late"] is True
    assert work.claim_one().attempt == 1
    assert run.view()["status"] == "running"


def test_a_completion_without_a_start_counts(flow: MakeFlow) -> None:
    work = flow(write())
    run, lease = work.begin()
    lease.complete("it did happen").expect(200)
    view = run.view(include="payloads")
    assert (view["status"], view["steps"][0]["status"]) == ("completed", "succeeded")


@pytest.mark.parametrize("effect", [None, "none", "unknown", "absent"])
def test_a_failure_before_the_start_has_effect_none(flow: MakeFlow, effect: str | None) -> None:
    work = flow(write(retry=AT_ONCE))
    _, lease = work.begin()
    said = {} if effect is None else {"effect": effect}
    assert lease.fail("retryable", **said).expect(200)["disposition"] == "retry_scheduled"
    assert work.claim_one().attempt == 2


def test_a_fatal_failure_before_the_start_fails_the_step(flow: MakeFlow) -> None:
    work = flow(write())
    run, lease = work.begin()
    assert lease.fail("fatal").expect(200)["disposition"] == "step_failed"
    assert run.view()["status"] == "failed"


@pytest.mark.parametrize("kind", ["retryable", "fatal", "interrupted", "card_declined"])
def test_an_effect_reported_before_the_start_counts(flow: MakeFlow, kind: str) -> None:
    work = flow(write())
    run, lease = work.begin()
    assert lease.fail(kind, effect="applied").expect(200)["disposition"] == "uncertain"
    assert run.view()["status"] == "reconciliation_required"


def test_a_cancel_before_the_start_takes_the_lease_away(flow: MakeFlow) -> None:
    work = flow(write())
    run, lease = work.begin()
    run.cancel().expect(202)
    assert run.view()["status"] == "cancelled"
    problem = lease.heartbeat(started=True).expect_refusal("execution_ended")
    assert problem["execution"]["status"] == "cancelled"
    assert "attempt.started" not in run.types()


def test_giving_up_before_the_start_costs_nothing(flow: MakeFlow) -> None:
    work = flow(write())
    _, lease = work.begin()
    assert lease.fail("interrupted", effect="none").expect(200)["disposition"] == "requeued"
    assert work.claim_one().attempt == 1


def test_a_timeout_before_the_start_spends_the_attempt(flow: MakeFlow) -> None:
    work = flow(write(timeout_seconds=0.2, retry=AT_ONCE))
    run, first = work.begin()
    second = work.claim_one()
    assert second.attempt == 2
    assert second.data["previous"]["error"]["class"] == "timeout"
    first.heartbeat(started=True).expect_refusal("lease_lost")
    assert run.view()["status"] == "running"


def test_the_last_timeout_before_the_start_fails_the_step(flow: MakeFlow) -> None:
    work = flow(write(timeout_seconds=0.2, retry=ONCE))
    run, _ = work.begin()
    view: Json = run.until("failed")
    assert view["error"]["class"] == "timeout"
    assert view["steps"][0]["status"] == "failed"


def test_heartbeats_keep_a_lease_that_has_not_started(flow: MakeFlow) -> None:
    work = flow(write(**brief(0.7, 0)))
    run, lease = work.begin()
    for _ in range(4):
        moment(0.15)
        lease.heartbeat().expect(200)
    lease.begin().complete().expect(200)
    assert run.types().count("attempt.leased") == 1


def test_a_lapsed_lease_that_never_started_may_still_complete(flow: MakeFlow) -> None:
    work = flow(write(**brief()))
    run, lease = work.begin()
    moment(0.15)
    assert lease.complete("it did happen").expect(200)["late"] is True
    assert run.view()["status"] == "completed"
