"""How a step gets its input: evaluated once, stored with its hash, and held against its schema."""

from __future__ import annotations

from stepd.engine.canonical import digest, encode
from stepd.engine.catching import excess
from stepd.engine.cel_bounds import Allowance
from stepd.engine.definition import CompiledStep
from stepd.engine.environment import Environment
from stepd.engine.model import Step, input_name
from stepd.engine.work import Work


class StepFailed(Exception):
    """A step that has no lease has failed: its class, and why."""

    def __init__(self, class_: str, message: str) -> None:
        super().__init__(message)
        self.class_ = class_


def take_input(work: Work, compiled: CompiledStep, row: Step, environment: Environment, allowance: Allowance) -> None:
    """Stores the input of a step with its hash. Raises StepFailed (``invalid_input``), and what evaluating raises."""
    if compiled.input is None:
        row.input_hash = work.execution.input_hash
        value = environment.root("input") if compiled.input_schema is not None else None
    else:
        value = compiled.input.render(environment, allowance)
        raw = encode(value)
        if (found := excess(raw, value, work.settings.input_bytes)) is not None:
            raise StepFailed("invalid_input", f"the input {found}")
        row.own_input, row.input_hash = True, digest(raw)
        work.changes.payloads[input_name(row.ordinal, row.index)] = raw
    fault = None if compiled.input_schema is None else compiled.input_schema.first_fault(value)
    if fault is not None:
        raise StepFailed("invalid_input", fault)
