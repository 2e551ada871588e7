"""Definitions for tests of the engine, and what becomes of them."""

from typing import Any

from stepd.engine.canonical import encode
from stepd.engine.definition import Compiled, compile_definition
from stepd_protocol.limits import Limits

LIMITS = Limits()


def read(id: str = "work", **fields: Any) -> dict[str, Any]:
    return {"id": id, "effect": "read_only", **fields}


def write(id: str = "work", **fields: Any) -> dict[str, Any]:
    return {"id": id, "effect": "non_idempotent_write", **fields}


def compiled(*steps: Any, **fields: Any) -> Compiled:
    """The compiled definition, which must be sound and run here."""
    outcome = compile_definition("flow", encode({"steps": list(steps), **fields}), LIMITS)
    assert isinstance(outcome, Compiled), outcome
    return outcome


def faults_of(definition: Any) -> dict[str, str]:
    """Messages by pointer; a sound definition has none."""
    outcome = compile_definition("flow", encode(definition), LIMITS)
    return {} if isinstance(outcome, Compiled) else {fault.path: fault.message for fault in outcome}
