"""Owns the look at the store for what nobody counts along: it takes little of the time, however much is there."""

import asyncio
from typing import Final

from msgspec import Struct

from stepd.store.base import QueueLine, Scope, Store, StoreUnavailable

EVERYTHING: Final = Scope()
SHARE: Final = 50
"""A look that took a second is followed by the next one after so many: no more than a fiftieth of the time is spent."""
PATIENCE_SECONDS: Final = 5.0
"""Whoever waits longer for a look gets what the last one saw."""


class Survey(Struct, frozen=True):
    """What one look saw."""

    counts: dict[str, int]
    """Executions by status."""
    queue: list[QueueLine]
    flight: dict[str, int]
    """Attempts in flight by status."""
    now: int
    """The store's time (ms)."""
    taken_at: float
    """By the event loop's clock, as ``seconds`` which it took."""
    seconds: float


class Surveyor:
    """Looks when it is asked to and the last look was long enough ago. All who ask meanwhile share one look."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._look: asyncio.Task[None] | None = None
        self._next_at = float("-inf")
        self._seen: Survey | None = None

    async def latest(self) -> Survey | None:
        """What was seen last; None while nothing was, as when the store has been away since the start."""
        if self._look is None and asyncio.get_running_loop().time() >= self._next_at:
            self._look = asyncio.create_task(self._run())
        if self._look is not None:
            await asyncio.wait({self._look}, timeout=PATIENCE_SECONDS)
        return self._seen

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            counts, queue, flight, now = await asyncio.gather(
                self._store.counts(), self._store.queue(EVERYTHING), self._store.flight(), self._store.now()
            )
            self._seen = Survey(counts, queue, flight, now, began, loop.time() - began)
        except StoreUnavailable:
            pass
        finally:
            self._look = None
            self._next_at = loop.time() + (loop.time() - began) * SHARE
