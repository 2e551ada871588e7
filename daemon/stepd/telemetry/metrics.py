"""Owns the daemon's figures for Prometheus. None of them names a tenant, worker, key or execution."""

from typing import Final

from prometheus_client import Counter

from stepd.telemetry.figures import Figures, Sizes
from stepd_protocol.names import ENDED_STATUSES
from stepd_protocol.reasons import REASONS

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
LATENCY_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 15, 60, 300, 900, 3600)
BATCH_SECONDS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)
UNITS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)

STEP_ENDS: Final = ("succeeded", "failed", "caught", "skipped", "cancelled", "uncertain")
"""Events of a step that tell its end."""


class Metrics(Figures):
    """The figures of one daemon. Those of the first group are the store's: every daemon on it shows the same."""

    def __init__(self) -> None:
        super().__init__()
        self._of_the_store()
        self._of_the_work()
        self._of_the_daemon()
        self._by_answer: dict[tuple[str, int], Counter] = {}
        self._by_operation: dict[str, Sizes] = {}

    def answered(self, operation: str, status: int, seconds: float) -> None:
        """One request came to its end."""
        counter = self._by_answer.get((operation, status))
        if counter is None:
            counter = self._by_answer[operation, status] = self.requests.labels(operation, str(status))
        counter.inc()
        histogram = self._by_operation.get(operation)
        if histogram is None:
            histogram = self._by_operation[operation] = self.request_seconds.labels(operation)
        histogram.observe(seconds)

    def _of_the_store(self) -> None:
        gauge = self.gauge
        self.executions = gauge("stepd_executions", "Executions by status, up to a million of each.", "status")
        self.queued = gauge("stepd_steps_queued", "Steps that stand claimable, by workflow.", "workflow")
        self.oldest = gauge(
            "stepd_steps_queued_oldest_seconds",
            "How long the oldest claimable step has stood, by workflow.",
            "workflow",
        )
        self.blocked = gauge(
            "stepd_steps_blocked", "Claimable steps that no live worker serves, by workflow.", "workflow"
        )
        self.leases = gauge("stepd_leases_held", "Leases in flight that have not lapsed.")
        self.orphans = gauge("stepd_orphans", "Attempts whose lease has lapsed and that were not taken back yet.")
        self.look_seconds = gauge("stepd_store_look_seconds", "How long the last look at the store for these took.")
        self.look_age = gauge("stepd_store_look_age_seconds", "How long ago that look was; no scrape forces one.")

    def _of_the_work(self) -> None:
        """Counted from what this daemon has committed, after the commit."""
        counter = self.counter
        self.created = counter("stepd_executions_created_total", "Executions that were started, children too.")
        self.ended = counter("stepd_executions_ended_total", "Executions that ended, by how.", "status")
        for status in ENDED_STATUSES:
            self.ended.labels(status)
        self.to_reconcile = counter(
            "stepd_reconciliations_required_total", "Executions that came to need a person's word."
        )
        self.granted = counter("stepd_leases_granted_total", "Leases handed out.")
        self.claim_latency = self.histogram(
            "stepd_claim_latency_seconds", "From when a step was claimable to its lease.", buckets=LATENCY_SECONDS
        ).labels()
        self.undelivered = counter("stepd_leases_undelivered_total", "Leases given back that had reached nobody.")
        self.steps_ended = counter(
            "stepd_steps_ended_total", "Steps that ended, by how; items and rounds count too.", "status"
        )
        for end in STEP_ENDS:
            self.steps_ended.labels(end)
        self.attempts_failed = counter("stepd_attempts_failed_total", "Attempts that failed.")
        self.retries = counter("stepd_retries_total", "Attempts that are made again after a pause.")
        self.orphaned = counter("stepd_attempts_orphaned_total", "Attempts whose lease lapsed after they had begun.")
        self.lost = counter("stepd_attempts_lost_total", "Attempts that were taken back, or forced.")
        self.late = counter("stepd_settlements_late_total", "Outcomes accepted although the lease had lapsed.")
        self.settlements_refused = counter("stepd_settlements_refused_total", "Outcomes refused, by reason.", "reason")
        self.heartbeats_refused = counter("stepd_heartbeats_refused_total", "Heartbeats refused, by reason.", "reason")
        for reason in REASONS:
            self.settlements_refused.labels(reason)
            self.heartbeats_refused.labels(reason)
        self.signals = counter("stepd_signals_received_total", "Signals accepted: by a call, or by an event.", "by")
        for by in ("call", "event"):
            self.signals.labels(by)

    def _of_the_daemon(self) -> None:
        self.requests = self.counter(
            "stepd_http_requests_total",
            "Answers by operation and status; status 0 for a client that left without one.",
            "operation",
            "status",
        )
        self.request_seconds = self.histogram(
            "stepd_http_request_seconds",
            "From the head of a request to the end of its answer; long polls wait on purpose.",
            "operation",
            buckets=SECONDS,
        )
        self.claims = self.gauge("stepd_claims_parked", "Claims that wait for work.")
        self.streams = self.gauge("stepd_streams_open", "Open streams of events.")
        self.views = self.gauge("stepd_views_waiting", "Views that wait for their execution to end.")
        self.workers = self.gauge("stepd_workers_live", "Lives of workers that count as live.")
        self.in_step = self.gauge("stepd_store_in_step", "1 while the store is there and its pulse is moved.")
        self.graces = self.counter("stepd_graces_total", "How often every lease was given its whole time again.")
        self.batch_units = self.histogram(
            "stepd_batch_units", "Units of work that shared a commit.", buckets=UNITS
        ).labels()
        self.batch_seconds = self.histogram(
            "stepd_batch_seconds",
            "From the beginning of a transaction to the end of its commit.",
            buckets=BATCH_SECONDS,
        ).labels()
        self.commit_seconds = self.histogram(
            "stepd_commit_seconds", "Of that, the commit alone: the disk, or the network.", buckets=BATCH_SECONDS
        ).labels()
        self.lag = self.histogram(
            "stepd_event_loop_lag_seconds", "How much later than due the event loop ran something.", buckets=SECONDS
        ).labels()
        self.spans_exported = self.counter("stepd_trace_spans_exported_total", "Spans that the collector has taken.")
        self.spans_failed = self.counter("stepd_trace_spans_failed_total", "Spans that the collector did not take.")
        self.spans_dropped = self.counter(
            "stepd_trace_spans_dropped_total", "Spans given up because too many waited for the collector."
        )
        self.rounds = self.counter("stepd_background_rounds_total", "Rounds of the background loops.", "loop")
        self.failures = self.counter(
            "stepd_background_failures_total", "Rounds that failed, also for want of the store.", "loop"
        )
