"""Starts at a later time: `scheduled` until then, in any time zone, and never early."""

from datetime import datetime, timedelta, timezone

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.definitions import read
from tests.support.flow import ahead
from tests.support.times import instant, seconds


def test_it_is_scheduled_until_its_time(flow: MakeFlow) -> None:
    work = flow(read())
    at = ahead(work.http, 0.8)
    run = work.start(start_at=at)
    view = run.view()
    assert (view["status"], view["started_at"]) == ("scheduled", None)
    assert view["blocked"] is None
    work.assert_idle()
    lease = work.claim_one(wait_seconds=5)
    leased = run.event("attempt.leased")["at"]
    assert 0 <= (instant(leased) - datetime.fromisoformat(at)).total_seconds() < 1.5
    lease.complete().expect(200)
    assert run.view()["status"] == "completed"


def test_nobody_needs_to_claim_for_it_to_begin(flow: MakeFlow) -> None:
    work = flow(read())
    run = work.start(start_at=ahead(work.http, 0.3))
    assert run.until("queued", seconds=3)["steps"][0]["status"] == "queued"


@pytest.mark.parametrize("hours", [0, 2, -7.5, 14])
def test_an_offset_is_read(flow: MakeFlow, hours: float) -> None:
    work = flow(read())
    zone = timezone(timedelta(hours=hours))
    at = datetime.fromisoformat(ahead(work.http, 0.6)).astimezone(zone).isoformat()
    run = work.start(start_at=at)
    assert run.view()["status"] == "scheduled"
    work.claim_one(wait_seconds=5)
    view = run.view()
    assert seconds(view["created_at"], view["started_at"]) < 3


def test_a_time_that_has_passed_is_now(flow: MakeFlow) -> None:
    work = flow(read())
    run = work.start(start_at=ahead(work.http, -3600))
    assert run.view()["status"] == "queued"
    work.claim_one(wait_seconds=0)


def test_long_fractions_are_times_too(flow: MakeFlow) -> None:
    work = flow(read())
    for text in ("2099-12-31T23:59:59Z", "2099-12-31T23:59:59.123456789Z", "2099-12-31T23:59:59+05:30"):
        assert work.start(start_at=text).view()["status"] == "scheduled"


def test_several_due_at_once_all_begin(flow: MakeFlow) -> None:
    work = flow(read())
    runs = [work.start(start_at=ahead(work.http, 0.4)) for _ in range(5)]
    assert [run.view()["status"] for run in runs] == ["scheduled"] * 5
    for _ in runs:
        work.claim_one(wait_seconds=5).complete().expect(200)
    assert [run.view()["status"] for run in runs] == ["completed"] * 5
