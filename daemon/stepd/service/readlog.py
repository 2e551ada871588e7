"""Which reads of executions are in the audit log already: one row a principal, execution and hour is enough."""

from __future__ import annotations

HOUR_MS = 3_600_000
REMEMBERED_MAX = 100_000


class ReadLog:
    """The reads of this hour that were written down."""

    def __init__(self) -> None:
        self._hour = 0
        self._written: set[tuple[str, str]] = set()

    def is_new(self, principal: str, execution_id: str, now_ms: int) -> bool:
        """Whether this read is the first of its hour, as far as this process remembers; from now on it isn't."""
        hour = now_ms // HOUR_MS
        if hour != self._hour or len(self._written) >= REMEMBERED_MAX:
            self._hour = hour
            self._written.clear()
        if (principal, execution_id) in self._written:
            return False
        self._written.add((principal, execution_id))
        return True

    def forget(self, principal: str, execution_id: str) -> None:
        """The row could not be written after all."""
        self._written.discard((principal, execution_id))
