"""Waiting on the loop for what has no event of its own."""

import asyncio
from collections.abc import Callable


async def until(holds: Callable[[], object], seconds: float = 5) -> None:
    """Lets the loop run until the condition holds; fails after ``seconds``."""
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 — what is waited for has no event
            await asyncio.sleep(0)
