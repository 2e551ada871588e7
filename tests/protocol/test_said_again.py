"""Outcomes said again: equal to the settled one they are answered as it was then, before any refusal is looked at."""

from uuid import uuid4

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Json
from tests.support.definitions import AT_ONCE, brief, read, safe_write, write
from tests.support.wait import moment


def test_a_completion_said_again_is_replayed(flow: MakeFlow) -> None:
    work = flow(read("a"), read("b"))
    run, lease = work.begin()
    first = lease.complete({"x": 1}, state={"s": 1}).expect(200)
    assert first["replayed"] is False
    again = lease.complete({"x": 1}, state={"s": 1}).expect(200)
    assert again["replayed"] is True
    assert {**again, "replayed": False} == first
    assert run.view()["revision"] == 2, "it changes nothing"
    assert run.types().count("step.succeeded") == 1


def test_the_execution_of_a_replay_is_as_it_is_now(flow: MakeFlow) -> None:
    work = flow(read("a"), read("b"))
    run, lease = work.begin()
    assert lease.complete().expect(200)["execution"]["status"] == "running"
    work.claim_one().complete().expect(200)
    again = lease.complete().expect(200)
    assert again["replayed"] is True
    assert again["execution"] == {"id": run.id, "status": "completed"}


@pytest.mark.parametrize(
    ("first", "again"),
    [
        ('{"a": 1, "b": [2]}', '{ "b":[2],"a" : 1 }'),
        ("1e2", "100.0"),
        ("-0", "0"),
        ('"\\u00e9"', '"é"'),
        ("1" + "0" * 40, "1" + "0" * 40),
    ],
)
def test_equal_as_json_is_equal(flow: MakeFlow, first: str, again: str) -> None:
    work = flow(read())
    _, lease = work.begin()
    for output, replayed in ((first, False), (again, True)):
        body = f'{{"fence": {lease.fence}, "output": {output}}}'.encode()
        answer = lease.http.send("POST", f"/v1/leases/{lease.id}/complete", raw=body)
        assert answer.expect(200)["replayed"] is replayed


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ({"output": 1}, {"output": 2}),
        ({"output": 1}, {"output": 1.0}),
        ({"output": 1}, {"output": "1"}),
        ({"output": [1, 2]}, {"output": [2, 1]}),
        ({"output": 10**40}, {"output": 10**40 + 1}),
        ({"output": None}, {"output": False}),
        ({"output": 1, "state": {"s": 1}}, {"output": 1, "state": {"s": 2}}),
        ({"output": 1, "state": {"s": 1}}, {"output": 1}),
    ],
)
def test_another_completion_is_already_settled(flow: MakeFlow, first: dict[str, Json], other: dict[str, Json]) -> None:
    work = flow(read(), read("next"))
    _, lease = work.begin()
    lease.complete(**first).expect(200)
    lease.complete(**other).expect_refusal("already_settled")
    assert lease.complete(**first).expect(200)["replayed"] is True


def test_the_telemetry_of_a_replay_is_ignored(flow: MakeFlow) -> None:
    work = flow(read())
    run, lease = work.begin()
    usage = {"model": "m", "input_tokens": 10, "output_tokens": 1}
    lease.complete(usage=[usage]).expect(200)
    lease.complete(usage=[{**usage, "input_tokens": 999}]).expect(200)
    assert run.view()["usage"]["input_tokens"] == 10


def test_a_replay_under_another_fence_is_none(flow: MakeFlow) -> None:
    work = flow(read(), read("next"))
    _, lease = work.begin()
    lease.complete(1).expect(200)
    lease.complete(1, fence=lease.fence + 1).expect_refusal("already_settled")


@pytest.mark.parametrize(
    ("fields", "disposition"),
    [
        ({"class": "retryable"}, "retry_scheduled"),
        ({"class": "interrupted"}, "requeued"),
        ({"class": "unservable"}, "requeued"),
        ({"class": "fatal"}, "step_failed"),
        ({"class": "card_declined"}, "caught"),
    ],
)
def test_a_failure_said_again_is_replayed(flow: MakeFlow, fields: dict[str, Json], disposition: str) -> None:
    work = flow(read(catch=[{"class": "card_declined", "value": 1}]))
    run, lease = work.begin()
    path = f"/v1/leases/{lease.id}/fail"
    body = {"fence": lease.fence, "message": "m", "details": {"a": 1}, **fields}
    first = lease.http.post(path, body).expect(200)
    assert (first["disposition"], first["replayed"]) == (disposition, False)
    before = run.events()
    again = lease.http.post(path, body).expect(200)
    assert {**again, "replayed": False} == first
    assert again["replayed"] is True
    assert run.events() == before


def test_what_a_failure_is_compared_by(flow: MakeFlow) -> None:
    work = flow(safe_write(retry=AT_ONCE))
    _, lease = work.begin()
    said: dict[str, Json] = {"message": "one", "details": {"a": 1}, "effect": "none", "retry_after": 0}
    first = lease.fail("retryable", **said).expect(200)
    again = lease.fail("retryable", **{**said, "message": "two", "retry_after": 100}).expect(200)
    assert again["replayed"] is True
    assert again["next_attempt_at"] == first["next_attempt_at"]
    lease.fail("fatal", **said).expect_refusal("already_settled")
    lease.fail("retryable", **{**said, "effect": "unknown"}).expect_refusal("already_settled")
    lease.fail("retryable", **{**said, "details": {"a": 2}}).expect_refusal("already_settled")
    lease.complete().expect_refusal("already_settled")


def test_a_failure_after_a_completion_is_already_settled(flow: MakeFlow) -> None:
    work = flow(read(), read("next"))
    _, lease = work.begin()
    lease.complete().expect(200)
    lease.fail("fatal").expect_refusal("already_settled")


def test_a_failure_is_replayed_though_the_next_attempt_runs(flow: MakeFlow) -> None:
    work = flow(read(retry=AT_ONCE))
    _, first = work.begin()
    first.fail().expect(200)
    second = work.claim_one()
    assert first.fail().expect(200)["replayed"] is True
    second.complete().expect(200)
    assert first.fail().expect(200)["replayed"] is True


def test_a_replay_comes_before_every_refusal(flow: MakeFlow) -> None:
    """Settled, then the execution ended: an equal outcome is still answered as it was, another is refused."""
    work = flow(write("a"), write("b"))
    run, lease = work.begin()
    lease.begin().complete("done").expect(200)
    run.cancel().expect(202)
    view = run.until("cancelled")
    assert view["standing_writes"]
    again = lease.complete("done").expect(200)
    assert (again["replayed"], again["execution"]["status"]) == (True, "cancelled")
    lease.complete("other").expect_refusal("already_settled")


def test_a_late_outcome_is_replayed_as_late(flow: MakeFlow) -> None:
    work = flow(read(**brief()), read("next"))
    _, lease = work.begin()
    moment(0.15)
    first = lease.fail("fatal").expect(200)
    again = lease.fail("fatal").expect(200)
    assert (first["late"], first["replayed"]) == (True, False)
    assert (again["late"], again["replayed"]) == (True, True)


def test_a_replay_does_next_in_the_same_way(flow: MakeFlow) -> None:
    work = flow(read("a"), read("b"))
    run, lease = work.begin()
    next_claim = {"worker": "tester", "claim_id": str(uuid4()), "serves": [{"workflow": work.name}]}
    first = lease.complete(1, next=next_claim).expect(200)
    again = lease.complete(1, next=next_claim).expect(200)
    assert [each["step"] for each in first["leases"]] == ["b"]
    assert [(each["id"], each["fence"]) for each in again["leases"]] == [
        (each["id"], each["fence"]) for each in first["leases"]
    ]
    assert run.types().count("attempt.leased") == 2


def test_a_replay_with_another_next_makes_another_claim(flow: MakeFlow) -> None:
    work = flow(read())
    _, lease = work.begin()
    lease.complete(1).expect(200)
    work.start()
    body = {"worker": "tester", "claim_id": str(uuid4()), "serves": [{"workflow": work.name}]}
    again = lease.complete(1, next=body).expect(200)
    assert again["replayed"] is True
    assert len(again["leases"]) == 1
