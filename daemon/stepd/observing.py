"""Owns what the edge asks and tells the daemon behind it: is it in step with its store, how is it doing."""

import asyncio

from stepd.http.phase import Phase
from stepd.loops.pulse import Pulse
from stepd.service import workers
from stepd.service.audit import note_refusal
from stepd.service.base import Caller, Daemon
from stepd.store.base import Scope, StoreUnavailable
from stepd.telemetry.metrics import Metrics
from stepd_protocol.problems import Problem

ALL = Scope()


class Observing:
    """The hooks of the application, and the daemon's word on its own state."""

    def __init__(self, daemon: Daemon, pulse: Pulse, phase: Phase) -> None:
        self._daemon = daemon
        self._pulse = pulse
        self._phase = phase
        self._metrics = Metrics()

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
        daemon, metrics = self._daemon, self._metrics
        metrics.set_store(in_step=not self._pulse.is_stale(), graces=self._pulse.graces)
        try:
            counts, queue, held, now = await asyncio.gather(
                daemon.store.counts(), daemon.store.queue(ALL), daemon.store.held_leases(), daemon.store.now()
            )
        except StoreUnavailable:
            return metrics.written()
        oldest = min((line.oldest_at for line in queue), default=now)
        metrics.set_executions(counts)
        metrics.set_queue(sum(line.count for line in queue), (now - oldest) / 1000)
        metrics.set_calls(
            leases=sum(held.values()),
            claims=len(daemon.dispatcher),
            followers=len(daemon.watch),
            workers=sum(daemon.directory.is_live(life) for life in daemon.directory.lives()),
        )
        return metrics.written()
