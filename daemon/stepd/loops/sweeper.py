"""Owns the sweep: gives what is due (lapses, take-backs, time-outs, retries, starts) to the executions it concerns."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from random import randint
from typing import Final

from stepd.engine.commands import AttemptDue, Command, ExecutionDue, StepDue
from stepd.store.base import Decide, Due, Store, StoreUnavailable

BATCH: Final = 256
AT_ONCE: Final = 32
"""Of a batch so many are given to the store together: what others want meanwhile stands behind no more than these."""
LOOK_SECONDS: Final = 0.5
"""It looks at least this often, whatever was told of times to come."""
SOON_SECONDS: Final = 0.001
JITTER: Final = (800, 1200)
"""Thousandths."""

_log = logging.getLogger(__name__)


class Sweeper:
    """Looks for what is due at the time it falls due. `catch_up` is awaited before each look."""

    name = "sweeper"

    def __init__(self, store: Store, catch_up: Callable[[], Awaitable[None]]) -> None:
        self._store = store
        self._catch_up = catch_up
        self._ahead_ms = 0.0
        """By how much the store's clock is ahead of this machine's."""
        self._looks_at_ms = 0.0
        """When it will look next, by the store's clock."""
        self._last: frozenset[Due] = frozenset()
        self.wake = asyncio.Event()

    def expect(self, at_ms: int) -> None:
        """Something will be due then, by the store's clock."""
        if at_ms < self._looks_at_ms:
            self.wake.set()

    async def run_once(self) -> float:
        """Deals with what is due now, as far as one batch goes. Raises StoreUnavailable."""
        await self._catch_up()
        due = await self._store.due(BATCH)
        await self._deal_with(due)
        again = frozenset(due)
        stuck = bool(again) and again <= self._last
        self._last = again
        pause = LOOK_SECONDS if stuck else await self._until_next()
        self._looks_at_ms = self._now_ms() + pause * 1000
        return pause

    async def _until_next(self) -> float:
        self._ahead_ms = await self._store.now() - time.time() * 1000
        following = await self._store.next_due()
        if following is None:
            return LOOK_SECONDS
        return min(LOOK_SECONDS, max(SOON_SECONDS, (following - self._now_ms()) / 1000 + SOON_SECONDS))

    def _now_ms(self) -> float:
        return time.time() * 1000 + self._ahead_ms

    async def _deal_with(self, due: list[Due]) -> None:
        """Gives each its command; some share a commit. One that fails is logged and stands until the next look."""
        results: list[BaseException | None] = []
        for begin in range(0, len(due), AT_ONCE):
            some = due[begin : begin + AT_ONCE]
            results += await asyncio.gather(*(self._submit(one) for one in some), return_exceptions=True)
        away: StoreUnavailable | None = None
        for one, result in zip(due, results, strict=True):
            if isinstance(result, StoreUnavailable):
                away = result
            elif isinstance(result, BaseException):
                about = {"execution": one.execution_id}
                _log.error("what is due for an execution failed", exc_info=result, extra={"about": about})
        if away is not None:
            raise away

    async def _submit(self, due: Due) -> None:
        await self._store.submit(Decide(_command(due), execution_id=due.execution_id))


def _command(due: Due) -> Command:
    if due.attempt_id is not None:
        return AttemptDue(due.attempt_id, jitter())
    if due.ordinal is not None and due.index is not None:
        return StepDue(due.ordinal, due.index)
    return ExecutionDue()


def jitter() -> int:
    """The random part of a retry's pause, in thousandths."""
    return randint(*JITTER)
