"""A network between daemons and PostgreSQL that a test can silence: nothing passes, and nobody is told so."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from tests.support.daemon import free_port

T = TypeVar("T")

SECONDS = 10.0


class Relay:
    """Passes bytes on to a port of this machine, on an event loop and a thread of its own."""

    def __init__(self, target: int) -> None:
        self.port = free_port()
        self._target = target
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._open = asyncio.Event()
        self._open.set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def silence(self) -> None:
        """From now on nothing passes: what is sent waits, new connections are taken and hear nothing."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def mend(self) -> None:
        """The network works again; connections of before are broken, as they are after a long silence."""
        self._on_loop(self._mend())

    def start(self) -> None:
        self._thread.start()
        self._server = self._on_loop(asyncio.start_server(self._serve, "127.0.0.1", self.port))

    def stop(self) -> None:
        self._on_loop(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS)
        self._loop.close()

    def _on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SECONDS)

    async def _mend(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._open.set()

    async def _end(self) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        served = asyncio.all_tasks() - {asyncio.current_task()}
        for task in served:
            task.cancel()
        await asyncio.gather(*served, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        await self._open.wait()
        upstream_reader, upstream = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers.add(upstream)
        directions = {
            asyncio.ensure_future(self._pass_on(reader, upstream)),
            asyncio.ensure_future(self._pass_on(upstream_reader, writer)),
        }
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for direction in directions:
                direction.cancel()
            self._writers -= {writer, upstream}
            writer.transport.abort()
            upstream.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                await self._open.wait()
                writer.write(data)
                await writer.drain()


@contextmanager
def relayed(target: int) -> Iterator[Relay]:
    """A relay for the length of a test."""
    relay = Relay(target)
    relay.start()
    try:
        yield relay
    finally:
        relay.stop()
