"""A network between daemons and PostgreSQL that a test can silence: nothing passes, and nobody is told so."""

import asyncio
from asyncio import StreamReader, StreamWriter
from contextlib import AbstractContextManager, suppress

from tests.support.between import Between, passing


class Relay(Between):
    """Passes bytes on."""

    def __init__(self, target: int) -> None:
        super().__init__(target)
        self._open = asyncio.Event()
        self._open.set()

    def silence(self) -> None:
        """From now on nothing passes: what is sent waits, new connections are taken and hear nothing."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def mend(self) -> None:
        """The network works again; connections of before are broken, as they are after a long silence."""
        self.on_loop(self._mend())

    async def _mend(self) -> None:
        self.break_all()
        self._open.set()

    async def admits(self) -> bool:
        return await self._open.wait()

    async def pass_there(self, reader: StreamReader, upstream: StreamWriter, writer: StreamWriter) -> None:
        await self.pass_back(reader, upstream)

    async def pass_back(self, upstream: StreamReader, writer: StreamWriter) -> None:
        with suppress(OSError):
            while data := await upstream.read(1 << 16):
                await self._open.wait()
                writer.write(data)
                await writer.drain()


def relayed(target: int) -> AbstractContextManager[Relay]:
    """A relay for the length of a test."""
    return passing(Relay(target))
