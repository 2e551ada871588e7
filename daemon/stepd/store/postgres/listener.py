"""The one connection that a daemon keeps open for good: on it it hears of others' commits, and holds its place.

Every daemon holds an advisory lock together with the others. One that starts tries to have it for itself first: then no
other serves. The connection is asked for a sign of life all the time, since a network may fall silent without a word.
Once it is renewed, those who wait are told to look for themselves; until then claims look twice a second, as always.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from stepd.store.base import StoreUnavailable
from stepd.store.postgres.connections import connect
from stepd.store.postgres.errors import DRIVER_ERRORS, unavailable
from stepd.store.postgres.notices import Teller

log = logging.getLogger(__name__)

PING_SECONDS: Final = 2.0
PONG_SECONDS: Final = 2.0
RENEW_SECONDS: Final = 0.5
"""How often a connection is tried while there is none."""
ALONE_SECONDS: Final = 0.5
"""So long a daemon that starts waits for the place of one that has just ended."""
TURN_SECONDS: Final = 0.05

PING: Final = "select 1"
PLACE: Final = "select hashtextextended('stepd ' || current_schema(), 0)"
"""A number for the schema: places are taken by database and number."""
TAKE_ALONE: Final = "select pg_try_advisory_lock($1)"
TAKE_SHARED: Final = "select pg_try_advisory_lock_shared($1)"
LEAVE_ALONE: Final = "select pg_advisory_unlock($1)"
LEAVE_ALL: Final = "select pg_advisory_unlock_all()"


class Listener:
    """Makes, watches and renews the connection."""

    def __init__(self, url: str, teller: Teller) -> None:
        self._url = url
        self._teller = teller
        self._connection: Any = None
        self._task: asyncio.Task[None] | None = None
        self._asking = asyncio.Lock()
        self._lost = asyncio.Event()
        self._place = 0
        self._has_place = False
        self.alone = False

    async def start(self) -> None:
        """Connects, takes a place, and listens. Waits while another daemon that started alone has not let others in.

        Raises what the driver raises.
        """
        connection = self._connection = await connect(self._url, "hears")
        self._place = await connection.fetchval(PLACE)
        self._teller.channel = f"stepd_{self._place & 0xFFFF_FFFF_FFFF_FFFF:016x}"
        await self._take_place(connection)
        self._has_place = True
        await self._listen(connection)
        self._task = asyncio.get_running_loop().create_task(self._watch())

    async def _take_place(self, connection: Any) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + ALONE_SECONDS
        while not await connection.fetchval(TAKE_ALONE, self._place):
            if loop.time() > until and await connection.fetchval(TAKE_SHARED, self._place):
                return
            await asyncio.sleep(TURN_SECONDS)
        self.alone = True

    async def admit_others(self) -> None:
        """Shares the place that was had alone. Raises StoreUnavailable."""
        if not self.alone:
            return
        try:
            if await self._ask(TAKE_SHARED, self._place):
                await self._ask(LEAVE_ALONE, self._place)
        except DRIVER_ERRORS as error:
            told = unavailable(error)
            if told is None:
                raise
            raise told from error
        self.alone = False

    async def close(self) -> None:
        """Leaves the place, and closes the connection."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            async with asyncio.timeout(PONG_SECONDS):
                await connection.fetchval(LEAVE_ALL)
                await connection.close()
        except DRIVER_ERRORS:
            pass
        finally:
            connection.terminate()

    async def _watch(self) -> None:
        while True:
            try:
                await self._hear_while_alive()
            except DRIVER_ERRORS as error:
                log.warning("Other daemons are not heard: %s", unavailable(error) or error)
            except StoreUnavailable as error:
                log.warning("Other daemons are not heard: %s", error)
            self._disconnect()
            await self._renew()
            log.info("Other daemons are heard again")
            self._teller.tell_everything()

    async def _hear_while_alive(self) -> None:
        """Returns when the connection is lost; raises what the driver raises where it does not answer."""
        while not self._lost.is_set():
            if not self._has_place:
                self._has_place = await self._ask(TAKE_SHARED, self._place)
            else:
                await self._ask(PING)
            await self._pause(PING_SECONDS if self._has_place else RENEW_SECONDS)
        raise StoreUnavailable("the connection was closed.")

    async def _ask(self, query: str, *arguments: Any) -> Any:
        """The answer, one question at a time. Raises what the driver raises, StoreUnavailable without a connection."""
        async with self._asking:
            if self._connection is None:
                raise StoreUnavailable("The connection to PostgreSQL was lost.")
            return await self._connection.fetchval(query, *arguments, timeout=PONG_SECONDS)

    async def _renew(self) -> None:
        while self._connection is None:
            try:
                connection = await connect(self._url, "hears")
                await self._listen(connection)
            except DRIVER_ERRORS:
                await asyncio.sleep(RENEW_SECONDS)
            else:
                self._connection = connection

    async def _listen(self, connection: Any) -> None:
        """Listens, and notices when the connection ends. Raises what the driver raises."""
        self._lost.clear()
        connection.add_termination_listener(lambda _: self._lost.set())
        await connection.add_listener(self._teller.channel, lambda _, __, ___, text: self._teller.told(text))

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._lost.wait()
        except TimeoutError:
            pass

    def _disconnect(self) -> None:
        self._has_place = False
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.terminate()
