"""Owns what the edge asks and tells the daemon behind it: is it in step with its store, how is it doing."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from stepd.engine.commands import Refused
from stepd.http.phase import Phase
from stepd.loops.pulse import Pulse
from stepd.service import workers
from stepd.service.audit import note_refusal
from stepd.service.base import Caller, Daemon, WorkerCall
from stepd.service.lives import Work
from stepd.store.base import Tell
from stepd.telemetry.committed import Committed
from stepd.telemetry.figures import Bounded
from stepd.telemetry.lines import Lines
from stepd.telemetry.metrics import Metrics
from stepd.telemetry.survey import Survey, Surveyor
from stepd_protocol.names import EXECUTION_STATUSES
from stepd_protocol.problems import Problem

if TYPE_CHECKING:
    from stepd.service.otlp import Sent
    from stepd.telemetry.exporting import Exports

WORKFLOWS_MAX = 100
"""So many workflows are named; the steps of all others count as ``other``."""


class Watching:
    """Hears what happens as it happens: counts it, and writes a line where somebody should know."""

    def __init__(self, metrics: Metrics, exports: Exports | None = None) -> None:
        self.metrics = metrics
        self.exports = exports
        self._committed = Committed(metrics)
        self._lines = Lines()

    def committed(self, tell: Tell) -> None:
        """A commit was told."""
        self._committed.count(tell)
        self._lines.committed(tell)
        if self.exports is not None:
            self.exports.committed(tell)

    def show(self) -> None:
        """Brings the figures up to now."""
        self._committed.show()

    def refused(self, call: WorkerCall, lease_id: str, refused: Refused) -> None:
        """A worker's call was refused."""
        of = self.metrics.heartbeats_refused if call == "heartbeat" else self.metrics.settlements_refused
        of.labels(refused.reason).inc()
        self._lines.refused(call, refused)

    def received(self, span: Sent) -> None:
        """A worker exported a span that was not known before."""
        if self.exports is not None:
            self.exports.forward(span)

    def round_over(self, loop: str, well: bool) -> None:
        """A round of a background loop is over."""
        self.metrics.rounds.labels(loop).inc()
        self.metrics.failures.labels(loop).inc(0 if well else 1)
        self._lines.round_over()


class Observing:
    """The hooks of the application, and the daemon's word on its own state."""

    def __init__(self, daemon: Daemon, pulse: Pulse, phase: Phase, watching: Watching) -> None:
        self._daemon = daemon
        self._pulse = pulse
        self._phase = phase
        self._watching = watching
        self._metrics = watching.metrics
        self._surveyor = Surveyor(daemon.store)
        self._workflows = Bounded(WORKFLOWS_MAX)
        self._shown: Survey | None = None
        self._graces = 0

    async def before(self) -> None:
        """Nothing reaches the service while the pulse is stale: leases may have to be given grace first."""
        if self._pulse.is_stale():
            await self._pulse.catch_up()

    async def refused(self, caller: Caller, action: str, path: tuple[str, ...], problem: Problem) -> None:
        """Writes the refused attempt down. Raises StoreUnavailable."""
        await note_refusal(self._daemon, caller, action, path[0] if path else "", None, problem)

    async def undelivered(self, leases: tuple[str, ...]) -> None:
        """Gives leases back that reached nobody."""
        await workers.undelivered(self._daemon, leases)

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Counts an answer."""
        self._metrics.answered(route, status, seconds)

    def not_ready(self) -> str | None:
        """Why no new work should be sent here; None when it may."""
        if self._phase.draining.is_set():
            return "the daemon is stopping"
        if self._pulse.fault is not None or self._pulse.is_stale():
            return "the store is away"
        return None

    async def measure(self) -> bytes:
        """The figures; those of the store stay as they were last known while it is away."""
        survey = await self._surveyor.latest()
        daemon, metrics = self._daemon, self._metrics
        if survey is not None:
            if survey is not self._shown:
                self._show(survey)
            metrics.look_age.set(asyncio.get_running_loop().time() - survey.taken_at)
        self._watching.show()
        metrics.in_step.set(not self._pulse.is_stale())
        metrics.graces.inc(self._pulse.graces - self._graces)
        self._graces = self._pulse.graces
        metrics.claims.set(len(daemon.dispatcher))
        metrics.streams.set(daemon.watch.streams)
        metrics.views.set(len(daemon.watch) - daemon.watch.streams)
        metrics.workers.set(sum(daemon.directory.is_live(life) for life in daemon.directory.lives()))
        return metrics.written()

    def _show(self, survey: Survey) -> None:
        self._shown = survey
        metrics = self._metrics
        for status in EXECUTION_STATUSES:
            metrics.executions.labels(status).set(survey.counts.get(status, 0))
        metrics.leases.set(survey.flight.get("leased", 0) + survey.flight.get("running", 0))
        metrics.orphans.set(survey.flight.get("orphaned", 0))
        metrics.look_seconds.set(survey.seconds)
        self._show_queue(survey)

    def _show_queue(self, survey: Survey) -> None:
        """Sums the queue by workflow; whatever is not named counts as one."""
        queued, blocked, since = Counter[str](), Counter[str](), dict[str, int]()
        works = [Work(line.workflow, line.version, line.step, line.tenant) for line in survey.queue]
        for line, is_served in zip(survey.queue, self._daemon.directory.are_served(works), strict=True):
            name = self._workflows.admit(line.workflow)
            queued[name] += line.count
            since[name] = min(line.oldest_at, since.get(name, line.oldest_at))
            if not is_served:
                blocked[name] += line.count
        for name in self._workflows.values():
            self._metrics.queued.labels(name).set(queued[name])
            self._metrics.blocked.labels(name).set(blocked[name])
            self._metrics.oldest.labels(name).set(max(0, survey.now - since.get(name, survey.now)) / 1000)
