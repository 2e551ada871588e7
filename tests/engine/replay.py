"""Replays a journal: what the events alone say of an execution, its steps and their items."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

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
_OPEN = ("running", "leased", "queued", "retry_wait", "waiting", "pending")


class Replayed:
    """What a journal tells so far. The execution's status is ``going`` for queued, running, waiting and scheduled."""

    def __init__(self, events: Iterable[Event], steps: Iterable[str]) -> None:
        self.status = "going"
        self._steps = dict.fromkeys(steps, "pending")
        self.items: dict[str, dict[int, str]] = {}
        """Statuses of items by step and index; an item that nothing was told of is pending."""
        self.cancelled: set[str] = set()
        """Steps whose items that had not ended were cancelled."""
        for event in events:
            self._take(event)

    @property
    def steps(self) -> dict[str, str]:
        """Each step's status: what it was told to be, or what its items make of it."""
        return {step: self._with_items(step, status) for step, status in self._steps.items()}

    def _with_items(self, step: str, status: str) -> str:
        if step not in self.items or status not in _OPEN:
            return status
        found = self.items[step].values()
        return next((one for one in _OPEN[:-1] if one in found), "queued")

    def _take(self, event: Event) -> None:
        if event.type in _EXECUTION_TYPES:
            self.status = _EXECUTION_TYPES[event.type]
        elif event.type == "execution.unpaused":
            self.status = "going"
        elif event.type == "execution.resolved":
            self.status = "going"
            for one in msgspec.json.decode(event.data).get("anew", []):
                if one["index"] is None or one["step"] not in self.items:
                    self._steps[one["step"]] = "pending"
                    self.items.pop(one["step"], None)
                else:
                    self.items[one["step"]][one["index"]] = "pending"
        elif event.step is not None:
            self._take_step(event, event.step)

    def _take_step(self, event: Event, step: str) -> None:
        data: dict[str, Any] = msgspec.json.decode(event.data)
        if event.index is None and "items" in data:
            self.items.setdefault(step, {})
            if event.type == "step.cancelled":
                self._cancel_items(step)
        # What undoes the items of a step has none of its own: it stands as the one does that was called last.
        is_item = event.index is not None and step in self.items
        statuses: dict[Any, str] = self.items[step] if is_item else self._steps
        key = event.index if is_item else step
        if event.type == "step.cancelled" and statuses[key] not in _OPEN:
            return
        if event.type in _STEP_TYPES:
            statuses[key] = _STEP_TYPES[event.type]
        elif event.type == "attempt.leased" or (event.type == "step.held" and "status" in data):
            statuses[key] = data["status"]
        elif event.type == "step.held" and statuses[key] in ("leased", "running", "uncertain", "failed"):
            statuses[key] = "queued"

    def _cancel_items(self, step: str) -> None:
        self.cancelled.add(step)
        items = self.items[step]
        items.update({index: "cancelled" for index, status in items.items() if status in _OPEN})
