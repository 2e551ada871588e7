"""Makes the ids that the daemon gives out: UUIDv7 text that only grows within a process, and span ids."""

from __future__ import annotations

import os
import threading
import time

POOL_BYTES = 4096
"""Random bytes are fetched from the system in bulk: one call for each id would cost more than the id."""
TAIL_BITS = 74
VERSION = 7 << 76
VARIANT = 2 << 62
LOW_BITS = 62
LOW_MASK = (1 << LOW_BITS) - 1
SPAN_MS_MASK = (1 << 40) - 1
"""Of a time that goes into span ids: 34 years, so that nobody takes one for another."""
DAY_MS = 86_400_000
"""So far a clock may be behind that of whoever made an id."""


def new_id() -> str:
    """A UUIDv7 (RFC 9562); later ones are greater as text, also within a millisecond and when the clock steps back."""
    return _sequence.next(time.time_ns() // 1_000_000)


def new_span_id(attempt_id: str) -> str:
    """A span id of W3C Trace Context, 16 hex digits, by which its attempt can be found without an index: 40 bits of the
    time in the attempt's id, then 24 at random.
    """
    return f"{_ms_of(attempt_id) & SPAN_MS_MASK:010x}{_sequence.random(3).hex()}"


def attempts_near(span_id: str, now: int) -> tuple[str, str]:
    """Between which ids, the second excluded, the attempt of this span stands if there is one. ``now`` in ms."""
    latest = now + DAY_MS
    ms = latest - ((latest - int(span_id[:10], 16)) & SPAN_MS_MASK)
    digits = f"{max(0, ms):012x}"
    return f"{digits[:8]}-{digits[8:]}-", f"{digits[:8]}-{digits[8:]}."


class Sequence:
    """UUIDv7 text in growing order: 48 bits of milliseconds, then 74 bits that start at random.

    Within a millisecond they grow by a random distance of up to 2**32, so that no id can be guessed from another.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool = b""
        self._used = 0
        self._ms = 0
        self._tail = 0

    def next(self, now: int) -> str:
        """The next id; ``now`` in ms since the epoch."""
        with self._lock:
            if now > self._ms:
                self._begin(now)
            else:
                self._tail += 1 + int.from_bytes(self._take(4), "big")
                if self._tail >> TAIL_BITS:
                    self._begin(self._ms + 1)
            return text_of(self._ms, self._tail)

    def random(self, count: int) -> bytes:
        """``count`` random bytes, at most ``POOL_BYTES``."""
        with self._lock:
            return self._take(count)

    def _begin(self, ms: int) -> None:
        self._ms, self._tail = ms, int.from_bytes(self._take(9), "big")

    def _take(self, count: int) -> bytes:
        if self._used + count > len(self._pool):
            self._pool, self._used = os.urandom(POOL_BYTES), 0
        self._used += count
        return self._pool[self._used - count : self._used]


def text_of(ms: int, tail: int) -> str:
    """The UUIDv7 with this time (ms since the epoch) and these 74 further bits, as text."""
    digits = f"{(ms << 80) | VERSION | (tail >> LOW_BITS << 64) | VARIANT | (tail & LOW_MASK):032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _ms_of(id_: str) -> int:
    return int(id_[:8] + id_[9:13], 16)


_sequence = Sequence()
