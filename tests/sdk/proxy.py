"""Owns a network between worker and daemon that a test can cut, that loses answers, and that answers for the daemon."""

import asyncio
import re
from asyncio import StreamReader, StreamWriter
from collections import Counter
from contextlib import AbstractContextManager, suppress

from tests.sdk.running import wait_for
from tests.support.between import Between, passing

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


class Proxy(Between):
    """Passes HTTP/1.1 on."""

    def __init__(self, target: int) -> None:
        super().__init__(target)
        self.seen: Counter[str] = Counter()
        """Calls that came, by the last part of their path."""
        self.dropped = 0
        """Answers that came and went no further."""
        self.drop_every: int | None = None
        """Of all answers each so manieth is lost, with its connection."""
        self.answers: dict[str, bytes] = {}
        """Calls that get this in place of the daemon's answer."""
        self._away = False
        self._answers = 0

    def cut(self) -> None:
        """From now on nothing passes: open connections break, new ones too."""
        self.on_loop(self._cut())

    def mend(self) -> None:
        """What is sent from now on passes."""
        self._away = False

    def expect_more(self, call: str, count: int) -> None:
        """Waits for so many calls from now on."""
        enough = self.seen[call] + count
        wait_for(lambda: self.seen[call] >= enough, f"{count} × {call}")

    # --- On the loop

    async def _cut(self) -> None:
        self._away = True
        self.break_all()

    async def admits(self) -> bool:
        return not self._away

    async def pass_there(self, reader: StreamReader, upstream: StreamWriter, writer: StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = _LENGTH.search(head)
                body = await reader.readexactly(int(length[1]) if length else 0)
                call = head.split(b" ", 2)[1].rpartition(b"/")[2].decode()
                self.seen[call] += 1
                own = self.answers.get(call)
                (upstream if own is None else writer).write(head + body if own is None else own)

    async def pass_back(self, upstream: StreamReader, writer: StreamWriter) -> None:
        with suppress(OSError):
            while data := await upstream.read(1 << 16):
                if data.startswith(b"HTTP/1.1 "):
                    self._answers += 1
                    if self.drop_every is not None and self._answers % self.drop_every == 0:
                        self.dropped += 1
                        return
                writer.write(data)


def proxied(target: int) -> AbstractContextManager[Proxy]:
    """A proxy for the length of a test."""
    return passing(Proxy(target))


def problem_bytes(status: int, code: str) -> bytes:
    """A whole answer with a problem."""
    body = f'{{"type":"urn:stepd:problem:{code}","title":"{code}","status":{status},"code":"{code}"}}'.encode()
    head = f"HTTP/1.1 {status} X\r\ncontent-type: application/problem+json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body
