"""Owns how far a daemon is on its way from serving to closed, for everything at the edge that has to let go in time."""

import asyncio
from types import TracebackType


class Phase:
    """Serving, then draining (outcomes are still taken), then closing (open connections end). Never goes back."""

    def __init__(self) -> None:
        self.draining = asyncio.Event()
        self.closing = asyncio.Event()
        self._deadlines: set[Deadline] = set()

    def drain(self) -> None:
        """From here on there is no new work."""
        self.draining.set()

    def close(self) -> None:
        """From here on nothing is waited for: every deadline that runs passes at once."""
        self.draining.set()
        self.closing.set()
        for deadline in self._deadlines:
            deadline.pass_now()

    def deadline(self, seconds: float) -> "Deadline":
        """Bounds what is awaited within: TimeoutError after `seconds`, and as soon as the daemon closes."""
        return Deadline(seconds, self.closing, self._deadlines)


class Deadline:
    """A time-out that also passes when the daemon closes."""

    __slots__ = ("_closing", "_running", "_seconds", "_timeout")

    def __init__(self, seconds: float, closing: asyncio.Event, running: "set[Deadline]") -> None:
        self._closing = closing
        self._running = running
        self._seconds = seconds
        self._timeout: asyncio.Timeout

    def pass_now(self) -> None:
        """Lets the time be over."""
        self._timeout.reschedule(asyncio.get_running_loop().time())

    async def __aenter__(self) -> None:
        self._timeout = asyncio.timeout(0 if self._closing.is_set() else self._seconds)
        await self._timeout.__aenter__()
        self._running.add(self)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.discard(self)
        await self._timeout.__aexit__(kind, error, trace)
