"""Owns the end of what has ended: executions past their retention go, and records past their time."""

import asyncio
from typing import Final

from stepd.store.base import Store

BATCH: Final = 100
FORGET_BATCH: Final = 1_000
LOOK_SECONDS: Final = 2.0
BREATH_SECONDS: Final = 0.05
"""Between two batches others get their turn."""


class Retention:
    """Removes ended executions, and forgets claims, calls, workers and audit rows, a bounded batch at a time."""

    name = "retention"

    def __init__(self, store: Store) -> None:
        self._store = store
        self.wake = asyncio.Event()

    async def run_once(self) -> float:
        """One batch of each. Raises StoreUnavailable."""
        removed = await self._store.remove_ended(BATCH)
        forgotten = await self._store.forget(FORGET_BATCH)
        return BREATH_SECONDS if removed >= BATCH or forgotten >= FORGET_BATCH else LOOK_SECONDS
