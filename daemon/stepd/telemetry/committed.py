"""Owns what is counted of a commit: the journal's events, and how the commit itself went."""

from collections.abc import Callable
from typing import Final, TypeAlias

from stepd.engine.model import Event, Signal
from stepd.engine.work import Changes
from stepd.store.base import Tell
from stepd.telemetry.metrics import STEP_ENDS, Metrics
from stepd_protocol.names import ENDED_STATUSES

Count: TypeAlias = Callable[[Changes, Event], None]

UNDELIVERED: Final = b'"why":"undelivered"'


class Committed:
    """Counts what this daemon's decisions have made true. A commit without such costs a look."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._counts: dict[str, Count] = {
            "execution.created": _one(metrics.created.inc),
            "execution.reconciliation_required": _one(metrics.to_reconcile.inc),
            "attempt.leased": self._leased,
            "attempt.failed": _one(metrics.attempts_failed.inc),
            "attempt.orphaned": _one(metrics.orphaned.inc),
            "attempt.lost": _one(metrics.lost.inc),
            "attempt.late": _one(metrics.late.inc),
            "attempt.requeued": self._requeued,
            "step.retry_scheduled": _one(metrics.retries.inc),
            "signal.received": self._signal,
        }
        self._counts |= {f"execution.{one}": _one(metrics.ended.labels(one).inc) for one in ENDED_STATUSES}
        self._counts |= {f"step.{one}": _one(metrics.steps_ended.labels(one).inc) for one in STEP_ENDS}
        self._by_call, self._by_event = (metrics.signals.labels(by) for by in ("call", "event"))

    def count(self, tell: Tell) -> None:
        """Hears of each commit."""
        if (batch := tell.batch) is not None:
            self._metrics.batch_units.observe(batch.units)
            self._metrics.batch_seconds.observe(batch.seconds)
            self._metrics.commit_seconds.observe(batch.commit_seconds)
        counts = self._counts
        for changes in tell.written:
            for event in changes.events:
                count = counts.get(event.type)
                if count is not None:
                    count(changes, event)

    def _leased(self, changes: Changes, _event: Event) -> None:
        """A lease is one decision, which makes one attempt."""
        self._metrics.granted.inc()
        for attempt in changes.attempts.values():
            row = changes.steps.get((attempt.ordinal, attempt.index))
            if row is not None and row.due_at is not None:
                self._metrics.claim_latency.observe(max(0, attempt.leased_at - row.due_at) / 1000)

    def _requeued(self, _changes: Changes, event: Event) -> None:
        if UNDELIVERED in event.data:
            self._metrics.undelivered.inc()

    def _signal(self, changes: Changes, _event: Event) -> None:
        for signal in changes.signals.values():
            if _is_new(signal, changes):
                (self._by_call if signal.source is None else self._by_event).inc()


def _one(inc: Callable[[], None]) -> Count:
    return lambda _changes, _event: inc()


def _is_new(signal: Signal, changes: Changes) -> bool:
    """The signal that this decision received is the last one; others among the changes are taken by waits."""
    return signal.number == changes.execution.signals
