"""What becomes of a step whose attempt failed: the failure table, and the time of the next attempt."""

from __future__ import annotations

from typing import Literal, TypeAlias

from stepd.engine.definition import CompiledStep

Verdict: TypeAlias = Literal["again", "requeue", "failed", "uncertain"]
Row: TypeAlias = Literal["again", "exhausted", "fatal", "unservable"]
Column: TypeAlias = Literal["none", "idempotent_unknown", "other_unknown", "idempotent_applied", "other_applied"]

RETRY_AFTER_MAX_MS = 120_000
INTERRUPTIONS_MAX = 20
"""The interruption, in a row, that counts as ``retryable``."""

_SEVERITY = {"none": 0, "unknown": 1, "applied": 2}

VERDICTS: dict[Row, dict[Column, Verdict]] = {
    "again": {
        "none": "again",
        "idempotent_unknown": "again",
        "other_unknown": "uncertain",
        "idempotent_applied": "again",
        "other_applied": "uncertain",
    },
    "exhausted": {
        "none": "failed",
        "idempotent_unknown": "uncertain",
        "other_unknown": "uncertain",
        "idempotent_applied": "uncertain",
        "other_applied": "uncertain",
    },
    "fatal": {
        "none": "failed",
        "idempotent_unknown": "uncertain",
        "other_unknown": "uncertain",
        "idempotent_applied": "uncertain",
        "other_applied": "uncertain",
    },
    "unservable": {
        "none": "requeue",
        "idempotent_unknown": "requeue",
        "other_unknown": "requeue",
        "idempotent_applied": "requeue",
        "other_applied": "requeue",
    },
}


def worst(one: str, other: str) -> str:
    """The more doubtful of two effects: ``applied`` > ``unknown`` > ``none``."""
    return one if _SEVERITY[one] >= _SEVERITY[other] else other


def is_write(compiled: CompiledStep) -> bool:
    """Whether the step's body changes the world outside."""
    return compiled.effect in ("idempotent_write", "non_idempotent_write")


def column(compiled: CompiledStep, effect: str) -> Column:
    """The column of the failure table for a step whose worst effect is ``effect``.

    A read's effect is always ``none``; under ``at_most_once`` every write is judged as a non-idempotent one.
    """
    if effect == "none" or not is_write(compiled):
        return "none"
    idempotent = compiled.effect == "idempotent_write" and not compiled.start_required
    if effect == "unknown":
        return "idempotent_unknown" if idempotent else "other_unknown"
    return "idempotent_applied" if idempotent else "other_applied"


def judge(row: Row, compiled: CompiledStep, effect: str) -> Verdict:
    """The cell of the failure table."""
    return VERDICTS[row][column(compiled, effect)]


def backoff_ms(compiled: CompiledStep, failures: int, jitter: int) -> int:
    """The wait (ms) after the ``failures``-th failure (from 1): exponential, capped, times jitter, capped again.

    ``jitter`` is in thousandths, 800 to 1200. Computed without overflow for any number of failures.
    """
    wait, cap = min(compiled.initial_ms, compiled.max_ms), compiled.max_ms
    if compiled.factor > 1 and wait > 0:
        for _ in range(failures - 1):
            wait = int(wait * compiled.factor) or 1
            if wait >= cap:
                break
    elif compiled.factor < 1:
        for _ in range(failures - 1):
            wait = int(wait * compiled.factor)
            if wait == 0:
                break
    return min(min(wait, cap) * jitter // 1000, cap)


def retry_after_ms(delay_ms: int | None, at: int | None, now: int) -> int:
    """What the worker asked to wait, as ms from now: 0 where it asked nothing usable, at most 120 s."""
    if delay_ms is None and at is not None:
        delay_ms = at - now
    if delay_ms is None or delay_ms < 0:
        return 0
    return min(delay_ms, RETRY_AFTER_MAX_MS)
