"""What evaluating takes in one decision, so that no definition holds the daemon: the rest has its turn later."""

from __future__ import annotations

from stepd.engine.cel_bounds import WORK_MAX, Allowance

EFFORT_UNITS = WORK_MAX // 2
"""About 0.1 s of evaluating."""
EFFORT_BYTES = 4 * 1024 * 1024


class Effort:
    """Units of work, bytes of inputs and outputs, and items made."""

    def __init__(self, items_at_once: int) -> None:
        self.units = self.bytes = self.items = 0
        self._items_at_once = items_at_once

    def took(self, allowance: Allowance, stored: bytes = b"") -> None:
        """Something was evaluated, and stored."""
        self.units += WORK_MAX - allowance.units_left
        self.bytes += len(stored)

    def took_signal(self) -> None:
        """A kept signal was taken: the decision was begun anew once it was read."""
        self.units += EFFORT_UNITS // 32

    def spent(self) -> bool:
        """Whether other decisions should have their turn before more is evaluated."""
        return self.units > EFFORT_UNITS or self.bytes > EFFORT_BYTES or self.items >= self._items_at_once
