"""Owns the waits between sends of a call that got no answer: Retry-After, or 0.5 s doubled up to 10 s, jittered."""

import math
import random
import time
from collections.abc import Callable
from typing import Final

from stepd_protocol.times import parse_http_date

FIRST_SECONDS: Final = 0.5
LONGEST_SECONDS: Final = 10.0
JITTER: Final = 0.2
RETRY_AFTER_SECONDS_MAX: Final = 120.0
REFUSED_KEY_SECONDS: Final = 10.0
"""What a worker waits between sends while its key is refused (401, 403)."""

_TRY_AGAIN: Final = frozenset({408, 429})


def is_no_answer(status: int) -> bool:
    """Whether an HTTP status says to send the same bytes again: 5xx, 429, or a body that came too slowly."""
    return status >= 500 or status in _TRY_AGAIN


def retry_after_seconds(text: str | None, now: Callable[[], float] = time.time) -> float | None:
    """The header's wait in seconds from 0 to 120; None where it is missing, unreadable, negative or past."""
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        date_ms = parse_http_date(text)
        seconds = math.nan if date_ms is None else date_ms / 1000 - now()
    if math.isnan(seconds) or seconds < 0:
        return None
    return min(seconds, RETRY_AFTER_SECONDS_MAX)


class Backoff:
    """The waits of one call, or of one connection, until it gets an answer."""

    def __init__(self, uniform: Callable[[float, float], float] = random.uniform) -> None:
        self._uniform = uniform
        self._next_seconds = FIRST_SECONDS

    def delay_seconds(self, retry_after: str | None = None) -> float:
        """The wait before the next send: what Retry-After says and up to a fifth more, else the doubled one ± 20 %."""
        asked = retry_after_seconds(retry_after)
        if asked is not None:
            return asked * self._uniform(1, 1 + JITTER)
        base = self._next_seconds
        self._next_seconds = min(base * 2, LONGEST_SECONDS)
        return base * self._uniform(1 - JITTER, 1 + JITTER)

    def reset(self) -> None:
        """Begins with the shortest wait again: an answer came."""
        self._next_seconds = FIRST_SECONDS
