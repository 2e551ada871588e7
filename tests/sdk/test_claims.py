"""How a worker asks for work: again, elsewhere, and what ends it."""

import threading
from dataclasses import replace
from typing import Any

import pytest

from stepd_worker import Context, WorkerRefused
from tests.sdk.peer import DROPPED, Peer, Reply, lease, problem
from tests.sdk.running import HURRIED, jobs, plus_one, running


def test_a_claim_without_answer_is_sent_again_with_the_same_id(peer: Peer) -> None:
    peer.script("claim", DROPPED, Reply(503, headers={"Retry-After": "0.01"}))
    peer.deal(lease())
    with running(peer, jobs(plus_one)):
        peer.wait_for("complete")
    first, second, third = peer.named("claim")[:3]
    assert first.raw == second.raw == third.raw


def test_a_lease_that_is_dealt_again_is_the_same_lease(peer: Peer) -> None:
    release, begun = threading.Event(), []

    def body(ctx: Context, input: Any) -> None:
        begun.append(ctx.execution.id)
        release.wait(5)

    again = {"leases": [lease()], "held_seconds": 0, "service": "service-1"}
    peer.script("claim", Reply(200, again), Reply(200, again))
    with running(peer, jobs(body), concurrency=2):
        peer.wait_for("claim", 3)
        release.set()
        peer.wait_for("complete")
        assert begun == ["e-l-1"]
        assert peer.named("fail") == []


def test_another_service_is_registered_with_before_the_next_claim(peer: Peer) -> None:
    with running(peer, jobs(plus_one), concurrency=1):
        peer.wait_for("claim")
        peer.service = "service-2"
        peer.deal(lease())
        peer.wait_for("complete")
        peer.wait_for("claim", 2)
        names = [call.name for call in peer.calls]
    assert names == ["jobs", "claim", "complete", "jobs", "claim"]


def test_it_waits_for_a_daemon_that_is_not_there_yet(peer: Peer) -> None:
    peer.script("jobs", DROPPED, Reply(503, headers={"Retry-After": "0.01"}))
    peer.deal(lease())
    with running(peer, jobs(plus_one)):
        peer.wait_for("complete")
    assert len(peer.named("jobs")) == 3


def test_a_refused_definition_ends_the_worker_and_says_why(peer: Peer) -> None:
    fault = {"path": "/steps/0", "message": "has no effect"}
    peer.always("jobs", problem(422, "invalid_definition", errors=[fault]))
    with running(peer, jobs(plus_one)) as run:
        run.join()
    assert isinstance(run.error, WorkerRefused)
    assert "'jobs' was not registered" in str(run.error)
    assert "/steps/0: has no effect" in str(run.error)


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_ends_the_worker_after_its_bodies(peer: Peer, status: int) -> None:
    release = threading.Event()

    def body(ctx: Context, input: Any) -> str:
        release.wait(5)
        return "done"

    code = "unauthenticated" if status == 401 else "forbidden"
    peer.deal(lease(lease_seconds=3, heartbeat_seconds=0.1))
    with running(peer, jobs(body), concurrency=2) as run:
        peer.wait_for("heartbeat")
        peer.script("claim", *[problem(status, code)] * 50)
        peer.script("complete", problem(status, code), problem(status, code))
        peer.script("heartbeat", problem(status, code), problem(status, code))
        beaten = len(peer.named("heartbeat"))
        peer.wait_for("heartbeat", beaten + 4)
        claims = len(peer.named("claim"))
        release.set()
        completes = peer.wait_for("complete", 3)
        run.join()
    assert isinstance(run.error, WorkerRefused)
    assert "key" in str(run.error)
    assert "next" not in completes[0].body
    # The one that was parked was sent once more, to withdraw it; no other was made.
    assert len({call.body["claim_id"] for call in peer.named("claim")[claims - 1 :]}) == 1


def test_an_outcome_is_given_up_at_last_while_the_key_is_refused(peer: Peer) -> None:
    for name in ("complete", "heartbeat"):
        peer.always(name, problem(401, "unauthenticated"))
    peer.deal(lease(lease_seconds=0.2, reclaim_seconds=0.1, heartbeat_seconds=0.05))
    with running(peer, jobs(plus_one), timing=replace(HURRIED, give_up_after_lost=0.3)) as run:
        run.join()
    assert isinstance(run.error, WorkerRefused)
    first, *_, last = peer.named("complete")
    assert last.at - first.at >= 0.4
