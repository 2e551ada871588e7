"""What a unit of work has in its hands while it runs inside a transaction."""

from __future__ import annotations

import sqlite3

from stepd.clock import Clock
from stepd.engine.work import Changes
from stepd.store.base import Tell
from stepd.store.sqlite.cache import Cache


class Transaction:
    """What a unit works with: the connection inside the transaction, rows known from before, and the store's clock.

    What is to be told after the commit gathers here.
    """

    __slots__ = ("_clock", "cache", "connection", "errands", "executions", "keys", "ready", "timer")

    def __init__(self, connection: sqlite3.Connection, cache: Cache, clock: Clock) -> None:
        self.connection = connection
        self.cache = cache
        self._clock = clock
        self.ready = False
        self.executions: dict[str, tuple[int, str]] = {}
        self.timer: int | None = None
        self.keys = self.errands = False

    def now(self) -> int:
        """The store's clock, ms; read anew by each decision."""
        return self._clock.now()

    def written(self, changes: Changes) -> None:
        """Hears of changes once they are written: for the cache, and for those who wait."""
        self.cache.written(changes)
        self.ready = self.ready or changes.ready
        self.errands = self.errands or changes.errands
        if changes.events:
            self.executions[changes.execution.id] = (changes.execution.seq, changes.execution.status)
        self.wake_at(changes.timer())

    def wake_at(self, time: int | None) -> None:
        """Remembers that the sweeper has something to do at ``time`` (ms)."""
        if time is not None and (self.timer is None or time < self.timer):
            self.timer = time

    def add_to(self, told: Tell) -> None:
        """Adds what this unit has to tell to what its whole batch has."""
        told.ready = told.ready or self.ready
        told.keys = told.keys or self.keys
        told.errands = told.errands or self.errands
        told.executions.update(self.executions)
        if self.timer is not None and (told.timer is None or self.timer < told.timer):
            told.timer = self.timer
