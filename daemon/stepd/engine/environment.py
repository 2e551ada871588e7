"""What an expression of an execution may see, read from its rows and payloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepd.engine.canonical import decode
from stepd.engine.model import NO_INDEX, Step, checkpoint_of, item_name, output_name
from stepd.engine.work import Work
from stepd_protocol.times import format_time

KEPT = frozenset({"input", "state"})
"""What an execution has by itself; the others are an item's or a round's."""


class CheckpointMismatch(Exception):
    """A stored output was not made for the step as it stands; ``step`` is its id."""

    def __init__(self, step: str) -> None:
        super().__init__(f"the stored output of step {step} does not belong to the step as it stands")
        self.step = step


class Environment:
    """Values by name, decoded once a decision. Its reads raise Missing where the store has to load first."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._roots: dict[str, Any] = {}
        self._outputs: dict[str, Any] = {}

    @property
    def execution(self) -> Mapping[str, Any]:
        """The execution's id, correlation and time of creation."""
        row = self._work.execution
        return {"id": row.id, "correlation": row.correlation, "created_at": format_time(row.created_at)}

    def root(self, name: str) -> Any:
        """``input``, ``state``, ``item``, ``index`` or ``last``; the last three are null where no item or round is."""
        if name not in self._roots:
            raw = self._work.payload(name) if name in KEPT else None
            self._roots[name] = None if raw is None else decode(raw)
        return self._roots[name]

    def output(self, step: str) -> Any:
        """The step's output; None unless it succeeded. Raises CheckpointMismatch."""
        if step not in self._outputs:
            self._outputs[step] = self._read_output(step)
        return self._outputs[step]

    def status(self, step: str) -> str:
        """The step's status."""
        return self._work.step_status(step)

    def _read_output(self, step: str) -> Any:
        if self.status(step) != "succeeded":
            return None
        ordinal = self._work.definition.by_id[step]
        row = self._work.step(ordinal)
        raw = self._work.payload(output_name(ordinal, NO_INDEX))
        effect = self._work.definition.steps[ordinal].effect or ""
        if row is None or raw is None or row.checkpoint != checkpoint_of(row.input_hash, row.idempotency_key, effect):
            raise CheckpointMismatch(step)
        return decode(raw)


class Inner(Environment):
    """An environment with values of its own: an item, its index, the last round's output."""

    def __init__(
        self, work: Work, outer: Environment, values: Mapping[str, Any], payloads: Mapping[str, str] | None = None
    ) -> None:
        """``payloads`` names those that stand for other roots, read when they are asked for."""
        super().__init__(work)
        self._outer = outer
        self._roots = dict(values)
        self._names = payloads or {}

    def root(self, name: str) -> Any:
        """As its own values have it, else as the outer one has it."""
        if name in self._names and name not in self._roots:
            raw = self._work.payload(self._names[name])
            self._roots[name] = None if raw is None else decode(raw)
        return self._roots[name] if name in self._roots else self._outer.root(name)

    def output(self, step: str) -> Any:
        """The step's output; None unless it succeeded. Raises CheckpointMismatch."""
        return self._outer.output(step)


def environment_of(work: Work, row: Step) -> Environment:
    """What an expression sees that is evaluated for this row later on: of an item or a round, with its index."""
    outer = Environment(work)
    if row.index == NO_INDEX:
        return outer
    return Inner(work, outer, {"index": row.index}, {"item": item_name(row.ordinal, row.index)})
