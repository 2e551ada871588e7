"""Owns the count of slots: how many bodies run, and how many more a call that is under way may bring."""

import asyncio


class Slots:
    """`total` places for leases. A lease is held only in a slot, a call asks only for slots that it has reserved."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.busy = 0
        self.reserved = 0
        self._freed = asyncio.Event()

    @property
    def free(self) -> int:
        return self.total - self.busy - self.reserved

    def reserve(self, most: int) -> int:
        """Reserves up to so many free slots for a call; returns how many."""
        count = max(0, min(most, self.free))
        self.reserved += count
        return count

    def release(self, count: int) -> None:
        """Gives back reserved slots that a call did not fill."""
        if count > 0:  # else who waits for a free one would be woken at each step, for nothing
            self.reserved -= count
            self._freed.set()

    def take(self) -> None:
        """A lease takes a reserved slot."""
        self.reserved -= 1
        self.busy += 1

    def leave(self) -> None:
        """A slot is free again."""
        self.busy -= 1
        self._freed.set()

    async def wait_free(self) -> None:
        """Waits until a slot is free."""
        while self.free <= 0:
            self._freed.clear()
            await self._freed.wait()
