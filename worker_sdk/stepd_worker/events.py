"""Owns the two ways that the worker uses an event of a loop: told from another thread, and waited for with a bound."""

import asyncio


def tell(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    """Sets an event of a loop, from any thread."""
    try:
        loop.call_soon_threadsafe(event.set)
    except RuntimeError:  # the loop is closed: nobody waits any more
        pass


async def wait_at_most(event: asyncio.Event, seconds: float) -> None:
    """Waits until an event is set, so many seconds at most."""
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        pass
