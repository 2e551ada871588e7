"""Owns what hypercorn's connections do otherwise here: an end with their client, and less work for each answer.

Hypercorn has no settings for these. It makes and cancels tasks for each request only to count the seconds in which a
connection is idle, and it writes the head and the body of an answer apart: a quarter of what a small call costs.
"""

import asyncio
import select
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Final

from hypercorn import protocol
from hypercorn.asyncio import run
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.events import Event, RawData, Updated
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.events import Response
from hypercorn.protocol.h11 import H11Protocol

JOINED_BYTES_MAX: Final = 65_536
"""A larger body is not copied behind its head."""

# Not every system has it; there only what the server has read tells.
_CLOSED: Final = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR
_served: ContextVar["Connection"] = ContextVar("_served")


class Connection(TCPServer):
    """One connection, over as soon as its client has closed it and its last call has ended.

    One task counts its idle seconds for as long as it lives: it looks when they would be over had no call come between.
    """

    _idle_since: float | None = None
    """By the loop's clock; None while a call is under way."""

    async def run(self) -> None:
        _served.set(self)
        await super().run()

    def is_closed_by_client(self) -> bool:
        """Whether the kernel knows that the client has closed it, although the loop may not have come to read that."""
        descriptor = self.writer.get_extra_info("socket").fileno()
        if descriptor < 0:
            return True
        poll = select.poll()
        poll.register(descriptor, _CLOSED)
        return any(event & _CLOSED for _, event in poll.poll(0))

    async def protocol_send(self, event: Event) -> None:
        if not isinstance(event, Updated):
            await super().protocol_send(event)
        elif event.idle and self.context.terminated.is_set():
            await super().protocol_send(event)  # the task has ended, and a new one closes the connection
        else:
            self._idle_since = self.loop.time() if event.idle else None

    async def _read_data(self) -> None:
        await super()._read_data()
        # The connection's tasks are waited for next; the one that counts idle seconds would be waited for in vain.
        await self.idle_task.stop()

    async def _idle_timeout(self) -> None:
        self._idle_since = now = self.loop.time()
        ended = self.context.terminated
        while not ended.is_set() and (left := self._idle_left(now)) > 0:
            try:
                async with asyncio.timeout(left):
                    await ended.wait()
            except TimeoutError:
                now = self.loop.time()
        if self._idle_since is not None:
            await asyncio.shield(self._initiate_server_close())

    def _idle_left(self, now: float) -> float:
        """Seconds until the connection has been idle for long enough, if no call comes."""
        since = now if self._idle_since is None else self._idle_since
        return since + self.config.keep_alive_timeout - now


class OneWrite(H11Protocol):
    """HTTP/1 that writes an answer whose length is known in one piece. Of a stream the head goes at once."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._write: Callable[[Event], Awaitable[None]] = self.send
        self.send = self._join
        self._hold = False
        self._held = b""

    async def stream_send(self, event: StreamEvent) -> None:
        if isinstance(event, Response):
            self._hold = any(name == b"content-length" for name, _ in event.headers)
        await super().stream_send(event)

    async def _join(self, event: Event) -> None:
        if not isinstance(event, RawData):
            await self._write(event)
        elif self._hold:
            self._hold, self._held = False, event.data
        elif self._held and len(event.data) > JOINED_BYTES_MAX:
            head, self._held = self._held, b""
            await self._write(RawData(head))
            await self._write(event)
        elif self._held or event.data:
            whole, self._held = self._held + event.data, b""
            await self._write(RawData(whole))


def has_client_left() -> bool:
    """Whether the client of the call that the running task serves has closed its connection; False where none does."""
    connection = _served.get(None)
    return connection is not None and connection.is_closed_by_client()


def use_our_connections() -> None:
    """Makes hypercorn serve such connections from now on: it finds its classes as globals of its modules."""
    run.TCPServer = Connection  # type: ignore[attr-defined] # a module's global is how hypercorn finds its class
    protocol.H11Protocol = OneWrite  # type: ignore[attr-defined, assignment] # the same
