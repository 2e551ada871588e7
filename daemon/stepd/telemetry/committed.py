"""Owns what is counted of a commit: the journal's events, and how the commit itself went."""

from typing import Final

from prometheus_client import Counter

from stepd.engine.model import Event
from stepd.engine.work import Changes
from stepd.store.base import Tell
from stepd.telemetry.metrics import STEP_ENDS, Metrics
from stepd_protocol.names import ENDED_STATUSES

LEASED: Final = "attempt.leased"
REQUEUED: Final = "attempt.requeued"
UNDELIVERED: Final = b'"why":"undelivered"'
SIGNAL: Final = "signal.received"


class Committed:
    """Counts what this daemon's decisions have made true.

    It is told of each commit, and a counter of the library costs as much as looking through one: so it counts by
    itself, and moves the counters when somebody wants to see them.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._counters: dict[str, Counter] = {
            "execution.created": metrics.created,
            "execution.reconciliation_required": metrics.to_reconcile,
            LEASED: metrics.granted,
            "attempt.failed": metrics.attempts_failed,
            "attempt.orphaned": metrics.orphaned,
            "attempt.lost": metrics.lost,
            "attempt.late": metrics.late,
            "step.retry_scheduled": metrics.retries,
            REQUEUED: metrics.undelivered,
            **{f"execution.{status}": metrics.ended.labels(status) for status in ENDED_STATUSES},
            **{f"step.{end}": metrics.steps_ended.labels(end) for end in STEP_ENDS},
        }
        self._counted = dict.fromkeys(self._counters, 0)
        self._by_call, self._by_event = (metrics.signals.labels(by) for by in ("call", "event"))

    def count(self, tell: Tell) -> None:
        """Hears of each commit."""
        metrics, counted = self._metrics, self._counted
        if (batch := tell.batch) is not None:
            metrics.batch_units.observe(batch.units)
            metrics.batch_seconds.observe(batch.seconds)
            metrics.commit_seconds.observe(batch.commit_seconds)
        for changes in tell.written:
            for event in changes.events:
                if event.type == LEASED:
                    self._leased(changes)
                elif event.type == SIGNAL:
                    self._signal(changes)
                elif event.type == REQUEUED and not _is_undelivered(event):
                    continue
                if event.type in counted:
                    counted[event.type] += 1

    def show(self) -> None:
        """Moves the counters to where they have come."""
        for type_, count in self._counted.items():
            if count:
                self._counters[type_].inc(count)
                self._counted[type_] = 0

    def _leased(self, changes: Changes) -> None:
        """A lease is one decision, which makes one attempt."""
        for attempt in changes.attempts.values():
            row = changes.steps.get((attempt.ordinal, attempt.index))
            if row is not None and row.due_at is not None:
                self._metrics.claim_latency.observe(max(0, attempt.leased_at - row.due_at) / 1000)

    def _signal(self, changes: Changes) -> None:
        """The signal that this decision received is the last one; others among the changes are taken by waits."""
        received = changes.signals.get(changes.execution.signals)
        if received is not None:
            (self._by_call if received.source is None else self._by_event).inc()


def _is_undelivered(event: Event) -> bool:
    return UNDELIVERED in event.data
