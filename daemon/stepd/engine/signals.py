"""How an execution takes a signal: given to an armed wait, kept for one that isn't armed yet, or refused."""

from __future__ import annotations

from stepd.engine.advance import advance
from stepd.engine.canonical import decode
from stepd.engine.commands import Conflict, Done, InvalidInput, Signal, TooMany
from stepd.engine.control import audit
from stepd.engine.definition import CompiledStep
from stepd.engine.model import ENDED
from stepd.engine.model import Signal as SignalRow
from stepd.engine.waits import armed_first, open_waits, resume, wait_of
from stepd.engine.work import Work
from stepd_protocol.limits import SIGNALS_KEPT_MAX


def signal(work: Work, command: Signal) -> Done | Conflict | InvalidInput | TooMany:
    """One signal resumes one wait: of the armed ones of its name that it fits, the one armed first. Else it is kept.

    A signal of an event that the execution has had already is answered without effect.
    """
    execution = work.execution
    if command.source is not None and work.has_signal_of(command.source):
        return Done(execution.status)
    if execution.status in ENDED:
        return Conflict("already_ended", execution.status, execution.id)
    waits = [] if execution.direction is not None else list(open_waits(work, command.name))
    if not waits:
        return Conflict("not_signalable", execution.status, execution.id)
    fitting, faults = _fitting(waits, command.payload)
    if not fitting:
        return InvalidInput(tuple(faults))
    row = None if execution.status == "paused" else armed_first(work, fitting)
    if row is None and execution.signals_kept >= SIGNALS_KEPT_MAX:
        return TooMany(execution.signals_kept)
    received = _receive(work, command, fitting)
    if row is None:
        execution.signals_kept += 1
        return Done(execution.status)
    resume(work, row.ordinal, received)
    advance(work, row.ordinal)
    return Done(execution.status)


def _receive(work: Work, command: Signal, fitting: list[int]) -> SignalRow:
    execution = work.execution
    execution.signals += 1
    received = SignalRow(
        execution_id=execution.id,
        number=execution.signals,
        name=command.name,
        source=command.source,
        received_at=work.now,
        taken_by=None,
        fits=f" {' '.join(str(ordinal) for ordinal in fitting)} ",
        payload=command.payload,
    )
    work.changes.signals[received.number] = received
    audit(work, command.actor, "execution.signal")
    work.emit("signal.received", data={"name": command.name, "signal": received.number})
    return received


def _fitting(waits: list[CompiledStep], payload: bytes) -> tuple[list[int], list[tuple[str, str]]]:
    """Ordinals of the waits that the payload fits; where it fits none, the faults that the first of them finds."""
    value = decode(payload)
    first: list[tuple[str, str]] = []
    fitting = []
    for compiled in waits:
        faults = _faults(compiled, value)
        if not faults:
            fitting.append(compiled.ordinal)
        first = first or faults
    return fitting, first


def _faults(compiled: CompiledStep, value: object) -> list[tuple[str, str]]:
    """Why the wait can't take the payload, which is its output: pointer into the request, and message."""
    schemas = (wait_of(compiled).payload_schema, compiled.output_schema)
    found = [fault for schema in schemas if schema is not None for fault in schema.faults(value)]
    return [(f"/payload{place}", message) for place, message in found]
