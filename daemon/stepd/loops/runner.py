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


async def run_loop(loop: Loop, told: Callable[[str, bool], None] = lambda _name, _well: None) -> None:
    """Runs rounds for ever. One that fails is logged, for the store being away only once, and followed by the next.

    ``told`` hears of each round: the loop's name, and whether it went well.
    """
    away = False
    while True:
        loop.wake.clear()
        try:
            pause = await loop.run_once()
            if away:
                _log.info("%s: the store is back", loop.name)
            away = False
            told(loop.name, True)
        except StoreUnavailable as fault:
            told(loop.name, False)
            if not away:
                _log.warning("%s: the store is away: %s", loop.name, fault)
            away, pause = True, AFTER_FAULT_SECONDS
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
