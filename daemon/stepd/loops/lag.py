"""Owns the measure of the event loop: how much later than it should something runs."""

import asyncio
from collections.abc import Callable
from typing import Final

LOOK_SECONDS: Final = 1.0


class Lag:
    """Asks to be run again after a while, and tells by how much later (s) that was done."""

    name = "lag"

    def __init__(self, observe: Callable[[float], None]) -> None:
        self._observe = observe
        self._due: float | None = None
        self.wake = asyncio.Event()

    async def run_once(self) -> float:
        """One look."""
        now = asyncio.get_running_loop().time()
        if self._due is not None:
            self._observe(max(0.0, now - self._due))
        self._due = now + LOOK_SECONDS
        return LOOK_SECONDS
