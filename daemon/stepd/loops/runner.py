"""Owns the running of loops: again and again, whatever happens in one round, until they are cancelled."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from stepd.store.base import StoreUnavailable

AFTER_FAULT_SECONDS: Final = 1.0

_log = logging.getLogger(__name__)


class Loop(Protocol):
    """Something to be done again and again."""

    name: str
    wake: asyncio.Event
    """Set by whoever wants the next round now."""

    async def run_once(self) -> float:
        """One round; answers after how many seconds the next one is due, if nothing wakes it before."""


class Outage:
    """What is said of the store being away, once for all loops that share it."""

    def __init__(self) -> None:
        self._met: set[str] = set()

    def met(self, loop: str, fault: StoreUnavailable) -> None:
        """A loop found the store away."""
        if not self._met:
            _log.warning("the store is away: %s", fault)
        self._met.add(loop)

    def over(self, loop: str) -> None:
        """A loop's round went well."""
        if loop in self._met:
            self._met.discard(loop)
            if not self._met:
                _log.info("the store is back")


async def run_loop(
    loop: Loop, told: Callable[[str, bool], None] = lambda _name, _well: None, outage: Outage | None = None
) -> None:
    """Runs rounds for ever. One that fails is logged, for the store being away only once, and followed by the next.

    ``told`` hears of each round: the loop's name, and whether it went well.
    """
    outage = outage or Outage()
    while True:
        loop.wake.clear()
        try:
            pause = await loop.run_once()
            outage.over(loop.name)
            told(loop.name, True)
        except StoreUnavailable as fault:
            told(loop.name, False)
            outage.met(loop.name, fault)
            pause = AFTER_FAULT_SECONDS
        except Exception:  # noqa: BLE001 — a loop that ended would be missed by everybody
            told(loop.name, False)
            _log.exception("%s: a round failed", loop.name)
            pause = AFTER_FAULT_SECONDS
        await _pause(loop.wake, pause)


async def _pause(wake: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await wake.wait()
    except TimeoutError:
        pass
