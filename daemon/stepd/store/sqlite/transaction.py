"""What a unit of work has in its hands while it runs inside a transaction."""

from __future__ import annotations

import sqlite3

from stepd.clock import Clock
from stepd.engine.work import Changes
from stepd.store.sqlite.cache import Cache
from stepd.store.telling import News


class Transaction(News):
    """What a unit works with: the connection inside the transaction, rows known from before, and the store's clock.

    What is to be told after the commit gathers here.
    """

    __slots__ = ("_clock", "cache", "connection")

    def __init__(self, connection: sqlite3.Connection, cache: Cache, clock: Clock) -> None:
        super().__init__()
        self.connection = connection
        self.cache = cache
        self._clock = clock

    def now(self) -> int:
        """The store's clock, ms; read anew by each decision."""
        return self._clock.now()

    def written(self, changes: Changes) -> None:
        """Hears of changes once they are written: for the cache, and for those who wait."""
        self.cache.written(changes)
        super().written(changes)
