"""A network between two ends: passes connections on to a port of this machine, on an event loop of its own."""

import asyncio
import threading
from abc import ABC, abstractmethod
from asyncio import StreamReader, StreamWriter
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
N = TypeVar("N", bound="Between")

SECONDS = 10.0


class Between(ABC):
    """Listens on a port that is free, and passes each connection on in both directions, until one of them ends."""

    def __init__(self, target: int) -> None:
        self.port = 0
        """Where it listens, once it is started."""
        self._target = target
        self._writers: set[StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._thread.start()
        self._server = self.on_loop(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = self._server.sockets[0].getsockname()[1]

    def stop(self) -> None:
        self.on_loop(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS)
        self._loop.close()

    def on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs it on the network's loop, and waits for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SECONDS)

    # --- On the loop

    @abstractmethod
    async def admits(self) -> bool:
        """Whether a connection that has come is passed on; it may wait for that."""

    @abstractmethod
    async def pass_there(self, reader: StreamReader, upstream: StreamWriter, writer: StreamWriter) -> None:
        """Passes on what comes from the near end, to whom ``writer`` answers, until that ends."""

    @abstractmethod
    async def pass_back(self, upstream: StreamReader, writer: StreamWriter) -> None:
        """Passes on what comes from the far end, until that ends."""

    def break_all(self) -> None:
        """Breaks every open connection."""
        for writer in self._writers:
            writer.transport.abort()

    async def _end(self) -> None:
        self._server.close()
        self.break_all()
        served = asyncio.all_tasks() - {asyncio.current_task()}
        for task in served:
            task.cancel()
        await asyncio.gather(*served, return_exceptions=True)

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        ends = {writer}
        self._writers |= ends
        try:
            if await self.admits():
                upstream_reader, upstream = await asyncio.open_connection("127.0.0.1", self._target)
                ends.add(upstream)
                self._writers |= ends
                await _first_of(
                    self.pass_there(reader, upstream, writer),
                    self.pass_back(upstream_reader, writer),
                )
        finally:
            self._writers -= ends
            for end in ends:
                end.transport.abort()


@contextmanager
def passing(network: N) -> Iterator[N]:
    """The network for the length of a test."""
    network.start()
    try:
        yield network
    finally:
        network.stop()


async def _first_of(*directions: Coroutine[Any, Any, None]) -> None:
    """Runs them until one has ended."""
    running = {asyncio.ensure_future(direction) for direction in directions}
    try:
        await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for direction in running:
            direction.cancel()
