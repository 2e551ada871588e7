"""Opens connections to PostgreSQL, and keeps a bounded pool of them. Whatever is asked on one is answered in time.

A connection on which something went wrong outside the daemon is thrown away at once, without another word on it: on a
network that has fallen silent each would take its whole time again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol, TypeVar

import asyncpg

from stepd.store.base import StoreUnavailable
from stepd.store.marks import from_text, to_text
from stepd.store.postgres.errors import DRIVER_ERRORS, Broken, Silent, unavailable

R = TypeVar("R")

CONNECT_SECONDS: Final = 2.0
STATEMENT_SECONDS: Final = 4.0
"""PostgreSQL breaks off what takes longer."""
ANSWER_SECONDS: Final = 5.0
"""A connection on which a statement was not answered within this time is given up."""
LOCK_SECONDS: Final = 2.0
IDLE_TRANSACTION_SECONDS: Final = 5.0
"""Rows that a daemon has locked which stands still are free again after this time."""
STATEMENT_BYTES: Final = 65_536
"""Statements up to this length stay prepared."""
POOL_SIZE: Final = 6
ACQUIRE_SECONDS: Final = 4.0

SESSION: Final = {
    "application_name": "stepd",
    "timezone": "UTC",
    "jit": "off",
    "synchronous_commit": "on",
    "default_transaction_isolation": "read committed",
    "statement_timeout": f"{STATEMENT_SECONDS:g}s",
    "lock_timeout": f"{LOCK_SECONDS:g}s",
    "idle_in_transaction_session_timeout": f"{IDLE_TRANSACTION_SECONDS:g}s",
    # PostgreSQL notices by itself when this machine is gone, and lets its locks go.
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
}


class Session(Protocol):
    """What is asked of a connection."""

    async def fetch(self, query: str, *args: Any) -> list[Any]: ...
    async def fetchrow(self, query: str, *args: Any) -> Any: ...
    async def fetchval(self, query: str, *args: Any) -> Any: ...
    async def execute(self, query: str, *args: Any) -> str: ...
    async def executemany(self, command: str, args: Any) -> None: ...


async def connect(url: str, purpose: str, **settings: str) -> Any:
    """A connection of one's own, which PostgreSQL shows with its purpose. Raises what the driver raises."""
    session = SESSION | {"application_name": f"stepd: {purpose}"} | settings
    async with asyncio.timeout(CONNECT_SECONDS):
        connection = await asyncpg.connect(
            url,
            timeout=CONNECT_SECONDS,
            command_timeout=ANSWER_SECONDS,
            max_cacheable_statement_size=STATEMENT_BYTES,
            server_settings=session,
        )
        await _hold_any_text(connection)
        return connection


class Pool:
    """A few connections for what many callers ask at a time."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._closed = False
        self._running: set[asyncio.Task[Any]] = set()

    @classmethod
    async def open(cls, url: str) -> Pool:
        """A pool that connects when it must. Raises what the driver raises."""
        pool = asyncpg.create_pool(
            url,
            min_size=0,
            max_size=POOL_SIZE,
            timeout=CONNECT_SECONDS,
            command_timeout=ANSWER_SECONDS,
            server_settings=SESSION,
            init=_hold_any_text,
            reset=_nothing,  # every transaction is ended by who began it, and nothing else is left behind
        )
        return cls(await pool)

    async def run(self, act: Callable[[Session], Coroutine[Any, Any, R]]) -> R:
        """Runs ``act`` on a connection, to its end also where the caller goes away. Raises StoreUnavailable.

        Where the connection turns out to be lost, it runs a second time on another one: reads only.
        """
        return await self.keep(self._twice(act))

    async def keep(self, work: Coroutine[Any, Any, R]) -> R:
        """The answer of work that ends by itself, whatever becomes of its caller."""
        if self._closed:
            work.close()
            raise StoreUnavailable("The daemon is stopping.")
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """A connection for the length of a block; errors of the driver become StoreUnavailable where they are."""
        connection: Any = None
        is_sound = False
        try:
            async with asyncio.timeout(ACQUIRE_SECONDS):
                connection = await self._pool.acquire()
            yield connection
            is_sound = True
        except DRIVER_ERRORS as error:
            if (told := unavailable(error)) is None:
                raise
            raise told from error
        finally:
            if connection is not None:
                if not is_sound:
                    _give_up(connection)
                await self._pool.release(connection)

    async def close(self) -> None:
        """Takes nothing more, waits for what runs, and closes the connections."""
        self._closed = True
        if self._running:
            await asyncio.wait(self._running)
        self._pool.terminate()

    async def _twice(self, act: Callable[[Session], Awaitable[R]]) -> R:
        try:
            async with self.session() as session:
                return await act(session)
        except Silent:
            raise
        except Broken:
            async with self.session() as session:
                return await act(session)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # its caller has heard it, or is gone


def _give_up(connection: Any) -> None:
    """Closes a connection of the pool without a word, which undoes what is not committed."""
    try:
        connection.terminate()
    except asyncpg.InterfaceError:
        pass  # it has ended already, and the pool has noticed


async def _hold_any_text(connection: Any) -> None:
    await connection.set_type_codec("text", schema="pg_catalog", encoder=to_text, decoder=from_text)


async def _nothing(_connection: object) -> None:
    """Leaves a connection as it is."""
