"""Owns the question whether the client has left, while its call waits or its answer is being made."""

from typing import Final

from stepd.http.asgi import Message, Receive, received_now

STRAY_BYTES_MAX: Final = 65_536
"""A client that sends more than this behind its request is treated as gone."""


class Departure:
    """The client's leaving. The body must have been read before; one task at a time may `wait`.

    When the whole answer has been handed over, the server says "disconnected" as a matter of course: look before that.
    """

    __slots__ = ("_left", "_receive", "_stray")

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._left = False
        self._stray = 0

    def is_set(self) -> bool:
        """Whether the client is known to have left."""
        return self._left

    async def wait(self) -> None:
        """Waits until the client has left."""
        while not self._left:
            self._take(await self._receive())

    def check(self) -> bool:
        """Whether the client has left, as far as the server has noticed by now."""
        while not self._left and (message := received_now(self._receive)) is not None:
            self._take(message)
        return self._left

    def _take(self, message: Message) -> None:
        self._stray += len(message.get("body", b""))
        self._left = message["type"] == "http.disconnect" or self._stray > STRAY_BYTES_MAX
