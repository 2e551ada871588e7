"""Owns the question whether the client has left, while its call waits or its answer is being made."""

import asyncio
from typing import Final

from stepd.http.asgi import Receive, received_now

STRAY_BYTES_MAX: Final = 65_536
"""A client that sends more than this behind its request is treated as gone."""


class Departure:
    """The client's leaving, watched for from the first `wait` until `close`.

    Only one task may receive: nothing else reads from the connection once it is watched. When the whole answer has been
    handed over, the server says "disconnected" as a matter of course, so that a watch must end before the last message.
    """

    __slots__ = ("_event", "_receive", "_watcher")

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._event: asyncio.Event | None = None
        self._watcher: asyncio.Task[None] | None = None

    def is_set(self) -> bool:
        """Whether the client is known to have left; always False before anything watched."""
        return self._event is not None and self._event.is_set()

    async def wait(self) -> None:
        """Waits until the client has left."""
        await self._watched().wait()

    def check(self) -> bool:
        """Whether the client has left, as far as the server has noticed by now."""
        if self._event is not None:
            return self._event.is_set()
        message = received_now(self._receive)
        return message is not None and message["type"] == "http.disconnect"

    def close(self) -> None:
        """Ends the watch."""
        if self._watcher is not None:
            self._watcher.cancel()

    def _watched(self) -> asyncio.Event:
        if self._event is None:
            self._event = asyncio.Event()
            self._watcher = asyncio.create_task(self._watch(self._event), name="departure")
        return self._event

    async def _watch(self, event: asyncio.Event) -> None:
        stray = 0
        while stray <= STRAY_BYTES_MAX:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                break
            stray += len(message.get("body", b""))
        event.set()
