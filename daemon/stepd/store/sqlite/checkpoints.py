"""Moves what was committed from the write-ahead log into the database file, beside the event loop.

The log is copied on a thread, while the loop goes on writing behind it. It can only begin anew when all of it has been
copied, and under load it never quite has; so where it has grown long, the few frames that came meanwhile are copied on
the loop, and the next commit starts the log over.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final

from stepd.store.base import StoreUnavailable
from stepd.store.sqlite.connections import connect_checkpointer
from stepd.store.sqlite.errors import unavailable

log = logging.getLogger(__name__)

PAUSE_SECONDS: Final = 1.0
"""At most one checkpoint in this time."""
CHANGES: Final = 500
"""Rows changed since the last checkpoint from which another is worth its syncs."""
LONG_FRAMES: Final = 2_000
"""From this length (pages of 4 KiB) the log is to begin anew."""
LEFT_FRAMES: Final = 500
"""At most so many frames are copied on the loop."""

PASSIVE: Final = "pragma wal_checkpoint(passive)"


class Checkpoints:
    """Watches how much is written and makes checkpoints. ``look`` runs a statement on the connection that writes."""

    def __init__(self, file: Path, look: Callable[[Callable[[sqlite3.Connection], object]], object]) -> None:
        self._file = file
        self._look = look
        self._changes = 0
        self._done = 0
        self._timer: asyncio.TimerHandle | None = None
        self._running: asyncio.Task[None] | None = None

    def committed(self, changes: int) -> None:
        """Hears after each commit how many rows its connection has changed in all."""
        if changes < self._changes:  # the connection was opened anew
            self._done = 0
        self._changes = changes
        if changes - self._done >= CHANGES and self._timer is None and self._running is None:
            self._timer = asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._start)

    async def close(self) -> None:
        """Waits for a checkpoint under way. The last connection to close makes the last one."""
        if self._timer is not None:
            self._timer.cancel()
        if self._running is not None:
            await self._running

    def _start(self) -> None:
        self._timer = None
        self._running = asyncio.get_running_loop().create_task(self._checkpoint())

    async def _checkpoint(self) -> None:
        try:
            self._done = self._changes
            frames, copied = await asyncio.to_thread(self._copy)
            if frames >= LONG_FRAMES and frames - copied <= LEFT_FRAMES:
                self._look(lambda connection: connection.execute(PASSIVE).fetchall())
        except (sqlite3.Error, StoreUnavailable) as error:
            log.warning("No checkpoint was made, another try follows: %s", unavailable(error) or error)
        finally:
            self._running = None

    def _copy(self) -> tuple[int, int]:
        """Copies what it can without waiting for anybody: the log's length and how much of it is copied, in frames."""
        connection = connect_checkpointer(self._file)
        try:
            connection.execute(PASSIVE).fetchall()
            _, frames, copied = connection.execute(PASSIVE).fetchone()  # what came during the first
        finally:
            connection.close()
        return frames, copied
