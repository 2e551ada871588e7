"""What is to be told after a commit, gathered while its transaction runs."""

from __future__ import annotations

from stepd.engine.work import Changes
from stepd.store.base import Tell


class News:
    """What one unit of work has to tell, should it be committed."""

    __slots__ = ("changes", "errands", "executions", "keys", "prices", "ready", "timer")

    def __init__(self) -> None:
        self.ready = False
        self.executions: dict[str, tuple[int, str]] = {}
        self.timer: int | None = None
        self.keys = self.errands = self.prices = False
        self.changes: list[Changes] = []

    def written(self, changes: Changes) -> None:
        """Hears of changes once they are written."""
        self.ready = self.ready or changes.ready
        self.errands = self.errands or changes.errands
        if changes.events:
            self.executions[changes.execution.id] = (changes.execution.seq, changes.execution.status)
        self.changes.append(changes)
        self.wake_at(changes.timer())

    def wake_at(self, time: int | None) -> None:
        """Remembers that the sweeper has something to do at ``time`` (ms)."""
        if time is not None and (self.timer is None or time < self.timer):
            self.timer = time

    def add_to(self, told: Tell) -> None:
        """Adds what this unit has to tell to what its whole batch has."""
        told.ready = told.ready or self.ready
        told.keys = told.keys or self.keys
        told.prices = told.prices or self.prices
        told.errands = told.errands or self.errands
        told.executions.update(self.executions)
        told.written += self.changes
        if self.timer is not None and (told.timer is None or self.timer < told.timer):
            told.timer = self.timer
