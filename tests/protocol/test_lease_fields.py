"""What a lease says, field by field."""

import re
from uuid import UUID

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Json
from tests.support.definitions import AT_ONCE, brief, cel, read, safe_write, unique, write
from tests.support.times import instant, seconds

FIELDS = set(
    "id fence attempt max_attempts execution step index input steps state previous idempotency_key effect delivery "
    "start_required expires_at lease_seconds heartbeat_seconds reclaim_seconds timeout_seconds traceparent".split()
)
EXECUTION_FIELDS = set("id workflow version correlation tenant labels created_at".split())
TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")


def test_a_lease_says_all_of_it(flow: MakeFlow) -> None:
    work = flow(read("classify"), version="3")
    correlation = unique("case")
    run = work.start(
        input={"text": "hi"}, state={"a": 1}, correlation=correlation, tenant="t1", labels={"team": "blue"}
    )
    lease = work.claim_one().data
    assert lease.keys() >= FIELDS
    assert lease["execution"].keys() >= EXECUTION_FIELDS
    assert lease["execution"] == {
        "id": run.id,
        "workflow": work.name,
        "version": "3",
        "correlation": correlation,
        "tenant": "t1",
        "labels": {"team": "blue"},
        "created_at": run.view()["created_at"],
    }
    assert (lease["step"], lease["index"]) == ("classify", None)
    assert (lease["attempt"], lease["max_attempts"]) == (1, 3)
    assert (lease["input"], lease["state"], lease["steps"]) == ({"text": "hi"}, {"a": 1}, {})
    assert lease["previous"] == {"attempt": 0, "progress": None, "error": None}
    assert lease["idempotency_key"] == f"{run.id}:classify"
    assert isinstance(lease["fence"], int)
    assert UUID(lease["id"]).version == 7
    assert UUID(run.id).version == 7


def test_times_left_out_are_the_daemon_s(flow: MakeFlow) -> None:
    work = flow(read())
    run, lease = work.begin()
    said, protocol = lease.data, work.registered["protocol"]
    assert said["lease_seconds"] == protocol["lease_seconds"]
    assert said["reclaim_seconds"] == protocol["reclaim_seconds"]
    assert said["heartbeat_seconds"] == protocol["heartbeat_seconds"]
    assert 86390 < said["timeout_seconds"] <= 86400
    leased_at = run.event("attempt.leased")["at"]
    assert abs(seconds(leased_at, said["expires_at"]) - protocol["lease_seconds"]) < 1


def test_times_given_are_the_step_s(flow: MakeFlow) -> None:
    work = flow(read(lease_seconds=3, reclaim_seconds=7, timeout_seconds=20))
    run, lease = work.begin()
    said = lease.data
    assert (said["lease_seconds"], said["reclaim_seconds"]) == (3, 7)
    assert 0 < said["heartbeat_seconds"] <= 1, "at most a third of the lease"
    assert 19 < said["timeout_seconds"] <= 20
    assert abs(seconds(run.event("attempt.leased")["at"], said["expires_at"]) - 3) < 0.5


def test_no_timeout_is_null(flow: MakeFlow) -> None:
    work = flow(read(timeout_seconds=None))
    _, lease = work.begin()
    assert lease.data["timeout_seconds"] is None


def test_the_shortest_lease_beats_in_time(flow: MakeFlow) -> None:
    work = flow(read(lease_seconds=0.05, reclaim_seconds=5))
    _, lease = work.begin()
    assert lease.data["lease_seconds"] == 0.05
    assert 0 < lease.data["heartbeat_seconds"] <= 0.05 / 3 + 1e-9


@pytest.mark.parametrize(
    ("step", "delivery", "start_required"),
    [
        (read(), "at_least_once", False),
        (safe_write(), "at_least_once", False),
        (write(), "at_most_once", True),
        (read(delivery="at_most_once"), "at_most_once", True),
        (safe_write(delivery="at_most_once"), "at_most_once", True),
        (write(delivery="at_most_once"), "at_most_once", True),
    ],
)
def test_effect_and_delivery_are_the_definition_s(
    flow: MakeFlow, step: Json, delivery: str, start_required: bool
) -> None:
    work = flow(step)
    run, lease = work.begin()
    said = lease.data
    assert (said["effect"], said["delivery"], said["start_required"]) == (step["effect"], delivery, start_required)
    assert run.step()["status"] == ("leased" if start_required else "running")


def test_steps_are_the_ancestors_only(flow: MakeFlow) -> None:
    work = flow(
        read("root", needs=[]),
        read("left", needs=["root"]),
        read("right", needs=["root"]),
        read("skipped", needs=["root"], when="false"),
        read("end", needs=["left", "skipped"]),
    )
    work.start()
    work.claim_step("root").complete("r").expect(200)
    work.claim_step("right").complete("not an ancestor").expect(200)
    left = work.claim_step("left")
    assert left.data["steps"] == {"root": {"status": "succeeded", "output": "r"}}
    left.complete({"l": 1.0}).expect(200)
    steps = work.claim_step("end").data["steps"]
    assert steps == {
        "root": {"status": "succeeded", "output": "r"},
        "left": {"status": "succeeded", "output": {"l": 1.0}},
        "skipped": {"status": "skipped", "output": None},
    }


def test_outputs_beyond_one_mebibyte_are_omitted_farthest_first(flow: MakeFlow) -> None:
    names = [f"s{number}" for number in range(6)]
    work = flow(*(read(name, input=None) for name in names))
    work.start()
    large = "x" * (250 * 1024)
    for name in names[:5]:
        work.claim_step(name).complete(large).expect(200)
    last = work.claim_step("s5")
    steps = last.data["steps"]
    assert set(steps) == set(names[:5])
    assert steps["s0"] == {"status": "succeeded", "omitted": True}
    assert all(steps[name] == {"status": "succeeded", "output": large} for name in names[1:5])


def test_the_input_is_stored_once_and_every_attempt_gets_it(flow: MakeFlow) -> None:
    work = flow(
        read("a", needs=[]),
        read("b", needs=[], input={"s": cel("state"), "at": cel("string(execution.created_at)")}, retry=AT_ONCE),
    )
    work.start(state={"n": 1})
    first = work.claim_step("b")
    work.claim_step("a").complete(state={"n": 2}).expect(200)
    first.fail().expect(200)
    second = work.claim_step("b")
    assert second.data["input"] == first.data["input"]
    assert second.data["input"]["s"] == {"n": 1}
    assert second.data["state"] == {"n": 2}, "the state is as it is now"


def test_previous_is_the_last_attempt_s(flow: MakeFlow) -> None:
    work = flow(safe_write(retry=AT_ONCE))
    _, first = work.begin()
    first.heartbeat(progress={"done": 3}).expect(200)
    first.fail(message="no luck", details={"code": 7}, effect="none").expect(200)
    second = work.claim_one()
    assert second.attempt == 2
    assert second.data["previous"] == {
        "attempt": 1,
        "progress": {"done": 3},
        "error": {"class": "retryable", "message": "no luck", "details": {"code": 7}},
    }
    assert second.data["idempotency_key"] == first.data["idempotency_key"]
    assert second.fence > first.fence
    assert second.id != first.id


def test_previous_after_a_lapse_has_its_progress(flow: MakeFlow) -> None:
    work = flow(read(**brief(0.5, 0)))
    _, first = work.begin()
    first.heartbeat(progress=[1, 2]).expect(200)
    second = work.claim_one()
    previous = second.data["previous"]
    assert (previous["attempt"], previous["progress"]) == (1, [1, 2])
    assert previous["error"]["class"] == "lost"


def test_an_attempt_not_spent_comes_again_under_a_higher_fence(flow: MakeFlow) -> None:
    work = flow(read())
    _, first = work.begin()
    first.fail("interrupted").expect(200)
    second = work.claim_one()
    assert (first.attempt, second.attempt) == (1, 1)
    assert second.fence > first.fence


def test_the_time_left_of_an_attempt_is_told_again(flow: MakeFlow) -> None:
    work = flow(read(timeout_seconds=50))
    claim_id = "5b6bcb1c-0d2c-4b39-9b5e-" + unique()[-12:]
    work.start()
    first = work.claim_one(claim_id=claim_id)
    (again,) = work.claim(claim_id=claim_id)
    assert again.data["timeout_seconds"] <= first.data["timeout_seconds"] <= 50


def test_a_trace_is_continued(flow: MakeFlow) -> None:
    work = flow(read("a", needs=[]), read("b", needs=[]))
    trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    work.start(headers={"traceparent": f"00-{trace}-{span}-01"})
    found = [TRACEPARENT.fullmatch(lease.data["traceparent"]) for lease in work.claim(max=2)]
    assert [match and match[1] for match in found] == [trace, trace]
    spans = {match and match[2] for match in found}
    assert len(spans) == 2
    assert span not in spans


@pytest.mark.parametrize("header", [None, "nonsense", "00-" + "0" * 32 + "-00f067aa0ba902b7-01", "ff-x-y-z"])
def test_a_trace_is_begun_where_none_can_be_read(flow: MakeFlow, header: str | None) -> None:
    work = flow(read())
    work.start(headers={} if header is None else {"traceparent": header})
    match = TRACEPARENT.fullmatch(work.claim_one().data["traceparent"])
    assert match
    assert set(match[1]) != {"0"}


def test_the_times_of_an_answer_have_one_form(flow: MakeFlow) -> None:
    work = flow(read())
    run, lease = work.begin()
    view = run.view()
    for text in (
        lease.data["expires_at"],
        lease.data["execution"]["created_at"],
        view["created_at"],
        view["started_at"],
    ):
        instant(text)
    assert view["ended_at"] is None
