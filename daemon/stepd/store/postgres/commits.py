"""The one writer: runs what waits to be decided in batches, each batch in one transaction with one commit.

A batch is locked and read at once, decided row by row in memory, and written with a fixed number of statements. Where
it fails, it is run again: the whole of it where others were in its way, else each unit in a transaction of its own, so
that one that fails does not fail its neighbours. Callers may go away at any time; the batch goes on without them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from random import uniform
from time import perf_counter
from typing import Any, Final

from stepd.clock import Clock
from stepd.store.base import Batch, Operation, StoreUnavailable, Tell
from stepd.store.operations import Operations
from stepd.store.postgres.connections import connect
from stepd.store.postgres.errors import (
    DRIVER_ERRORS,
    UNIQUE_VIOLATION,
    Broken,
    Contended,
    Locked,
    Silent,
    code_of,
    unavailable,
)
from stepd.store.postgres.notices import Teller
from stepd.store.postgres.operating import Operating
from stepd.store.postgres.prefetch import prefetch
from stepd.store.units import Unit, failed, set_apart, settle, take
from stepd.store.versions import Definitions

log = logging.getLogger(__name__)

RERUNS: Final = 5
"""So often a unit is run again because others were in its way; then its caller is told that the store is contended."""
UNIQUE_RERUNS: Final = 2
PAUSE_SECONDS: Final = 0.01
ONCE_PLANNED: Final = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}
"""Every statement here goes by keys, whatever their values: planning a long one anew costs as much as running it.

A plan is kept until PostgreSQL next analyzes the table. One made while the table was empty would read it through, and
go on doing so while it grows: so only ways by an index are left to choose from.
"""
BREATH_SECONDS: Final = 0.005
"""After so long a time of computing others get their turn."""


class _Unit(Unit):
    """The operations to be run, and how often they were run again."""

    __slots__ = ("operations", "runs")

    def __init__(self, operations: Sequence[Operation], future: asyncio.Future[Any]) -> None:
        super().__init__(future)
        self.operations = operations
        self.runs = 0


class Commits:
    """The queue of units and the connection on which they are run."""

    def __init__(
        self, url: str, operations: Operations, definitions: Definitions, clock: Clock | None, teller: Teller
    ) -> None:
        self._url = url
        self._operations = operations
        self._definitions = definitions
        self._clock = clock
        self._teller = teller
        self._connection: Any = None
        self._waiting: deque[_Unit] = deque()
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._committing = False

    async def run(self, operations: Sequence[Operation]) -> list[Any]:
        """Runs the operations inside a transaction and answers after its commit. They may run more than once; then only
        the last run counts. Raises StoreUnavailable, or what went wrong in them (nothing was done).
        """
        if self._stopping:
            raise StoreUnavailable("The daemon is stopping.")
        loop = asyncio.get_running_loop()
        unit = _Unit(operations, loop.create_future())
        self._waiting.append(unit)
        if self._task is None:
            self._task = loop.create_task(self._work())
        answer: list[Any] = await unit.future
        return answer

    async def close(self) -> None:
        """Takes nothing more, waits for what waits, and closes the connection."""
        self._stopping = True
        if self._task is not None:
            await asyncio.wait([self._task])
        self._disconnect()

    async def _work(self) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(0)  # whatever becomes ready in the same pass of the loop shares the transaction
                batch = take(self._waiting)
                try:
                    await self._transact(batch)
                except Exception as error:  # noqa: BLE001 — whatever went wrong is told to who waits, and work goes on
                    await self._recover(batch, error)
        finally:
            self._task = None

    async def _transact(self, batch: list[_Unit]) -> None:
        """Runs the batch, commits it, and tells its callers and those who wait for news. Raises what went wrong."""
        self._committing = False
        connection = await self._connected()
        began = perf_counter()
        transaction = Operating(connection, self._definitions, self._clock)
        await connection.execute("begin")
        await prefetch(transaction, [operation for unit in batch for operation in unit.operations])
        spoiled = await self._perform(transaction, batch)
        if spoiled is not None:
            await connection.execute("rollback")
            set_apart(self._waiting, batch, spoiled)
            spoiled.settle()
            return
        tell = Tell(ready=False, executions={}, timer=None)
        transaction.news.add_to(tell)
        await transaction.flush(self._teller.notice(tell))
        self._committing = True
        decided = perf_counter()
        await connection.execute("commit")
        ended = perf_counter()
        tell.batch = Batch(len(batch), ended - began, ended - decided)
        settle(batch)
        self._teller.tell(tell)

    async def _perform(self, transaction: Operating, batch: Sequence[_Unit]) -> _Unit | None:
        """Runs the units; answers one that failed after it had changed something, if there is such a one."""
        began = perf_counter()
        for unit in batch:
            unit.error = None
            changed = transaction.changed
            try:
                unit.answer = await self._operations.run(transaction, unit.operations)
            except DRIVER_ERRORS:
                raise
            except Exception as error:  # noqa: BLE001 — its caller is told, its neighbours are not concerned
                unit.error = error
                if transaction.changed != changed:
                    return unit
            if perf_counter() - began > BREATH_SECONDS:
                await asyncio.sleep(0)
                began = perf_counter()
        return None

    # -- what went wrong ----------------------------------------------------------------------------------------

    async def _recover(self, batch: list[_Unit], error: Exception) -> None:
        """Undoes the transaction, runs the units again that may come to something yet, and tells the others."""
        told = unavailable(error)
        await self._roll_back(told)
        if self._committing and isinstance(told, Broken):
            # It may have been committed: those who wait look for themselves.
            log.warning("A commit was not answered: %s", told)
            self._teller.tell_everything()
            settle(failed(batch, told))
            return
        again = [unit for unit in batch if _is_worth_another_run(unit, error, told, alone=len(batch) == 1)]
        settle(failed([unit for unit in batch if unit not in again], told or error))
        for unit in again:
            unit.runs += 1
            unit.alone = unit.runs > 1 or not isinstance(told, Contended | Broken)
        self._waiting.extendleft(reversed(again))
        if isinstance(told, Contended):
            await asyncio.sleep(uniform(0, PAUSE_SECONDS))

    async def _roll_back(self, told: StoreUnavailable | None) -> None:
        if self._connection is None:
            return
        try:
            if isinstance(told, Broken):
                raise told
            await self._connection.execute("rollback")
        except (*DRIVER_ERRORS, StoreUnavailable):
            self._disconnect()

    # -- the connection -----------------------------------------------------------------------------------------

    async def _connected(self) -> Any:
        if self._connection is None or self._connection.is_closed():
            self._connection = await connect(self._url, "decides", **ONCE_PLANNED)
        return self._connection

    def _disconnect(self) -> None:
        """Closes the connection without a word, which undoes what is not committed."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.terminate()


def _is_worth_another_run(unit: _Unit, error: Exception, told: StoreUnavailable | None, *, alone: bool) -> bool:
    """Whether the unit may succeed where it, or the batch that it was in, has just failed."""
    match told:
        case Silent():
            return False
        case Broken():
            return unit.runs == 0
        case Contended():
            return unit.runs < RERUNS
        case Locked() | None if not alone:
            return True
        case None:
            # Another daemon has just written the row that says the same: the next look will find it.
            return code_of(error) == UNIQUE_VIOLATION and unit.runs < UNIQUE_RERUNS
        case _:
            return False
