"""Owns a network between worker and daemon that a test can cut, that loses answers, and that answers for the daemon."""

import asyncio
import re
import threading
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from tests.sdk.running import wait_for
from tests.support.daemon import free_port

T = TypeVar("T")

SECONDS = 10.0
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


class Proxy:
    """Passes HTTP/1.1 on to a port of this machine, on an event loop and a thread of its own."""

    def __init__(self, target: int) -> None:
        self.port = free_port()
        self.seen: Counter[str] = Counter()
        """Calls that came, by the last part of their path."""
        self.dropped = 0
        """Answers that came and went no further."""
        self.drop_every: int | None = None
        """Of all answers each so manieth is lost, with its connection."""
        self.answers: dict[str, bytes] = {}
        """Calls that get this in place of the daemon's answer."""
        self._target = target
        self._away = False
        self._answers = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """From now on nothing passes: open connections break, new ones too."""
        self._on_loop(self._cut())

    def mend(self) -> None:
        """What is sent from now on passes."""
        self._away = False

    def expect_more(self, call: str, count: int) -> None:
        """Waits for so many calls from now on."""
        enough = self.seen[call] + count
        wait_for(lambda: self.seen[call] >= enough, f"{count} × {call}")

    def start(self) -> None:
        self._thread.start()
        self._server = self._on_loop(asyncio.start_server(self._serve, "127.0.0.1", self.port))

    def stop(self) -> None:
        self._on_loop(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS)
        self._loop.close()

    # --- On the loop

    def _on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SECONDS)

    async def _cut(self) -> None:
        self._away = True
        for writer in self._writers:
            writer.transport.abort()

    async def _end(self) -> None:
        self._server.close()
        await self._cut()
        served = asyncio.all_tasks() - {asyncio.current_task()}
        for task in served:
            task.cancel()
        await asyncio.gather(*served, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._away:
            writer.transport.abort()
            return
        upstream_reader, upstream = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers |= {writer, upstream}
        directions = {
            asyncio.ensure_future(self._requests(reader, writer, upstream)),
            asyncio.ensure_future(self._pass_answers(upstream_reader, writer)),
        }
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for direction in directions:
                direction.cancel()
            self._writers -= {writer, upstream}
            writer.transport.abort()
            upstream.transport.abort()

    async def _requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, upstream: asyncio.StreamWriter
    ) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = _LENGTH.search(head)
                body = await reader.readexactly(int(length[1]) if length else 0)
                call = head.split(b" ", 2)[1].rpartition(b"/")[2].decode()
                self.seen[call] += 1
                own = self.answers.get(call)
                (upstream if own is None else writer).write(head + body if own is None else own)

    async def _pass_answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                if data.startswith(b"HTTP/1.1 "):
                    self._answers += 1
                    if self.drop_every is not None and self._answers % self.drop_every == 0:
                        self.dropped += 1
                        return
                writer.write(data)


@contextmanager
def proxied(target: int) -> Iterator[Proxy]:
    """A proxy for the length of a test."""
    proxy = Proxy(target)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()


def problem_bytes(status: int, code: str) -> bytes:
    """A whole answer with a problem."""
    body = f'{{"type":"urn:stepd:problem:{code}","title":"{code}","status":{status},"code":"{code}"}}'.encode()
    head = f"HTTP/1.1 {status} X\r\ncontent-type: application/problem+json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body
