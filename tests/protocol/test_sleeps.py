"""Sleeps: they end at their time, computed once, and a time that can't be had fails the step."""

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Json
from tests.support.definitions import cel, read, sleep_step
from tests.support.flow import ahead
from tests.support.times import instant, seconds


def test_it_lasts_its_seconds_and_has_no_output(flow: MakeFlow) -> None:
    told = {"s": cel("steps.s.output"), "is": cel("steps.s.status")}
    work = flow(sleep_step("s", seconds=0.2), read("b"), output=told)
    run = work.start()
    assert run.step("s")["status"] == "waiting"
    lease = work.claim_one()
    fired = run.event("timer.fired")
    assert fired["step"] == "s"
    assert 0.2 <= seconds(run.started.json["created_at"], fired["at"]) < 1.2
    lease.complete().expect(200)
    assert run.view()["output"] == {"s": None, "is": "succeeded"}


@pytest.mark.parametrize("until", [{"until": cel("input.at")}, {"seconds": cel("double(input.seconds) / 10.0")}])
def test_its_end_may_be_computed(flow: MakeFlow, until: Json) -> None:
    work = flow(sleep_step("s", **until))
    at = ahead(work.http, 0.3)
    run = work.start(input={"at": at, "seconds": 3})
    assert run.step("s")["status"] == "waiting"
    run.until("completed", seconds=3)
    late = (instant(run.event("timer.fired")["at"]) - instant(run.started.json["created_at"])).total_seconds()
    assert 0.25 <= late < 1.3


@pytest.mark.parametrize("fields", [{"until": "2020-01-01T00:00:00+05:30"}, {"seconds": cel("0")}])
def test_a_time_that_has_passed_is_now(flow: MakeFlow, fields: Json) -> None:
    assert flow(sleep_step("s", **fields)).start().until("completed", seconds=3)["ended_at"]


@pytest.mark.parametrize(
    "fields",
    [
        {"seconds": cel("input.word")},
        {"seconds": cel("-1")},
        {"seconds": cel("31536001")},
        {"seconds": [cel("1")]},
        {"until": cel("input.word")},
        {"until": cel("input.no_offset")},
        {"until": cel("1")},
        {"until": cel("input.nothing")},
    ],
)
def test_a_time_that_cannot_be_had_fails_the_step(flow: MakeFlow, fields: Json) -> None:
    run = flow(sleep_step("s", **fields)).start(input={"word": "soon", "no_offset": "2030-01-01T00:00:00"})
    view = run.view()
    assert (view["status"], view["error"]["class"]) == ("failed", "expression_failed")


def test_such_a_failure_may_be_caught(flow: MakeFlow) -> None:
    caught = [{"class": "expression_failed", "value": 0}]
    run = flow(sleep_step("s", seconds=cel("-1"), catch=caught)).start()
    assert run.view()["status"] == "completed"


def test_a_sleep_that_ends_in_a_pause_ends_at_resume(flow: MakeFlow) -> None:
    work = flow(sleep_step("s", seconds=0.1))
    run = work.start()
    run.pause().expect(202)
    work.start().until("completed", seconds=3)
    assert run.view()["status"] == "paused"
    run.resume().expect(202)
    run.until("completed", seconds=3)


def test_a_cancel_ends_it(flow: MakeFlow) -> None:
    run = flow(sleep_step("s", seconds=3600)).start()
    run.cancel().expect(202)
    assert run.view()["status"] == "cancelled"
    assert run.statuses() == {"s": "cancelled"}
