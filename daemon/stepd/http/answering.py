"""Owns the writing of answers: whole ones, and streams that keep proxies from holding them back."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final, Protocol

from stepd.http.asgi import Headers, Send
from stepd.http.problems import encode_problem
from stepd.service.base import Reply
from stepd_protocol.problems import Problem

_JSON: Final = (b"content-type", b"application/json")
_CLOSE: Final = (b"connection", b"close")
_STREAM_HEADERS: Final[Headers] = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    # nginx and those that learned from it hold an answer back unless told not to.
    (b"x-accel-buffering", b"no"),
]


class End(Protocol):
    """Something that ends a stream."""

    async def wait(self) -> object:
        """Waits until it happens."""


class Writer:
    """Writes the one answer of one request. `closing`: the connection ends with it (HTTP/1 only)."""

    __slots__ = ("_send", "closing", "status")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.closing = False
        self.status = 0
        """Of the answer that was begun; 0 before."""

    async def problem(self, problem: Problem, *more: tuple[bytes, bytes]) -> None:
        headers, body = encode_problem(problem)
        names = {name for name, _ in more}
        await self.head(problem.status, [*(pair for pair in headers if pair[0] not in names), *more], body)
        await self.last(body)

    async def reply(self, reply: Reply) -> None:
        await self.reply_head(reply)
        await self.last(reply.body)

    async def reply_head(self, reply: Reply) -> None:
        """Everything but the body, so that one can look once more whether the client is there."""
        headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in reply.headers]
        if reply.body and not any(name == b"content-type" for name, _ in headers):
            headers.append(_JSON)
        await self.head(reply.status, headers, reply.body)

    async def head(self, status: int, headers: Headers, body: bytes | None) -> None:
        """`body` None: its length is not known."""
        if body is not None and status != 204:
            headers.append((b"content-length", b"%d" % len(body)))
        if self.closing:
            headers.append(_CLOSE)
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def last(self, body: bytes) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    async def stream(self, chunks: AsyncIterator[bytes], *ends: End) -> None:
        """Writes chunks as they come, until there are no more or one of the ends happens; then ends the answer."""
        await self.head(200, list(_STREAM_HEADERS), None)
        pump = asyncio.create_task(self._pump(chunks), name="stream")
        waits = [asyncio.create_task(end.wait()) for end in ends]
        try:
            await asyncio.wait([pump, *waits], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (pump, *waits):
                task.cancel()
            await asyncio.wait([pump, *waits])
        if not pump.cancelled() and (error := pump.exception()) is not None:
            raise error
        await self.last(b"")

    async def _pump(self, chunks: AsyncIterator[bytes]) -> None:
        try:
            async for chunk in chunks:
                await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
        finally:
            if isinstance(chunks, AsyncGenerator):
                await chunks.aclose()
