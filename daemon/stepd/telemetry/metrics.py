"""Owns the daemon's figures for Prometheus. None of them names a workflow, tenant, worker or key."""

from collections.abc import Mapping
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import generate_latest

from stepd_protocol.names import EXECUTION_STATUSES

# When a counter began is of no use here, and would double the number of lines.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the library gives it no types

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The figures of one daemon, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._requests = Counter(
            "stepd_http_requests",
            "Answers by operation and status; status 0 for a client that left without one.",
            ("operation", "status"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "stepd_http_request_seconds",
            "Time from the head of a request to the end of its answer; long polls wait on purpose.",
            ("operation",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self._executions = self._gauge("stepd_executions", "Executions in the store, by status.", "status")
        self._steps = self._gauge("stepd_steps_claimable", "Steps that stand claimable.")
        self._waiting = self._gauge("stepd_steps_oldest_seconds", "How long the oldest claimable step has stood.")
        self._leases = self._gauge("stepd_leases", "Leases in flight.")
        self._claims = self._gauge("stepd_claims_parked", "Claims that wait for work.")
        self._followers = self._gauge("stepd_followers", "Calls that wait for an execution to change, with streams.")
        self._workers = self._gauge("stepd_workers_live", "Lives of workers that count as live.")
        self._in_step = self._gauge("stepd_store_in_step", "1 while the store is there and its pulse is moved.")
        self._graces = self._gauge("stepd_graces", "How often every lease was given grace, since the start.")
        self._by_answer: dict[tuple[str, int], Counter] = {}
        self._by_operation: dict[str, Histogram] = {}

    def answered(self, operation: str, status: int, seconds: float) -> None:
        """One request came to its end."""
        counter = self._by_answer.get((operation, status))
        if counter is None:
            counter = self._by_answer[operation, status] = self._requests.labels(operation, str(status))
        counter.inc()
        histogram = self._by_operation.get(operation)
        if histogram is None:
            histogram = self._by_operation[operation] = self._seconds.labels(operation)
        histogram.observe(seconds)

    def set_executions(self, counts: Mapping[str, int]) -> None:
        """Executions by status."""
        for status in EXECUTION_STATUSES:
            self._executions.labels(status).set(counts.get(status, 0))

    def set_queue(self, count: int, oldest_seconds: float) -> None:
        """Claimable steps, and how long the oldest has stood."""
        self._steps.set(count)
        self._waiting.set(oldest_seconds)

    def set_calls(self, *, leases: int, claims: int, followers: int, workers: int) -> None:
        """Who is there, and what they hold or wait for."""
        self._leases.set(leases)
        self._claims.set(claims)
        self._followers.set(followers)
        self._workers.set(workers)

    def set_store(self, *, in_step: bool, graces: int) -> None:
        """How the store is."""
        self._in_step.set(in_step)
        self._graces.set(graces)

    def written(self) -> bytes:
        """All figures in Prometheus' text format."""
        return generate_latest(self.registry)

    def _gauge(self, name: str, about: str, *labels: str) -> Gauge:
        return Gauge(name, about, labels, registry=self.registry)
