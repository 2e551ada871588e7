"""Bodies that are told to stop, async and plain: why, how they hear of it, what is said of them."""

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from stepd_worker import Context, StepFailed
from stepd_worker.client_calls import Json
from tests.sdk.peer import DROPPED, Peer, Reply, lease, problem, refused
from tests.sdk.running import HURRIED, jobs, running, wait_for

OK: Json = {"expires_at": "2026-11-30T12:00:30.000Z", "lease_seconds": 30, "cancel": None, "warnings": []}
WISH = Reply(200, OK | {"cancel": {"reason": "enough"}})
QUICK: Json = {"lease_seconds": 30, "heartbeat_seconds": 0.05}


class Witness:
    """What a body saw."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.reasons: list[str | None] = []
        self.callbacks: list[str] = []

    async def until_cancelled(self, ctx: Context, input: Any) -> str:
        """An async body that works until it is cancelled."""
        ctx.on_cancel(lambda: self.callbacks.append(threading.current_thread().name))
        self.begun.set()
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            self.reasons.append(ctx.cancelled.reason)
            raise
        return "slept"

    def until_told(self, ctx: Context, input: Any) -> str:
        """A plain body that works until it is told to stop."""
        ctx.on_cancel(lambda: self.callbacks.append(threading.current_thread().name))
        self.begun.set()
        assert ctx.cancelled.wait(20)
        self.reasons.append(ctx.cancelled.reason)
        ctx.raise_if_cancelled()
        return "waited"

    async def to_the_end(self, ctx: Context, input: Any) -> str:
        """An async body that swallows its cancellation and finishes."""
        self.begun.set()
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            self.reasons.append(ctx.cancelled.reason)
        return "finished"


BODIES: list[Callable[[Witness], Callable[..., Any]]] = [lambda w: w.until_cancelled, lambda w: w.until_told]
both_kinds = pytest.mark.parametrize("kind", BODIES, ids=["async", "plain"])


@pytest.fixture
def witness() -> Witness:
    return Witness()


@both_kinds
def test_a_wish_to_stop_ends_a_body_that_says_so(peer: Peer, witness: Witness, kind: Any) -> None:
    peer.always("heartbeat", WISH)
    peer.deal(lease(**QUICK))
    with running(peer, jobs(kind(witness))):
        (fail,) = peer.wait_for("fail")
    assert witness.reasons == ["cancel_requested"]
    assert len(witness.callbacks) == 1
    assert (fail.body["class"], fail.body["effect"]) == ("cancelled", None)


def test_a_body_that_finished_all_the_same_has_completed(peer: Peer, witness: Witness) -> None:
    peer.always("heartbeat", WISH)
    peer.deal(lease(**QUICK))
    with running(peer, jobs(witness.to_the_end)):
        (complete,) = peer.wait_for("complete")
    assert complete.body["output"] == "finished"
    assert peer.named("fail") == []


def test_a_class_of_its_own_is_how_it_really_ended(peer: Peer) -> None:
    def body(ctx: Context, input: Any) -> None:
        ctx.cancelled.wait(5)
        raise StepFailed("half_done", "three of six")

    peer.always("heartbeat", WISH)
    peer.deal(lease(**QUICK))
    with running(peer, jobs(body)):
        (fail,) = peer.wait_for("fail")
    assert fail.body["class"] == "half_done"


@both_kinds
@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (refused("execution_ended"), "execution_ended"),
        (refused("lease_lost"), "lease_lost"),
        (problem(404, "not_found"), "lease_lost"),
    ],
)
def test_a_reads_result_is_dropped_when_its_attempt_is_over(
    peer: Peer, witness: Witness, kind: Any, reply: Reply, reason: str
) -> None:
    peer.always("heartbeat", reply)
    peer.deal(lease(effect="read_only", **QUICK))
    with running(peer, jobs(kind(witness), effect="read_only"), concurrency=1):
        wait_for(lambda: witness.reasons, "the body to stop")
        peer.wait_for("claim", 2)
    assert witness.reasons == [reason]
    assert peer.named("fail") + peer.named("complete") == []


@both_kinds
@pytest.mark.parametrize("reason", ["execution_ended", "lease_lost"])
def test_a_writes_outcome_is_still_sent_once_as_evidence(peer: Peer, witness: Witness, kind: Any, reason: str) -> None:
    peer.always("heartbeat", refused(reason))
    peer.always("fail", refused(reason))
    peer.deal(lease(**QUICK))
    with running(peer, jobs(kind(witness)), concurrency=1):
        peer.wait_for("fail")
        peer.wait_for("claim", 2)
    (fail,) = peer.named("fail")
    assert witness.reasons == [reason]
    assert fail.body["class"] == "cancelled"
    assert "next" not in fail.body


def test_a_write_that_finished_is_sent_as_evidence_too(peer: Peer, witness: Witness) -> None:
    peer.always("heartbeat", refused("lease_lost"))
    peer.always("complete", refused("lease_lost"))
    peer.deal(lease(**QUICK))
    with running(peer, jobs(witness.to_the_end), concurrency=1):
        peer.wait_for("claim", 2)
    (complete,) = peer.named("complete")
    assert complete.body == {"fence": 3, "output": "finished"}


def test_an_attempt_that_its_holder_settled_has_nothing_more_to_say(peer: Peer, witness: Witness) -> None:
    peer.always("heartbeat", refused("already_settled"))
    peer.deal(lease(**QUICK))
    with running(peer, jobs(witness.until_cancelled), concurrency=1):
        wait_for(lambda: witness.reasons, "the body to stop")
        peer.wait_for("claim", 2)
    assert peer.named("fail") + peer.named("complete") == []


def test_an_expired_lease_lets_the_body_finish_in_what_is_left(peer: Peer) -> None:
    release = threading.Event()

    def body(ctx: Context, input: Any) -> bool:
        release.wait(5)
        return ctx.cancelled.is_set()

    peer.always("heartbeat", refused("lease_expired", reclaim_seconds=5))
    peer.deal(lease(**QUICK))
    with running(peer, jobs(body)):
        peer.wait_for("heartbeat")
        release.set()
        (complete,) = peer.wait_for("complete")
    assert complete.body["output"] is False
    assert len(peer.named("heartbeat")) == 1


@both_kinds
def test_without_answers_it_stops_by_its_own_clock(peer: Peer, witness: Witness, kind: Any) -> None:
    peer.always("heartbeat", DROPPED)
    peer.deal(lease(lease_seconds=0.6, heartbeat_seconds=0.2, reclaim_seconds=0.3, effect="read_only"))
    with running(peer, jobs(kind(witness), effect="read_only")):
        wait_for(lambda: witness.reasons, "the body to stop")
        stopped_at = time.monotonic()
    claimed_at = peer.named("claim")[0].at
    assert witness.reasons == ["lease_lost"]
    assert 0.85 <= stopped_at - claimed_at < 2


def test_a_blocked_loop_loses_no_lease_and_is_reported(peer: Peer, caplog: pytest.LogCaptureFixture) -> None:
    async def body(ctx: Context, input: Any) -> None:
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline:
            time.sleep(0.05)  # noqa: ASYNC251 — the loop is blocked on purpose

    peer.deal(lease(lease_seconds=0.5, heartbeat_seconds=0.1, reclaim_seconds=0.2))
    with running(peer, jobs(body), timing=replace(HURRIED, loop_still=0.3)):
        peer.wait_for("complete")
    (report,) = [record.getMessage() for record in caplog.records if "stands still" in record.getMessage()]
    assert f"it is in body, {__file__}" in report
    beats = [call.at for call in peer.named("heartbeat")]
    assert len(beats) >= 6
    assert max(later - earlier for earlier, later in pairwise(beats)) < 0.5


def test_a_body_that_ran_out_of_time_waits_for_the_daemons_word(peer: Peer, witness: Witness) -> None:
    peer.script("heartbeat", Reply(200, OK), refused("lease_lost"))
    peer.deal(lease(timeout_seconds=0.1, lease_seconds=30, heartbeat_seconds=0.2, effect="read_only"))
    with running(peer, jobs(witness.until_cancelled, effect="read_only"), concurrency=1):
        peer.wait_for("heartbeat", 2)
        peer.wait_for("claim", 2)
    assert witness.reasons == ["lease_lost"]
    assert peer.named("fail") + peer.named("complete") == []


def test_a_late_answer_touches_only_its_own_lease(peer: Peer) -> None:
    threads: list[int] = []
    told: list[bool] = []

    def body(ctx: Context, input: Any) -> None:
        threads.append(threading.get_ident())
        if ctx.execution.id == "e-l-1":
            peer.wait_for("heartbeat")
            return
        told.append(ctx.cancelled.wait(0.5))

    # The beat of the first lease is answered when its thread has the second one's body.
    peer.script("heartbeat", Reply(refused("lease_lost").status, refused("lease_lost").body, delay=0.2))
    peer.deal(lease(**QUICK), lease("l-2"))
    with running(peer, jobs(body), concurrency=1):
        peer.wait_for("complete", 2)
    assert threads[0] == threads[1]
    assert told == [False]


def test_a_stuck_thread_keeps_its_slot(peer: Peer) -> None:
    release = threading.Event()

    def body(ctx: Context, input: Any) -> None:
        if ctx.execution.id == "e-l-1":
            release.wait(10)

    peer.script("heartbeat", refused("lease_lost"))
    peer.deal(lease(**QUICK))
    with running(peer, jobs(body), concurrency=2):
        peer.wait_for("heartbeat")
        for n in range(2, 12):
            peer.deal(lease(f"l-{n}"))
        peer.wait_for("complete", 10)
        following = [call.body["next"] for call in peer.named("complete")]
        assert {claim["max"] for claim in following + [call.body for call in peer.named("claim")[1:]]} == {1}
        release.set()
        peer.wait_for("complete", 11)


def test_a_callback_that_comes_too_late_is_called_at_once(peer: Peer) -> None:
    called: list[int] = []

    def body(ctx: Context, input: Any) -> None:
        ctx.on_cancel(lambda: 1 / 0)
        ctx.cancelled.wait(5)
        wait_for(lambda: not ctx.has_callbacks, "the first callback")
        ctx.on_cancel(lambda: called.append(1))

    peer.always("heartbeat", WISH)
    peer.deal(lease(**QUICK))
    with running(peer, jobs(body)):
        peer.wait_for("complete")
    assert called == [1]
