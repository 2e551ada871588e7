"""Reads, and the transactions beside those that decide: the service's records, the pulse, what is removed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from random import uniform
from typing import Any, Final, TypeVar

from stepd.clock import Clock
from stepd.store.base import Tell
from stepd.store.bounds import GRACE_AFTER_MS
from stepd.store.postgres import upkeep
from stepd.store.postgres.connections import Pool, Session
from stepd.store.postgres.errors import UNIQUE_VIOLATION, Contended, code_of
from stepd.store.postgres.loading import NOW
from stepd.store.postgres.notices import Teller

R = TypeVar("R")

RERUNS: Final = 5
PAUSE_SECONDS: Final = 0.02
SNAPSHOT: Final = "begin isolation level repeatable read read only"


class Sessions:
    """Runs reads and transactions on connections of the pool, each to its end, whatever becomes of its caller."""

    def __init__(self, pool: Pool, teller: Teller, clock: Clock | None) -> None:
        self._pool = pool
        self._teller = teller
        self._clock = clock

    async def read(self, act: Callable[[Session], Coroutine[Any, Any, R]]) -> R:
        """Runs one statement, or several that need not agree. Raises StoreUnavailable."""
        return await self._pool.run(act)

    async def look(self, act: Callable[[Session], Coroutine[Any, Any, R]]) -> R:
        """Runs several reads in one consistent look. Raises StoreUnavailable."""

        async def on_snapshot(session: Session) -> R:
            await session.execute(SNAPSHOT)
            answer = await act(session)
            await session.execute("commit")
            return answer

        return await self._pool.run(on_snapshot)

    async def write(
        self, act: Callable[[Session, int], Awaitable[R]], *, keys: bool = False, prices: bool = False
    ) -> R:
        """Runs ``act`` with the store's time inside a transaction, and tells of it. Raises StoreUnavailable."""

        async def transaction(session: Session) -> tuple[R, Tell]:
            answer = await act(session, await self.now(session))
            return answer, Tell(ready=False, executions={}, timer=None, keys=keys and answer is True, prices=prices)

        return await self.transact(transaction)

    async def pulse(self, session: Session) -> tuple[bool, Tell]:
        """Moves the pulse; where it had stood still, gives grace to all leases and answers True."""
        stood_at = await session.fetchval(upkeep.PULSE)
        now = await self.now(session)
        nothing = Tell(ready=False, executions={}, timer=None)
        if stood_at is None:
            await session.execute(upkeep.BEAT, now)
            return False, nothing
        await session.execute(upkeep.MOVE_PULSE, now)
        if now - stood_at <= GRACE_AFTER_MS:
            return False, nothing
        await session.fetch(upkeep.LOCK_LEASED)
        await upkeep.give_grace(session, await self.now(session))
        return True, nothing

    async def transact(self, act: Callable[[Session], Awaitable[tuple[R, Tell]]]) -> R:
        """Runs ``act`` inside a transaction, again where others were in its way, and tells what it says.

        Raises StoreUnavailable.
        """
        return await self._pool.keep(self._transact(act))

    async def now(self, session: Session) -> int:
        """The store's clock, ms."""
        now: int = await session.fetchval(NOW) if self._clock is None else self._clock.now()
        return now

    async def close(self) -> None:
        """Takes nothing more, and waits for what runs."""
        await self._pool.close()

    async def _transact(self, act: Callable[[Session], Awaitable[tuple[R, Tell]]]) -> R:
        for _ in range(RERUNS):
            try:
                return await self._once(act)
            except Contended:
                await asyncio.sleep(uniform(0, PAUSE_SECONDS))
            except Exception as error:
                # Another daemon has just written the row that says the same: the next look will find it.
                if code_of(error) != UNIQUE_VIOLATION:
                    raise
        return await self._once(act)

    async def _once(self, act: Callable[[Session], Awaitable[tuple[R, Tell]]]) -> R:
        async with self._pool.session() as session:
            await session.execute("begin")
            answer, tell = await act(session)
            await self._teller.notify(session, tell)
            await session.execute("commit")
        self._teller.tell(tell)
        return answer
