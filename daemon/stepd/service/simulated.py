"""How a simulation is told: its path, the rules that matched, what was written to the state, and the end."""

from __future__ import annotations

from typing import Any, Final, Literal, cast

import msgspec
from msgspec import UNSET, Raw

from stepd.engine.model import NO_INDEX, Event, Parked, Step, input_name, output_name
from stepd.engine.simulation import Simulation
from stepd.engine.work import StepKey
from stepd.service import views
from stepd.service.attempts import error_info
from stepd.service.lives import Work
from stepd.service.reads import event_view
from stepd.store.base import ExecutionRows
from stepd_protocol.executions import BlockedView, ExecutionView
from stepd_protocol.fields import Payload
from stepd_protocol.names import StepStatus
from stepd_protocol.simulation import AppliedUpdate, MatchedRules, SimulatedStep, SimulationAnswer

SHOWN_BYTES_MAX: Final = 4 * 1024 * 1024
"""Inputs and outputs of steps beyond this sum are left out."""


def answer_of(simulation: Simulation, simulated_ms: int, *, moves: bool) -> SimulationAnswer:
    """The whole answer. ``moves``: it went as far as it could, and was not cut off."""
    view = _view(simulation)
    stopped: Literal["nothing_moves", "bounds"] | None = None
    if not simulation.settled:
        stopped = "nothing_moves" if moves else "bounds"
    return SimulationAnswer(
        workflow=view.workflow,
        version=view.version,
        status=view.status,
        direction=view.direction,
        stopped=stopped,
        simulated_seconds=simulated_ms / 1000,
        error=view.error,
        path=_Path(simulation).steps(),
        rules=[rules for event in simulation.events if (rules := _rules(event)) is not None],
        updates=[AppliedUpdate(path=path, value=Raw(msgspec.json.encode(value))) for path, value in simulation.updates],
        state=view.state,
        revision=view.revision,
        outcome=view.outcome,
        output=view.output,
        standing_writes=view.standing_writes,
        signals_not_taken=view.signals_not_taken,
        ended_at=view.ended_at,
        journal=[event_view(event) for event in simulation.events],
    )


class _Unblocked:
    """Nothing is blocked where no workers are."""

    def blocked(self, row: Step, now_ms: int) -> BlockedView | None:
        return None

    def blocked_work(self, work: Work, since_ms: int, now_ms: int) -> BlockedView | None:
        return None


def _view(simulation: Simulation) -> ExecutionView:
    names = ("input", "state", "output", "outcome")
    payloads = {name: simulation.payloads[name] for name in names if name in simulation.payloads}
    signals = [signal for signal in simulation.signals.values() if signal.taken_by is None]
    rows = ExecutionRows(simulation.execution, [], [], payloads, signals)
    return views.execution_view(views.Shown(rows, simulation.definition, _Unblocked(), simulation.now))


class _Path:
    """The steps that were heard of, as they came to stand."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._shown_bytes = 0

    def steps(self) -> list[SimulatedStep]:
        """In the order of the journal."""
        by_id = self._simulation.definition.by_id
        places: dict[StepKey, None] = {}
        for event in self._simulation.events:
            if event.step is not None:
                places[(by_id[event.step], NO_INDEX if event.index is None else event.index)] = None
        return [self._step(key) for key in places]

    def _step(self, key: StepKey) -> SimulatedStep:
        simulation = self._simulation
        ordinal, index = key
        id_ = simulation.definition.steps[ordinal].id
        row = simulation.steps.get(key)
        if row is None:
            status = cast(StepStatus, simulation.status_of(id_))
            return SimulatedStep(id=id_, index=None, status=status, attempts=0, held=False, caught=False, error=None)
        return SimulatedStep(
            id=id_,
            index=None if index == NO_INDEX else index,
            status=cast(StepStatus, row.status),
            attempts=simulation.begun.get(key, 0),
            held=row.parked == Parked.HELD,
            caught=row.caught,
            error=None if row.error is None else error_info(row.error),
            input=self._payload(input_name(*key)) if row.own_input else UNSET,
            output=self._payload(output_name(*key)),
        )

    def _payload(self, name: str) -> Payload:
        raw = self._simulation.payloads.get(name)
        if raw is None:
            return UNSET
        self._shown_bytes += len(raw)
        return UNSET if self._shown_bytes > SHOWN_BYTES_MAX else Raw(raw)


def _rules(event: Event) -> MatchedRules | None:
    """What a decision's event tells of its rules; the end tells of the outcome's."""
    if event.type not in ("decision.made", "execution.completed"):
        return None
    told: dict[str, Any] = msgspec.json.decode(event.data)
    if told["hit_policy"] is None:
        return None
    return MatchedRules(step=event.step, hit_policy=told["hit_policy"], rule_ids=told["rule_ids"])
