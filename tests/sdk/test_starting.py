"""Leases that need a start: nothing happens outside before the daemon knows, and what is said when it never does."""

import asyncio
import threading
from typing import Any

import pytest

from stepd_worker import Context
from tests.sdk.peer import DROPPED, Peer, Reply, lease, problem, refused
from tests.sdk.running import jobs, running

OK = {"expires_at": "2026-11-30T12:00:30.000Z", "lease_seconds": 30, "cancel": None, "warnings": []}
AT_MOST_ONCE: dict[str, Any] = {
    "effect": "non_idempotent_write",
    "delivery": "at_most_once",
    "start_required": True,
}
EFFECT = "non_idempotent_write"


class Charges:
    """What happened outside."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    async def charge(self, ctx: Context, input: Any) -> str:
        self.ids.append(ctx.execution.id)
        return "charged"

    async def prepare_and_charge(self, ctx: Context, input: Any) -> str:
        await ctx.begin_effect()
        return await self.charge(ctx, input)

    def prepare_and_charge_plainly(self, ctx: Context, input: Any) -> str:
        ctx.begin_effect()
        self.ids.append(ctx.execution.id)
        return "charged"


@pytest.fixture
def charges() -> Charges:
    return Charges()


def _workflow(charges: Charges, kind: str) -> Any:
    if kind == "worker":
        return jobs(charges.charge, effect=EFFECT)
    body: Any = charges.prepare_and_charge if kind == "async body" else charges.prepare_and_charge_plainly
    return jobs(body, effect=EFFECT, begins_effect=True)


who_says_so = pytest.mark.parametrize("kind", ["worker", "async body", "plain body"])


@who_says_so
def test_the_effect_comes_after_the_answer(peer: Peer, charges: Charges, kind: str) -> None:
    seen: list[int] = []

    def slowly(call: Any) -> Reply | None:
        if call.name != "heartbeat":
            return None
        seen.append(len(charges.ids))
        return Reply(200, OK, delay=0.05)

    peer.scripts.append(slowly)
    peer.deal(lease(**AT_MOST_ONCE))
    with running(peer, _workflow(charges, kind)):
        (complete,) = peer.wait_for("complete")
    (beat,) = peer.named("heartbeat")
    assert beat.body == {"fence": 3, "started": True}
    assert seen == [0]
    assert complete.body["output"] == "charged"


@who_says_so
def test_a_start_without_answer_is_said_again(peer: Peer, charges: Charges, kind: str) -> None:
    peer.script("heartbeat", DROPPED, Reply(503, headers={"Retry-After": "0.01"}))
    peer.deal(lease(**AT_MOST_ONCE))
    with running(peer, _workflow(charges, kind)):
        peer.wait_for("complete")
    assert [call.body["started"] for call in peer.named("heartbeat")] == [True] * 3
    assert charges.ids == ["e-l-1"]


@who_says_so
def test_a_start_answered_with_a_wish_to_stop_begins_nothing(peer: Peer, charges: Charges, kind: str) -> None:
    peer.always("heartbeat", Reply(200, OK | {"cancel": {"reason": "enough"}}))
    peer.deal(lease(**AT_MOST_ONCE))
    with running(peer, _workflow(charges, kind)):
        (fail,) = peer.wait_for("fail")
    assert (fail.body["class"], fail.body["effect"]) == ("cancelled", "none")
    assert charges.ids == []


@who_says_so
@pytest.mark.parametrize("reply", [refused("lease_lost"), refused("execution_ended"), problem(404, "not_found")])
def test_a_lease_that_ended_before_its_start_costs_nothing(
    peer: Peer, charges: Charges, kind: str, reply: Reply
) -> None:
    peer.always("heartbeat", reply)
    peer.deal(lease(**AT_MOST_ONCE))
    with running(peer, _workflow(charges, kind), concurrency=1):
        peer.wait_for("claim", 2)
    assert peer.named("fail") + peer.named("complete") == []
    assert charges.ids == []


@who_says_so
@pytest.mark.parametrize("reply", [DROPPED, refused("lease_expired", reclaim_seconds=9)])
def test_a_start_that_cannot_be_told_is_given_back(peer: Peer, charges: Charges, kind: str, reply: Reply) -> None:
    peer.always("heartbeat", reply)
    peer.deal(lease(**AT_MOST_ONCE, lease_seconds=0.4, heartbeat_seconds=0.1))
    with running(peer, _workflow(charges, kind)):
        (fail,) = peer.wait_for("fail")
    assert (fail.body["class"], fail.body["effect"]) == ("interrupted", "none")
    assert charges.ids == []


def test_a_refused_key_keeps_a_start_waiting(peer: Peer, charges: Charges) -> None:
    peer.script("heartbeat", problem(403, "forbidden"))
    peer.deal(lease(**AT_MOST_ONCE))
    with running(peer, jobs(charges.charge, effect=EFFECT)) as run:
        (fail,) = peer.wait_for("fail")
        run.join()
    # By then it is known that this worker is to stop: what has not begun goes back.
    assert (fail.body["class"], fail.body["effect"]) == ("interrupted", "none")
    assert charges.ids == []


def test_what_fails_before_its_effect_began_had_none(peer: Peer) -> None:
    async def body(ctx: Context, input: Any) -> None:
        raise RuntimeError("no connection")

    peer.deal(lease(**AT_MOST_ONCE))
    with running(peer, jobs(body, effect=EFFECT, begins_effect=True)):
        (fail,) = peer.wait_for("fail")
    assert (fail.body["class"], fail.body["effect"]) == ("fatal", "none")


def test_what_needs_no_start_sends_none(peer: Peer, charges: Charges) -> None:
    peer.deal(lease(effect=EFFECT))
    with running(peer, _workflow(charges, "async body")):
        peer.wait_for("complete")
    assert peer.named("heartbeat") == []


def test_beats_go_on_after_the_start(peer: Peer) -> None:
    def body(ctx: Context, input: Any) -> None:
        peer.wait_for("heartbeat", 4)

    peer.deal(lease(**AT_MOST_ONCE, heartbeat_seconds=0.05))
    with running(peer, jobs(body, effect=EFFECT)):
        peer.wait_for("complete")
    assert [call.body["started"] for call in peer.named("heartbeat")[:4]] == [True] * 4


def test_one_heartbeat_is_in_flight_for_a_lease(peer: Peer) -> None:
    in_flight, most, lock = 0, 0, threading.Lock()

    def watch(call: Any) -> Reply | None:
        nonlocal in_flight, most
        if call.name != "heartbeat":
            return None
        with lock:
            in_flight += 1
            most = max(most, in_flight)
        threading.Event().wait(0.03)
        with lock:
            in_flight -= 1
        return Reply(200, OK)

    async def body(ctx: Context, input: Any) -> None:
        await asyncio.sleep(0.1)
        await ctx.begin_effect()
        await asyncio.sleep(0.1)

    peer.scripts.append(watch)
    peer.deal(lease(**AT_MOST_ONCE, heartbeat_seconds=0.02))
    with running(peer, jobs(body, effect=EFFECT, begins_effect=True)):
        peer.wait_for("complete")
    assert most == 1
    assert len(peer.named("heartbeat")) >= 4


@pytest.mark.parametrize("reclaim_seconds", [0, 30])
def test_a_lease_that_came_too_late_does_not_begin(peer: Peer, reclaim_seconds: float) -> None:
    ran = list[str]()

    async def body(ctx: Context, input: Any) -> None:
        ran.append(ctx.idempotency_key)

    late = lease(lease_seconds=0.2, heartbeat_seconds=0.05, reclaim_seconds=reclaim_seconds)
    peer.script("claim", Reply(200, {"leases": [late], "held_seconds": 0, "service": peer.service}, delay=0.4))
    with running(peer, jobs(body)):
        (fail,) = peer.wait_for("fail")
    assert (fail.body["class"], fail.body["effect"]) == ("interrupted", "none")
    assert ran == []
