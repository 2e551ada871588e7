"""The one writer: runs what waits to be written in batches, each batch in one transaction with one commit.

Everything here runs on the event loop's thread. A batch begins a few passes of the loop after its first unit came, so
that calls which arrived together share a commit although they are not equally far on their way to the store. A unit
that fails without having written anything fails alone. One that fails after it wrote takes the transaction with it: it
is answered its error, and its neighbours are run again, each in a transaction of its own. That costs nothing while all
goes well, where a savepoint a unit would cost more than the unit.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, Final, TypeVar

from stepd.clock import Clock
from stepd.store.base import Batch, StoreUnavailable, Tell
from stepd.store.sqlite.cache import Cache
from stepd.store.sqlite.connections import OPEN_WAIT_SECONDS, connect_writer
from stepd.store.sqlite.errors import Broken, Failing, Locked, translated, unavailable
from stepd.store.sqlite.presence import Presence
from stepd.store.sqlite.transaction import Transaction
from stepd.store.units import BATCH_UNITS, Unit, failed, set_apart, settle, take

R = TypeVar("R")

GATHER_PASSES: Final = 5
"""Passes of the loop before a batch begins: a call needs as many from its socket to the store. On an idle loop they
take 0.02 ms together; a commit costs as much as two decisions."""
BATCH_SECONDS: Final = 0.005
"""After this time no further unit is begun: the loop has other work."""
LOCKED_SECONDS: Final = 2.0
"""How long a unit waits for another process's lock before its caller is told that the store is unavailable."""
FAILURES: Final = 3
"""After so many reads or writes that failed on end the file is opened anew. Not at the first one: a new connection
reads the log from its start, and could find a commit there whose sync failed, while its callers were told otherwise."""
LOCKED_PAUSE_SECONDS: Final = (0.005, 0.01, 0.02, 0.05, 0.1)


class _Unit(Unit):
    """What is to be done, and since when it waits, in seconds of the loop."""

    __slots__ = ("act", "since")

    def __init__(self, act: Callable[[Transaction], Any], future: asyncio.Future[Any], since: float) -> None:
        super().__init__(future)
        self.act = act
        self.since = since


class Commits:
    """The queue of units and the connection that writes them. Make it on the loop that will use it."""

    def __init__(self, file: Path, clock: Clock, presence: Presence) -> None:
        self._file = file
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._connection: sqlite3.Connection | None = connect_writer(file, OPEN_WAIT_SECONDS)
        self._presence = presence
        self._cache = Cache()
        self._waiting: deque[_Unit] = deque()
        self._scheduled: asyncio.Handle | None = None
        self._pauses = 0
        self._failures = 0
        self._stopping = self._closed = False
        self._idle = asyncio.Event()
        self._idle.set()
        self.tell: Callable[[Tell], None] = lambda _tell: None
        """Hears of each commit."""
        self.committed: Callable[[int], None] = lambda _changes: None
        """Hears after each commit how many rows the connection has changed in all."""

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection that writes; between batches also for short reads on the loop. Raises StoreUnavailable."""
        if self._connection is None:
            if self._closed:
                raise StoreUnavailable("The daemon is stopping.")
            self._presence.check()
            with translated():
                self._connection = connect_writer(self._file)
        return self._connection

    def look(self, read: Callable[[sqlite3.Connection], R]) -> R:
        """Runs a short read on the loop; it sees what is committed. Raises StoreUnavailable."""
        try:
            return read(self.connection)
        except sqlite3.Error as error:
            told = self._translate(error)
            if told is None:
                raise
            raise told from error

    async def run(self, act: Callable[[Transaction], R]) -> R:
        """Runs ``act`` inside a transaction and answers after its commit. It may run more than once; then only the last
        run counts. Raises what ``act`` raises (nothing was done), and StoreUnavailable (nothing was done).
        """
        if self._stopping:
            raise StoreUnavailable("The daemon is stopping.")
        unit = _Unit(act, self._loop.create_future(), self._loop.time())
        self._waiting.append(unit)
        self._idle.clear()
        self._schedule()
        answer: R = await unit.future
        return answer

    async def drain(self) -> None:
        """Takes nothing more, and waits for what waits."""
        self._stopping = True
        await self._idle.wait()

    def close(self) -> None:
        """Closes the connection for good."""
        self._closed = True
        self._disconnect()

    # -- the batch ----------------------------------------------------------------------------------------------

    def _schedule(self) -> None:
        if self._scheduled is None:
            self._scheduled = self._loop.call_soon(self._gather, GATHER_PASSES)

    def _gather(self, passes: int) -> None:
        """Runs the batch when these passes of the loop are over, or when no more units have room in it."""
        if passes > 1 and len(self._waiting) < BATCH_UNITS:
            self._scheduled = self._loop.call_soon(self._gather, passes - 1)
        else:
            self._run_batch()

    def _run_batch(self) -> None:
        self._scheduled = None
        batch = take(self._waiting)
        try:
            settled, told = self._transact(batch)
        except Locked as error:
            settled, told = self._wait_for_lock(batch, error), None
        except StoreUnavailable as error:
            settled, told = failed(batch, error), None
        except BaseException as error:
            settle(failed(batch, error))
            raise
        finally:
            self._go_on()
        settle(settled)
        if told is not None:
            self.tell(told)

    def _go_on(self) -> None:
        if self._waiting:
            self._schedule()
        else:
            self._idle.set()

    def _transact(self, batch: list[_Unit]) -> tuple[list[_Unit], Tell | None]:
        """Runs the batch and commits it: the units to be settled, and what to tell. Raises StoreUnavailable."""
        connection = self.connection
        began = perf_counter()
        try:
            connection.execute("begin immediate")
            self._cache.refresh(connection)
            self._pauses = 0
            told, spoiled = self._perform(connection, batch)
            if spoiled is None:
                self._presence.check()
                decided = perf_counter()
                self._commit(connection)
                ended = perf_counter()
                told.batch = Batch(len(batch), ended - began, ended - decided)
                self._failures = 0
        except BaseException as error:
            self._roll_back(connection)
            unavailable_now = self._translate(error)
            if unavailable_now is None:
                raise
            raise unavailable_now from error
        if spoiled is not None:
            self._roll_back(connection)
            set_apart(self._waiting, batch, spoiled)
            return [spoiled], None
        self.committed(connection.total_changes)
        return batch, told

    def _perform(self, connection: sqlite3.Connection, batch: list[_Unit]) -> tuple[Tell, _Unit | None]:
        """Runs the units; those that find no time are put back. Answers also the one that spoiled the transaction."""
        told = Tell(False, {}, None)
        deadline = perf_counter() + BATCH_SECONDS
        for number, unit in enumerate(batch):
            if unit.future.done():
                continue
            transaction = Transaction(connection, self._cache, self._clock)
            unit.error = None
            before = connection.total_changes
            try:
                unit.answer = unit.act(transaction)
            except Exception as error:
                if unavailable(error) is not None:
                    raise
                unit.error = error
                if connection.total_changes != before or not connection.in_transaction:
                    return told, unit
            else:
                transaction.add_to(told)
            if perf_counter() > deadline and number + 1 < len(batch):
                self._waiting.extendleft(reversed(batch[number + 1 :]))
                del batch[number + 1 :]
        return told, None

    def _commit(self, connection: sqlite3.Connection) -> None:
        """Makes the transaction durable. The one place to change, should slow disks want this on a thread."""
        connection.execute("commit")

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        """Undoes the transaction; SQLite may have done so itself already."""
        self._cache.clear()
        if not connection.in_transaction:
            return
        try:
            connection.execute("rollback")
        except sqlite3.Error:
            self._disconnect()

    def _disconnect(self) -> None:
        """Closes the connection, which undoes what is not committed; the next one to need it opens it anew."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()

    # -- what went wrong ----------------------------------------------------------------------------------------

    def _translate(self, error: BaseException) -> StoreUnavailable | None:
        """What the error tells callers, if anything; a connection that is of no use any more is closed."""
        told = unavailable(error)
        if isinstance(told, Failing):
            self._failures += 1
        if isinstance(told, Broken) or self._failures >= FAILURES:
            self._failures = 0
            self._disconnect()
        return told

    def _wait_for_lock(self, batch: list[_Unit], error: Locked) -> list[_Unit]:
        """Puts the batch back to be tried again after a pause; answers the units that have waited long enough."""
        now = self._loop.time()
        given_up = [unit for unit in batch if now - unit.since >= LOCKED_SECONDS]
        self._waiting.extendleft(reversed([unit for unit in batch if now - unit.since < LOCKED_SECONDS]))
        if self._waiting:
            pause = LOCKED_PAUSE_SECONDS[min(self._pauses, len(LOCKED_PAUSE_SECONDS) - 1)]
            self._pauses += 1
            self._scheduled = self._loop.call_later(pause, self._run_batch)
        return failed(given_up, error)
