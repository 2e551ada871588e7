"""When a retry is due: the backoff, its jitter and bounds, and what `retry_after` may add."""

from datetime import timedelta
from email.utils import format_datetime

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Json
from tests.support.definitions import read
from tests.support.flow import Lease, Run
from tests.support.times import instant, seconds


def due_in(run: Run, answer: Json) -> float:
    """How many seconds after the failure the next attempt is due."""
    failed = [event for event in run.events() if event["type"] == "step.retry_scheduled"][-1]
    return seconds(failed["at"], answer["next_attempt_at"])


def fail(lease: Lease, **fields: Json) -> Json:
    answer = lease.fail("retryable", **fields).expect(200)
    assert answer["disposition"] == "retry_scheduled"
    return answer


QUICK = {"max_attempts": 5, "initial_seconds": 0.5, "factor": 1}


@pytest.mark.parametrize(
    ("retry", "lowest", "highest"),
    [
        ({}, 1.6, 2.4),
        ({"initial_seconds": 10}, 8, 12),
        ({"initial_seconds": 10, "max_seconds": 10}, 8, 10),
        ({"initial_seconds": 1000, "max_seconds": 60}, 48, 60),
        ({"initial_seconds": 0}, 0, 0),
        ({"initial_seconds": 0, "factor": 10}, 0, 0),
    ],
)
def test_the_first_retry_is_due_after_the_first_wait(
    flow: MakeFlow, retry: dict[str, Json], lowest: float, highest: float
) -> None:
    work = flow(read(retry={"max_attempts": 5, **retry}))
    run, lease = work.begin()
    assert lowest - 0.002 <= due_in(run, fail(lease)) <= highest + 0.002


@pytest.mark.parametrize(
    ("retry", "lowest", "highest"),
    [
        ({"initial_seconds": 0.05, "factor": 200, "max_seconds": 1000}, 8, 12),
        ({"initial_seconds": 0.05, "factor": 200, "max_seconds": 10}, 8, 10),
        ({"initial_seconds": 0.05, "factor": 1, "max_seconds": 10}, 0.04, 0.06),
    ],
)
def test_the_second_is_due_after_the_wait_times_the_factor(
    flow: MakeFlow, retry: dict[str, Json], lowest: float, highest: float
) -> None:
    work = flow(read(retry={"max_attempts": 5, **retry}))
    run, lease = work.begin()
    fail(lease)
    assert lowest - 0.002 <= due_in(run, fail(work.claim_one())) <= highest + 0.002


def test_waits_differ_by_jitter(flow: MakeFlow) -> None:
    work = flow(read(retry={"initial_seconds": 100, "max_seconds": 1000}))
    runs = [work.start() for _ in range(12)]
    leases = work.claim(max=12)
    by_id = {run.id: run for run in runs}
    waits = [due_in(by_id[lease.data["execution"]["id"]], fail(lease)) for lease in leases]
    assert all(80 <= wait <= 120 for wait in waits), waits
    assert max(waits) - min(waits) > 3, waits


def test_backoff_does_not_overflow_however_many_attempts_there_were(flow: MakeFlow) -> None:
    work = flow(read(retry={"max_attempts": 1000, "initial_seconds": 0, "factor": 1000}))
    work.start()
    for number in range(1, 110):
        lease = work.claim_one()
        assert lease.attempt == number
        fail(lease)
    assert work.claim_one().attempt == 110


IGNORED: list[Json] = [
    -1,
    -0.5,
    "-1",
    "soon",
    "",
    "NaN",
    "Infinity",
    "nan",
    "1e",
    "0x10",
    True,
    False,
    None,
    [],
    {},
    [30],
    "Wed, 21 Oct 2015 07:28:00 GMT",
    "Wed, 99 Oct 2099 07:28:00 GMT",
    "2015-10-21T07:28:00Z",
    "x" * 10_000,
    "\u0000",
]


@pytest.mark.parametrize("retry_after", IGNORED, ids=lambda value: repr(value)[:20])
def test_unreadable_negative_and_past_ones_are_ignored(flow: MakeFlow, retry_after: Json) -> None:
    work = flow(read(retry=QUICK))
    run, lease = work.begin()
    assert 0.398 <= due_in(run, fail(lease, retry_after=retry_after)) <= 0.602


@pytest.mark.parametrize(
    ("retry_after", "expected"),
    [
        (30, 30),
        (30.5, 30.5),
        ("30", 30),
        ("30.5", 30.5),
        (0, 0.5),
        (119, 119),
        (120, 120),
        (121, 120),
        (1e18, 120),
        (10**40, 120),
        (1e300, 120),
        ("1e3", 120),
        ("1" * 300, 120),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 120),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_it_delays_the_next_attempt_up_to_two_minutes(flow: MakeFlow, retry_after: Json, expected: float) -> None:
    work = flow(read(retry=QUICK))
    run, lease = work.begin()
    assert abs(due_in(run, fail(lease, retry_after=retry_after)) - expected) < 0.2


def test_it_is_a_lower_bound_only(flow: MakeFlow) -> None:
    work = flow(read(retry={"initial_seconds": 50, "factor": 1}))
    run, lease = work.begin()
    assert 40 <= due_in(run, fail(lease, retry_after=1)) <= 60


def test_it_may_exceed_the_retry_s_own_maximum(flow: MakeFlow) -> None:
    work = flow(read(retry={"initial_seconds": 1, "max_seconds": 1}))
    run, lease = work.begin()
    assert abs(due_in(run, fail(lease, retry_after=20)) - 20) < 0.1


@pytest.mark.parametrize("style", ["imf", "rfc850", "asctime"])
def test_an_http_date_is_read_as_utc(flow: MakeFlow, style: str) -> None:
    work = flow(read(retry=QUICK))
    run, lease = work.begin()
    at = instant(run.view()["created_at"]) + timedelta(seconds=60)
    written = {
        "imf": format_datetime(at, usegmt=True),
        "rfc850": at.strftime("%A, %d-%b-%y %H:%M:%S GMT"),
        "asctime": at.strftime("%a %b %e %H:%M:%S %Y"),
    }[style]
    assert 57 < due_in(run, fail(lease, retry_after=written)) <= 60.1


def test_the_due_time_is_kept_and_the_step_waits(flow: MakeFlow) -> None:
    work = flow(read(retry=QUICK))
    run, lease = work.begin()
    answer = fail(lease)
    assert run.step()["next_attempt_at"] == answer["next_attempt_at"]
    assert run.view()["status"] == "waiting"
    second = work.claim_one()
    leased = [event for event in run.events() if event["type"] == "attempt.leased"][-1]
    assert seconds(answer["next_attempt_at"], leased["at"]) >= 0
    assert run.view()["status"] == "running"
    second.complete().expect(200)


def test_a_retry_beyond_the_execution_s_timeout_is_none(flow: MakeFlow) -> None:
    work = flow(read(retry={"max_attempts": 5, "initial_seconds": 60}), timeout_seconds=20)
    run, lease = work.begin()
    assert lease.fail("retryable").expect(200)["disposition"] == "step_failed"
    assert run.view()["error"]["class"] == "retryable"


def test_a_retry_after_beyond_the_execution_s_timeout_is_none(flow: MakeFlow) -> None:
    work = flow(read(retry=QUICK), timeout_seconds=20)
    run, lease = work.begin()
    assert lease.fail("retryable", retry_after=100).expect(200)["disposition"] == "step_failed"
    assert run.view()["status"] == "failed"
