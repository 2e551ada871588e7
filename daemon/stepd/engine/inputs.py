"""How a step gets its input: evaluated once, stored with its hash, and held against its schema."""

from __future__ import annotations

from typing import Any

from stepd.engine.canonical import digest, encode
from stepd.engine.catching import excess
from stepd.engine.cel_bounds import Allowance
from stepd.engine.definition import CompiledStep
from stepd.engine.environment import Environment
from stepd.engine.faults import StepFailed
from stepd.engine.model import Step, input_name
from stepd.engine.work import Work


def take_input(work: Work, compiled: CompiledStep, row: Step, environment: Environment, allowance: Allowance) -> None:
    """Evaluates and stores the input of a step. Raises what ``store_input`` raises, and what evaluating does."""
    if compiled.input is not None:
        store_input(work, compiled, row, compiled.input.render(environment, allowance))
        return
    if compiled.input_schema is not None:
        _check(compiled, environment.root("input"))
    row.input_hash = work.execution.input_hash


def store_input(work: Work, compiled: CompiledStep, row: Step, value: Any) -> None:
    """Stores a value as a row's own input, where it isn't too large. Raises StepFailed (``invalid_input``)."""
    if (found := excess(encode(value), value, work.settings.input_bytes)) is not None:
        raise StepFailed("invalid_input", f"the input {found}")
    keep_input(work, compiled, row, value)


def keep_input(work: Work, compiled: CompiledStep, row: Step, value: Any) -> None:
    """Stores a value as the input of a step, with its hash. Raises StepFailed where it does not fit its schema."""
    _check(compiled, value)
    raw = encode(value)
    row.own_input, row.input_hash = True, digest(raw)
    work.changes.payloads[input_name(row.ordinal, row.index)] = raw


def _check(compiled: CompiledStep, value: Any) -> None:
    fault = None if compiled.input_schema is None else compiled.input_schema.first_fault(value)
    if fault is not None:
        raise StepFailed("invalid_input", fault)
