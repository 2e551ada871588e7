"""Waiting claims: who is looked at, who is answered with what, and what becomes of leases that nobody takes."""

import asyncio
from typing import Any

import pytest

from stepd.service.base import Caller
from stepd.service.dispatcher import ALIKE_MAX, Dispatcher
from stepd.store.base import Dealt, Request, Serve, StoreUnavailable
from tests.service.store_fake import FakeStore, granted
from tests.service.waiting import until

CALLER = Caller("me", "key-1", frozenset({"worker"}), None)
Held = tuple[Dealt, float]


def request(claim_id: str, workflow: str = "w", principal: str = "me") -> Request:
    return Request(principal, "worker", "life", claim_id, 1, (Serve(workflow),), None)


class Queue:
    """Claims as tasks, on a dispatcher over a store that the test controls."""

    def __init__(self) -> None:
        self.store = FakeStore()
        self.dispatcher = Dispatcher(self.store.as_store())

    def claim(
        self, claim_id: str, seconds: float = 30, gone: asyncio.Event | None = None, **fields: Any
    ) -> asyncio.Task[Held]:
        waiting = self.dispatcher.wait(CALLER, request(claim_id, **fields), seconds, gone or asyncio.Event())
        return asyncio.get_running_loop().create_task(waiting)

    async def parked(self, count: int) -> None:
        """Waits until so many claims have been looked at once and wait."""
        await until(lambda: len(self.dispatcher) == count and self.store.looks and all(map(self._parked, self._all())))

    def deals(self, **leases: str) -> None:
        """The next look deals these leases, by claim id, once."""

        def deal(wanted: Request) -> Dealt:
            lease = leases.pop(wanted.claim_id, None)
            return Dealt(granted(lease) if lease else [])

        self.store.deal = deal

    def _all(self) -> list[Any]:
        return list(self.dispatcher._waiting.values())

    def _parked(self, waiter: Any) -> bool:
        return waiter.watcher is not None and not waiter.dealing


@pytest.fixture
async def queue() -> Queue:
    return Queue()


def leases_of(held: Held) -> list[str]:
    return [lease.attempt.id for lease in held[0].leases]


async def test_a_claim_that_waits_for_nothing_is_answered_with_what_is_there(queue: Queue) -> None:
    queue.deals(a="one")
    assert leases_of(await queue.claim("a", 0)) == ["one"]
    assert leases_of(await queue.claim("b", 0)) == []
    assert len(queue.dispatcher) == 0


async def test_a_wake_brings_work_to_whoever_waits(queue: Queue) -> None:
    task = queue.claim("a")
    await queue.parked(1)
    queue.deals(a="one")
    queue.dispatcher.wake()
    assert leases_of(await asyncio.wait_for(task, 1)) == ["one"]


async def test_work_comes_without_a_wake_too(queue: Queue) -> None:
    task = queue.claim("a")
    await queue.parked(1)
    queue.deals(a="one")
    assert leases_of(await asyncio.wait_for(task, 3)) == ["one"]


async def test_a_claim_is_answered_empty_when_its_time_is_over(queue: Queue) -> None:
    dealt, held = await queue.claim("a", 0.05)
    assert dealt.leases == []
    assert 0.04 < held < 2
    assert len(queue.dispatcher) == 0


async def test_the_time_held_ends_where_the_look_began(queue: Queue) -> None:
    queue.deals(a="one")
    queue.store.gate.clear()
    task = queue.claim("a")
    await until(lambda: queue.store.looks)
    asyncio.get_running_loop().call_later(0.05, queue.store.gate.set)
    _, held = await task
    assert held < 0.04


async def test_a_claim_known_from_before_is_answered_at_once(queue: Queue) -> None:
    queue.store.deal = lambda wanted: Dealt([], known=True)
    dealt, _ = await asyncio.wait_for(queue.claim("a"), 1)
    assert dealt.known


async def test_claims_are_looked_at_in_the_order_they_came(queue: Queue) -> None:
    tasks = [queue.claim(claim_id, workflow=f"w{claim_id}") for claim_id in ("c", "a", "b")]
    await queue.parked(3)
    queue.dispatcher.wake()
    await until(lambda: len(queue.store.looks) > 1)
    assert [wanted.claim_id for wanted in queue.store.looks[-1]] == ["c", "a", "b"]
    queue.dispatcher.stop()
    await asyncio.gather(*tasks)


async def test_many_wakes_while_a_look_is_under_way_are_one_more_look(queue: Queue) -> None:
    task = queue.claim("a")
    await queue.parked(1)
    queue.store.gate.clear()
    before = len(queue.store.looks)
    queue.dispatcher.wake()
    await until(lambda: len(queue.store.looks) == before + 1)
    for _ in range(10):
        queue.dispatcher.wake()
    queue.store.gate.set()
    await until(lambda: len(queue.store.looks) == before + 2)
    await queue.parked(1)
    assert len(queue.store.looks) == before + 2
    queue.dispatcher.stop()
    await task


async def test_of_claims_alike_a_bounded_number_is_looked_at_and_all_get_work(queue: Queue) -> None:
    count = ALIKE_MAX * 3
    tasks = [queue.claim(f"c{number}") for number in range(count)]
    await queue.parked(count)
    queue.store.looks.clear()
    queue.store.deal = lambda wanted: Dealt(granted(wanted.claim_id))
    queue.dispatcher.wake()
    answers = await asyncio.wait_for(asyncio.gather(*tasks), 5)
    assert [leases_of(held) for held in answers] == [[f"c{number}"] for number in range(count)]
    assert max(map(len, queue.store.looks)) <= ALIKE_MAX


async def test_a_newer_call_takes_the_place_of_the_older(queue: Queue) -> None:
    older = queue.claim("a")
    await queue.parked(1)
    newer = queue.claim("a")
    assert leases_of(await asyncio.wait_for(older, 1)) == []
    await queue.parked(1)
    queue.deals(a="one")
    queue.dispatcher.wake()
    assert leases_of(await newer) == ["one"]


async def test_what_the_older_was_dealt_meanwhile_is_left_for_the_newer(queue: Queue) -> None:
    queue.deals(a="one")
    queue.store.gate.clear()
    older = queue.claim("a")
    await until(lambda: queue.store.looks)
    newer = queue.claim("a")
    assert leases_of(await asyncio.wait_for(older, 1)) == []
    queue.store.gate.set()
    await until(lambda: len(queue.store.looks) > 1)
    assert queue.store.given_back == []
    queue.dispatcher.stop()
    await newer


async def test_a_claim_whose_client_is_gone_waits_no_longer(queue: Queue) -> None:
    gone = asyncio.Event()
    task = queue.claim("a", gone=gone)
    await queue.parked(1)
    gone.set()
    await asyncio.wait_for(task, 1)
    assert len(queue.dispatcher) == 0


async def test_leases_dealt_to_a_client_that_is_gone_go_back(queue: Queue) -> None:
    gone = asyncio.Event()
    queue.deals(a="one")
    queue.store.gate.clear()
    task = queue.claim("a", gone=gone)
    await until(lambda: queue.store.looks)
    gone.set()
    queue.store.gate.set()
    assert leases_of(await task) == []
    await until(lambda: queue.store.given_back == ["one"])


async def test_leases_of_a_call_that_was_cancelled_go_back(queue: Queue) -> None:
    queue.deals(a="one")
    queue.store.gate.clear()
    task = queue.claim("a")
    await until(lambda: queue.store.looks)
    task.cancel()
    queue.store.gate.set()
    await until(lambda: queue.store.given_back == ["one"])
    assert task.cancelled()


async def test_a_revoked_key_s_claim_takes_nothing_also_not_what_is_being_dealt(queue: Queue) -> None:
    queue.deals(a="one")
    queue.store.gate.clear()
    task = queue.claim("a")
    await until(lambda: queue.store.looks)
    queue.dispatcher.drop(lambda caller: caller.key_id == "key-1")
    assert leases_of(await asyncio.wait_for(task, 1)) == []
    queue.store.gate.set()
    await until(lambda: queue.store.given_back == ["one"])


async def test_who_may_take_no_work_any_more_gets_none() -> None:
    """A key may end between the door and here."""
    store = FakeStore(lambda wanted: Dealt(granted("one")))
    dispatcher = Dispatcher(store.as_store(), lambda caller: caller.key_id != "key-1")
    held = await asyncio.wait_for(dispatcher.wait(CALLER, request("a"), 30, asyncio.Event()), 1)
    assert (leases_of(held), store.looks) == ([], [])
    other = Caller("me", "key-2", frozenset({"worker"}), None)
    assert leases_of(await dispatcher.wait(other, request("a"), 30, asyncio.Event())) == ["one"]


async def test_a_stop_answers_everybody_and_keeps_what_is_being_dealt(queue: Queue) -> None:
    parked = queue.claim("a", workflow="other")
    await queue.parked(1)
    queue.deals(b="one")
    queue.store.gate.clear()
    dealing = queue.claim("b")
    await until(lambda: any(wanted.claim_id == "b" for look in queue.store.looks for wanted in look))
    queue.dispatcher.stop()
    queue.store.gate.set()
    assert leases_of(await dealing) == ["one"]
    assert leases_of(await parked) == []
    assert leases_of(await queue.claim("c")) == []


async def test_claims_hear_that_the_store_is_away_and_later_ones_are_served(queue: Queue) -> None:
    queue.store.fails = StoreUnavailable("away")
    with pytest.raises(StoreUnavailable):
        await queue.claim("a")
    queue.store.fails = None
    queue.deals(b="one")
    assert leases_of(await queue.claim("b")) == ["one"]


async def test_nobody_waits_nothing_is_asked(queue: Queue) -> None:
    await queue.claim("a", 0)
    asked = len(queue.store.looks)
    queue.dispatcher.wake()
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(queue.store.looks) == asked
