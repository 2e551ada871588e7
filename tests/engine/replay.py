"""Replays a journal: what the events alone say of an execution and its steps."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from stepd.engine.model import Event

_STEP_TYPES = {
    "step.queued": "queued",
    "wait.armed": "waiting",
    "step.skipped": "skipped",
    "step.succeeded": "succeeded",
    "step.caught": "succeeded",
    "step.failed": "failed",
    "step.retry_scheduled": "retry_wait",
    "step.uncertain": "uncertain",
    "step.cancelled": "cancelled",
    "attempt.started": "running",
}
_EXECUTION_TYPES = {
    "execution.paused": "paused",
    "execution.cancelling": "cancelling",
    "execution.failing": "failing",
    "execution.completed": "completed",
    "execution.failed": "failed",
    "execution.cancelled": "cancelled",
    "execution.reconciliation_required": "reconciliation_required",
}


def replay(events: Iterable[Event], steps: Iterable[str]) -> tuple[str, dict[str, str]]:
    """The execution's status (``going`` for queued, running, waiting and scheduled), and each step's."""
    status, statuses = "going", dict.fromkeys(steps, "pending")
    for event in events:
        if event.type in _EXECUTION_TYPES:
            status = _EXECUTION_TYPES[event.type]
        elif event.type == "execution.unpaused":
            status = "going"
        elif event.type in _STEP_TYPES:
            statuses[_step(event)] = _STEP_TYPES[event.type]
        elif event.type == "attempt.leased":
            statuses[_step(event)] = msgspec.json.decode(event.data)["status"]
        elif event.type == "execution.resolved":
            status = "going"
            for one in msgspec.json.decode(event.data).get("anew", []):
                statuses[one["step"]] = "pending"
        elif event.type == "step.held" and statuses[_step(event)] in ("leased", "running", "uncertain", "failed"):
            statuses[_step(event)] = "queued"
    return status, statuses


def _step(event: Event) -> str:
    assert event.step is not None
    return event.step
