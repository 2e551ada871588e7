"""The rows of open executions as they stand in the database, so that a decision needn't read what was just written.

Reading a row costs more than deciding on it. Rows are kept here when they are read or written inside a transaction, and
all of them are dropped when a transaction is undone, when somebody else has written to the file, and when a statement
changes rows past this cache. A row here is never changed: who wants to change one makes a copy.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from typing import Final

from stepd.engine.model import ENDED, Attempt, Execution, Step
from stepd.engine.work import Changes, StepKey

EXECUTIONS: Final = 1_000
"""The bounds keep it below some 40 MB, whatever executions are like; ordinary ones take a tenth."""
STEPS: Final = 32
ATTEMPTS: Final = 32
PAYLOAD_BYTES: Final = 8_192

DATA_VERSION: Final = "pragma data_version"


class Entry:
    """What is known of one execution. A row that isn't here may still be in the database."""

    __slots__ = ("attempts", "execution", "payload_bytes", "payloads", "steps", "whole")

    def __init__(self, execution: Execution) -> None:
        self.execution = execution
        self.steps: dict[StepKey, Step] = {}
        self.whole = False
        """Every step's own row is here; those of items need not be."""
        self.attempts: dict[str, Attempt] = {}
        self.payloads: dict[str, bytes] = {}
        self.payload_bytes = 0

    def keep_steps(self, steps: dict[StepKey, Step]) -> None:
        """Keeps step rows."""
        self.steps.update(steps)
        if len(self.steps) > STEPS:
            self.forget_steps()

    def forget_steps(self) -> None:
        """Drops the step rows."""
        self.steps.clear()
        self.whole = False

    def keep_payload(self, name: str, body: bytes) -> None:
        """Keeps a payload, where it is small."""
        self.payload_bytes += len(body)
        if self.payload_bytes <= PAYLOAD_BYTES:
            self.payloads[name] = body
        else:
            self.payloads.clear()
            self.payload_bytes = 0


class Cache:
    """The entries of the executions that were used last."""

    def __init__(self) -> None:
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._owners: dict[str, str] = {}
        """Execution by attempt."""
        self._data_version = -1

    def clear(self) -> None:
        """Drops everything."""
        self._entries.clear()
        self._owners.clear()

    def refresh(self, connection: sqlite3.Connection) -> None:
        """At the begin of a transaction: drops everything if another connection has written since the last one."""
        (version,) = connection.execute(DATA_VERSION).fetchone()
        if version != self._data_version:
            self._data_version = version
            self.clear()

    def get(self, execution_id: str) -> Entry | None:
        """The entry of an execution."""
        entry = self._entries.get(execution_id)
        if entry is not None:
            self._entries.move_to_end(execution_id)
        return entry

    def attempt(self, attempt_id: str) -> Attempt | None:
        """An attempt's row."""
        entry = self._entries.get(self._owners.get(attempt_id, ""))
        return None if entry is None else entry.attempts.get(attempt_id)

    def add(self, execution: Execution) -> Entry:
        """A new entry, in the place of the one that was not used for longest where there are too many."""
        entry = self._entries[execution.id] = Entry(execution)
        if len(self._entries) > EXECUTIONS:
            self._let_go(next(iter(self._entries)))
        return entry

    def keep_attempt(self, entry: Entry, attempt: Attempt) -> None:
        """Keeps an attempt's row while it is in flight."""
        if attempt.next_at is not None and len(entry.attempts) < ATTEMPTS:
            entry.attempts[attempt.id] = attempt
            self._owners[attempt.id] = attempt.execution_id
        elif entry.attempts.pop(attempt.id, None) is not None:
            del self._owners[attempt.id]

    def written(self, changes: Changes) -> None:
        """Takes over what a decision has just written."""
        id_ = changes.execution.id
        entry = self._entries.get(id_)
        if changes.execution.status in ENDED:
            self.forget(id_)
            return
        if entry is None:
            entry = self.add(changes.execution)
            entry.whole = changes.created
        entry.execution = changes.execution
        if changes.bulk:
            entry.forget_steps()
        entry.keep_steps(changes.steps)
        for attempt in changes.attempts.values():
            self.keep_attempt(entry, attempt)
        for name, body in changes.payloads.items():
            entry.keep_payload(name, body)

    def forget(self, execution_id: str) -> None:
        """Drops what is known of an execution, if anything is."""
        if execution_id in self._entries:
            self._let_go(execution_id)

    def _let_go(self, execution_id: str) -> None:
        entry = self._entries.pop(execution_id)
        for attempt_id in entry.attempts:
            del self._owners[attempt_id]
