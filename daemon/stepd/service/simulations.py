"""Simulations: a definition run on given outcomes. Nothing is stored, and nobody is called."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import Any, Final

from msgspec import UNSET, UnsetType

from stepd.engine import canonical
from stepd.engine.commands import Actor, Conflict, InvalidInput, Signal, Start
from stepd.engine.definition import Compiled
from stepd.engine.simulation import LOST, NOTHING, PRINCIPAL, Failure, Outcome, Outcomes, Simulation
from stepd.ids import new_id
from stepd.service.answers import no_workflow, reply, too_large
from stepd.service.base import Answer, Caller, Daemon, Reply
from stepd.service.decoding import BodyDecoder, invalid_request, pointer, summary
from stepd.service.simulated import answer_of
from stepd_protocol.fields import Payload
from stepd_protocol.names import DAEMON_CLASSES
from stepd_protocol.problems import FieldFault, Problem, make_problem
from stepd_protocol.simulation import OneOutcome, SimulatedFailure, SimulatedStepOutcomes, SimulateRequest

SECONDS_MAX: Final = 1.0
"""Of computing. One runs at a time: others wait for their turn."""
SIMULATED_KINDS: Final = frozenset({"task", "workflow"})


async def simulate(daemon: Daemon, caller: Caller, name: str, body: bytes) -> Answer:
    """What the workflow would do: 200, however it ends. 404, 413 or 422 where it could not begin."""
    request = _SIMULATE.decode(body or b"{}")
    if isinstance(request, Problem):
        return request
    definition = await _definition(daemon, caller, name, request.version)
    if definition is None:
        return no_workflow(name, request.version)
    refusal = _refusal(daemon, definition, request)
    if refusal is not None:
        return refusal
    outcomes = {step: _outcomes(given) for step, given in request.steps.items()}
    simulation = Simulation(definition, daemon.store.settings, await daemon.store.now(), outcomes)
    refused = _begin(simulation, request)
    if refused is not None:
        return refused
    async with daemon.simulating:
        return await asyncio.to_thread(_run, simulation)


async def _definition(daemon: Daemon, caller: Caller, name: str, version: str | None) -> Compiled | None:
    if version is None:
        found = await daemon.store.workflows(name, caller.sees())
        if not found:
            return None
        version = found[0].current
    return await daemon.store.definition(name, version)


def _refusal(daemon: Daemon, definition: Compiled, request: SimulateRequest) -> Problem | None:
    """Why it can't begin: a step that isn't there or is given no outcome, or what is too large."""
    faults = [fault for step in request.steps for fault in _step_faults(definition, step)]
    if faults:
        return invalid_request(faults)
    limits = daemon.settings.limits
    given = [("input", request.input, limits.input_bytes), ("state", request.state, limits.state_bytes)]
    for path, raw, limit in given:
        if not isinstance(raw, UnsetType) and len(bytes(raw)) > limit:
            return too_large(f"/{path}", path, len(bytes(raw)), limit)
    return None


def _step_faults(definition: Compiled, step: str) -> Iterator[FieldFault]:
    path = pointer("/steps", step)
    ordinal = definition.by_id.get(step)
    if ordinal is None:
        yield FieldFault(path=path, message="there is no such step")
    elif (kind := definition.steps[ordinal].kind) not in SIMULATED_KINDS:
        yield FieldFault(path=path, message=f"it is a {kind}, and only a task or a workflow step is given an outcome")


def _begin(simulation: Simulation, request: SimulateRequest) -> Problem | None:
    """Starts it and sends its signals; the problem where either is refused."""
    input_, state = _payload(request.input, b"null"), _payload(request.state, b"{}")
    start = Start(
        id=new_id(),
        workflow=simulation.definition.name,
        actor=Actor(PRINCIPAL),
        tenant=None,
        correlation=request.correlation,
        labels=b"{}",
        priority=0,
        input=input_,
        input_hash=canonical.digest(input_),
        state=state,
        start_at=None,
        on_restart=None,
        exclusive=False,
        traceparent=None,
    )
    refused = simulation.begin(start)
    if refused is not None:
        faults = [FieldFault(path=path, message=message) for path, message in refused.faults]
        return make_problem("invalid_input", summary(faults), errors=faults)
    return _send_signals(simulation, request)


def _send_signals(simulation: Simulation, request: SimulateRequest) -> Problem | None:
    for place, signal in enumerate(request.signals):
        path = pointer("/signals", place)
        match simulation.give(Signal(Actor(PRINCIPAL), signal.name, _payload(signal.payload, b"null"))):
            case Conflict():
                return invalid_request([FieldFault(path=path, message="no wait can take it")])
            case InvalidInput(faults):
                found = [FieldFault(path=f"{path}{place_of}", message=message) for place_of, message in faults]
                return invalid_request(found)
            case _:
                pass
    return None


def _run(simulation: Simulation) -> Reply:
    """Moves it on as far as it goes, or until it is cut off, and tells what became of it."""
    began, deadline = simulation.now, perf_counter() + SECONDS_MAX
    moves = True
    while moves and simulation.go_on():
        moves = not simulation.exhausted and perf_counter() < deadline
    return reply(200, answer_of(simulation, simulation.now - began, moves=moves))


def _outcomes(given: SimulatedStepOutcomes) -> Outcomes:
    if not isinstance(given, list):
        return _outcome(given)
    return [[_outcome(one) for one in item] if isinstance(item, list) else _outcome(item) for item in given]


def _outcome(given: OneOutcome) -> Outcome:
    if given is None:
        return NOTHING
    state = {} if isinstance(given.state, UnsetType) else given.state
    return Outcome(_payload(given.output, b"null"), state, None if given.fail is None else _failure(given.fail))


def _failure(given: SimulatedFailure) -> Failure:
    details = None if isinstance(given.details, UnsetType) else bytes(given.details)
    return Failure(given.class_, given.message, given.effect, details)


def _faults(request: SimulateRequest) -> list[FieldFault]:
    """What the types don't tell."""
    faults = []
    if not isinstance(request.state, UnsetType) and not bytes(request.state).startswith(b"{"):
        faults.append(FieldFault(path="/state", message="must be an object"))
    for step, given in request.steps.items():
        faults += _outcome_faults(given, pointer("/steps", step))
    return faults


def _outcome_faults(given: OneOutcome | Sequence[Any], path: str) -> Iterator[FieldFault]:
    if isinstance(given, Sequence):
        if not given:
            yield FieldFault(path=path, message="must not be empty")
        for place, one in enumerate(given):
            yield from _outcome_faults(one, pointer(path, place))
    elif given is not None and given.fail is not None:
        if given.output is not UNSET or given.state is not UNSET:
            yield FieldFault(path=path, message="has either an output or a failure")
        if given.fail.class_ in DAEMON_CLASSES - {LOST}:
            message = f"{given.fail.class_} is the daemon's own class, which comes about by itself"
            yield FieldFault(path=f"{path}/fail/class", message=message)


def _payload(raw: Payload, default: bytes) -> bytes:
    return default if isinstance(raw, UnsetType) else bytes(raw)


_SIMULATE = BodyDecoder(SimulateRequest, _faults)
