"""Heartbeats: they move the end of a lease, begin a body, carry progress, and tell a body to stop."""

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Json
from tests.support.definitions import AT_ONCE, brief, read, safe_write, write
from tests.support.times import instant, seconds
from tests.support.wait import beside, moment


def test_a_heartbeat_answers_with_the_new_end(flow: MakeFlow) -> None:
    work = flow(read(lease_seconds=5))
    _, lease = work.begin()
    answer = lease.heartbeat().expect(200)
    assert answer["lease_seconds"] == 5
    assert answer["cancel"] is None
    assert answer["warnings"] == []
    assert instant(answer["expires_at"]) >= instant(lease.data["expires_at"])


def test_heartbeats_keep_a_lease_alive(flow: MakeFlow) -> None:
    work = flow(read(**brief(0.6, 0)))
    run, lease = work.begin()
    ends = [lease.data["expires_at"]]
    for _ in range(5):
        moment(0.2)
        ends.append(lease.heartbeat().expect(200)["expires_at"])
    assert seconds(ends[0], ends[-1]) > 0.8
    lease.complete().expect(200)
    assert run.types().count("attempt.leased") == 1
    assert "attempt.orphaned" not in run.types()


def test_a_heartbeat_moves_the_end_to_now_plus_the_lease_and_no_further(flow: MakeFlow) -> None:
    work = flow(read(lease_seconds=5))
    _, lease = work.begin()
    ends = [lease.heartbeat().expect(200)["expires_at"] for _ in range(5)]
    assert seconds(ends[0], ends[-1]) < 3


def test_the_fence_must_be_the_lease_s(flow: MakeFlow) -> None:
    work = flow(read())
    _, lease = work.begin()
    for fence in (lease.fence + 1, lease.fence - 1, 0):
        lease.heartbeat(fence=fence).expect_refusal("lease_lost")
    for fence in (-1, 2**63, 10**30):
        assert lease.heartbeat(fence=fence).status in (409, 422)
    lease.heartbeat().expect(200)


@pytest.mark.parametrize("fields", [{"fence": "3"}, {"fence": None}, {"fence": 1.5}, {"started": "yes"}])
def test_a_heartbeat_of_a_wrong_form_is_refused_and_changes_nothing(flow: MakeFlow, fields: dict[str, Json]) -> None:
    work = flow(read())
    _, lease = work.begin()
    lease.heartbeat(**fields).expect_problem(422, "invalid_request")
    lease.complete().expect(200)


def test_a_fence_is_required(flow: MakeFlow) -> None:
    work = flow(read())
    _, lease = work.begin()
    for call in ("heartbeat", "complete", "fail"):
        answer = lease.http.post(f"/v1/leases/{lease.id}/{call}", {})
        assert "fence" in str(answer.expect_problem(422, "invalid_request"))


@pytest.mark.parametrize("id", ["00000000-0000-7000-8000-000000000000", "nonsense", "x" * 500])
def test_a_lease_that_never_was_is_not_found(flow: MakeFlow, id: str) -> None:
    work = flow(read())
    _, lease = work.begin()
    for call, fields in (("heartbeat", {}), ("complete", {"output": 1}), ("fail", {"class": "fatal"})):
        answer = lease.http.post(f"/v1/leases/{id}/{call}", {"fence": 1, **fields})
        answer.expect_problem(404, "not_found")


def test_started_begins_the_attempt_once(flow: MakeFlow) -> None:
    work = flow(write())
    run, lease = work.begin()
    assert run.step()["status"] == "leased"
    lease.heartbeat().expect(200)
    assert run.step()["status"] == "leased", "a heartbeat that doesn't say so starts nothing"
    lease.begin()
    lease.begin()
    assert run.step()["status"] == "running"
    started = run.event("attempt.started")
    assert (started["step"], started["attempt"], started["worker"]) == ("work", 1, "tester")


def test_started_is_accepted_where_it_is_not_required(flow: MakeFlow) -> None:
    work = flow(read())
    run, lease = work.begin()
    lease.begin()
    lease.complete().expect(200)
    assert run.view()["status"] == "completed"


def test_the_last_progress_replaces_the_others(flow: MakeFlow) -> None:
    work = flow(read(retry=AT_ONCE))
    _, lease = work.begin()
    lease.heartbeat(progress={"a": 1}).expect(200)
    lease.heartbeat(progress={"b": 10**40}).expect(200)
    lease.heartbeat().expect(200)
    lease.fail().expect(200)
    assert work.claim_one().data["previous"]["progress"] == {"b": 10**40}


def test_a_write_is_asked_to_stop_with_the_reason(flow: MakeFlow) -> None:
    work = flow(safe_write())
    run, lease = work.begin()
    assert lease.heartbeat().expect(200)["cancel"] is None
    run.cancel(reason="changed our mind").expect(202)
    answer = lease.heartbeat().expect(200)
    assert answer["cancel"] == {"reason": "changed our mind"}
    assert instant(answer["expires_at"]) >= instant(lease.data["expires_at"]), "and the lease goes on"
    assert lease.heartbeat().expect(200)["cancel"] == {"reason": "changed our mind"}


def test_a_heartbeat_of_its_own_settlement_is_told_so(flow: MakeFlow) -> None:
    work = flow(read(), read("next"))
    _, lease = work.begin()
    lease.complete().expect(200)
    problem = lease.heartbeat().expect_refusal("already_settled")
    instant(problem["settled"]["at"])
    assert problem["settled"]["outcome"]


def test_many_heartbeats_at_once_are_all_answered(flow: MakeFlow) -> None:
    work = flow(read())
    _, lease = work.begin()
    answers = [future.result(10) for future in [beside(lease.heartbeat) for _ in range(20)]]
    assert {answer.status for answer in answers} == {200}
    lease.complete().expect(200)
