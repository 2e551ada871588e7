"""The look at the store behind /metrics: shared by all who ask, and never more than a small part of the time."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from stepd.store.base import QueueLine, Scope, Store, StoreUnavailable
from stepd.telemetry import survey
from stepd.telemetry.survey import Surveyor


class SlowStore:
    """A store whose answers take as long as a test says; each look is counted."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.looks = 0
        self.away = False

    async def counts(self) -> dict[str, int]:
        self.looks += 1
        await asyncio.sleep(self.seconds)
        if self.away:
            raise StoreUnavailable("away")
        return {"queued": self.looks}

    async def queue(self, scope: Scope) -> list[QueueLine]:
        return []

    async def flight(self) -> dict[str, int]:
        return {}

    async def now(self) -> int:
        return 0


def make(store: SlowStore) -> Surveyor:
    return Surveyor(cast(Store, cast(Any, store)))


async def test_who_asks_at_the_same_time_shares_a_look() -> None:
    store = SlowStore(0.01)
    surveyor = make(store)
    seen = await asyncio.gather(*(surveyor.latest() for _ in range(20)))
    assert store.looks == 1
    assert all(one is not None and one.counts == {"queued": 1} for one in seen)


async def test_a_look_is_followed_by_a_pause_fifty_times_as_long() -> None:
    store = SlowStore(0.01)
    surveyor = make(store)
    loop = asyncio.get_running_loop()
    began = loop.time()
    while store.looks < 3:
        await surveyor.latest()
        await asyncio.sleep(0.001)
    assert loop.time() - began >= 2 * 0.01 * survey.SHARE


async def test_while_the_store_is_away_the_last_look_stands() -> None:
    store = SlowStore(0)
    surveyor = make(store)
    first = await surveyor.latest()
    store.away = True
    while store.looks < 3:
        assert await surveyor.latest() is first
        await asyncio.sleep(0)
    assert await make(store).latest() is None


async def test_who_asks_does_not_wait_for_ever(monkeypatch: Any) -> None:
    monkeypatch.setattr(survey, "PATIENCE_SECONDS", 0.02)
    store = SlowStore(0)
    surveyor = make(store)
    first = await surveyor.latest()
    store.seconds, seen = 0.2, None
    while store.looks < 2:
        seen = await surveyor.latest()
        await asyncio.sleep(0)
    assert seen is first
