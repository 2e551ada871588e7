"""Owns what an operator reads of the work itself: a line for what should not happen, each once, and not too many."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Final

from stepd.engine.commands import Refused
from stepd.engine.model import NO_INDEX, Attempt, Event
from stepd.engine.work import Changes
from stepd.service.traces import trace_id
from stepd.store.base import Tell
from stepd.telemetry.logs import ABOUT

TOLD: Final[dict[str, tuple[int, str]]] = {
    "attempt.orphaned": (logging.WARNING, "a lease lapsed: its worker was not heard of in time"),
    "attempt.lost": (logging.WARNING, "an attempt was taken back from its worker"),
    "attempt.late": (logging.INFO, "an outcome came after its lease had lapsed, and was accepted"),
    "attempt.stale_outcome": (logging.WARNING, "an outcome came too late; it is kept for an operator to look at"),
    "step.uncertain": (logging.WARNING, "nobody knows whether a write happened"),
    "execution.reconciliation_required": (logging.WARNING, "an execution waits for a person to say what happened"),
}
"""The events that are told, by the commit that wrote them; their names and texts have nothing of what users pass in."""
AT_ONCE: Final = 20
"""So many lines alike within ``WINDOW_SECONDS``; the others are counted, and their number is told."""
WINDOW_SECONDS: Final = 60.0

_log = logging.getLogger("stepd.work")


class Lines:
    """Writes the lines. ``clock``: seconds that only grow."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._paces: dict[str, _Pace] = {}

    def committed(self, tell: Tell) -> None:
        """Hears of each commit."""
        for changes in tell.written:
            for event in changes.events:
                if event.type in TOLD:
                    level, text = TOLD[event.type]
                    self._write(level, text, _about_event(changes, event))

    def refused(self, call: str, refused: Refused) -> None:
        """A worker's call was refused. A heartbeat's is no more than a word to the worker."""
        level = logging.DEBUG if call == "heartbeat" else logging.WARNING
        self._write(level, f"a {call} was refused: {refused.reason}", _about_refused(refused))

    def round_over(self) -> None:
        """Tells how many lines were left out, once their time has passed. Called about every second."""
        now = self._clock()
        for text, pace in list(self._paces.items()):
            if now - pace.began >= WINDOW_SECONDS:
                del self._paces[text]
                if pace.left_out:
                    _log.log(pace.level, "%d more of these were left out: %s", pace.left_out, text)

    def _write(self, level: int, text: str, about: dict[str, Any]) -> None:
        if not _log.isEnabledFor(level):
            return
        pace = self._paces.get(text)
        if pace is None:
            pace = self._paces[text] = _Pace(level, self._clock())
        if pace.take():
            _log.log(level, text, extra={ABOUT: about})


class _Pace:
    """How many lines alike were written since one began."""

    __slots__ = ("_written", "began", "left_out", "level")

    def __init__(self, level: int, began: float) -> None:
        self.level = level
        self.began = began
        self.left_out = 0
        self._written = 0

    def take(self) -> bool:
        """Whether one more may be written."""
        if self._written < AT_ONCE:
            self._written += 1
            return True
        self.left_out += 1
        return False


def _about_event(changes: Changes, event: Event) -> dict[str, Any]:
    execution = changes.execution
    about: dict[str, Any] = {
        "execution": execution.id,
        "workflow": execution.workflow,
        "step": event.step,
        "index": _index(event.index),
        "attempt": event.attempt,
        "worker": event.worker,
        "trace_id": trace_id(execution.id, execution.traceparent),
    }
    if event.step is not None and len(changes.attempts) == 1:
        (attempt,) = changes.attempts.values()
        about["span_id"] = attempt.span_id
    return about


def _about_refused(refused: Refused) -> dict[str, Any]:
    attempt: Attempt | None = refused.attempt
    return {
        "execution": refused.execution_id,
        "step": refused.step,
        "index": None if attempt is None else _index(attempt.index),
        "attempt": None if attempt is None else attempt.number,
        "worker": None if attempt is None else attempt.worker,
        "trace_id": trace_id(refused.execution_id, refused.traceparent),
        "span_id": None if attempt is None else attempt.span_id,
    }


def _index(index: int | None) -> int | None:
    return None if index == NO_INDEX else index
