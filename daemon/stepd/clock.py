"""The wall clock behind a seam, so that tests may set the time that decisions see."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time. On SQLite the daemon's clock decides what is due; it is never compared with another machine's."""

    def now(self) -> int:
        """Milliseconds since the epoch, UTC."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        """Milliseconds since the epoch, UTC."""
        return time.time_ns() // 1_000_000
