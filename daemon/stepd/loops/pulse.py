"""Owns the pulse: the sign in the store that a daemon serves, and the grace when it had stopped."""

import asyncio
import logging
import time
from typing import Final

from stepd.store.base import Store, StoreUnavailable

BEAT_SECONDS: Final = 1.0
STALE_SECONDS: Final = 3.0
"""After so long without a beat nothing is served or swept before the next one: it may be time for grace."""

_log = logging.getLogger(__name__)


class Pulse:
    """Moves the store's pulse every second, and before anything else where this process or the store stood still."""

    name = "pulse"

    def __init__(self, store: Store) -> None:
        self._store = store
        # The wall clock, since the monotonic one stands still while the machine is suspended.
        self._beaten_at = 0.0
        self._beating = asyncio.Lock()
        self._failures = 0
        self.wake = asyncio.Event()
        self.graces = 0
        """How often leases were given grace."""
        self.fault: str | None = None
        """Why the last beat failed; None when it did not."""

    async def run_once(self) -> float:
        """One beat. Raises StoreUnavailable."""
        async with self._beating:
            await self._beat()
        return BEAT_SECONDS

    async def catch_up(self) -> None:
        """Beats unless that was done just now. Raises StoreUnavailable.

        Calls that came while a beat was under way share its outcome: else each would wait for a lock as long again.
        """
        if not self.is_stale():
            return
        failures = self._failures
        async with self._beating:
            if not self.is_stale():
                return
            if self.fault is not None and self._failures > failures:
                raise StoreUnavailable(self.fault)
            await self._beat()

    def is_stale(self) -> bool:
        """Whether the last beat was too long ago, or seems to come yet: the clock was set back."""
        return not 0 <= time.time() - self._beaten_at <= STALE_SECONDS

    async def _beat(self) -> None:
        began = time.time()
        try:
            grace = await self._store.pulse()
        except StoreUnavailable as fault:
            self.fault = str(fault)
            self._failures += 1
            raise
        self.fault = None
        self._beaten_at = began
        if grace:
            self.graces += 1
            _log.warning("the pulse had stood still: every lease was given grace")
