"""A workflow's definition as the engine runs it: checked, compiled once, immutable."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stepd.engine.canonical import decode, digest, encode
from stepd.engine.decisions import (
    DECISION_FIELDS,
    AmbiguousMatch,
    CompiledDecision,
    NoMatch,
    decide_rules,
    read_decision,
)
from stepd.engine.definition_budget import Budget, read_budget
from stepd.engine.definition_checks import Skeleton, read_skeleton
from stepd.engine.definition_fields import Fields, shown
from stepd.engine.definition_steps import CompiledStep, read_step
from stepd.engine.definition_texts import template
from stepd.engine.pointers import PointerFault, parse_pointer
from stepd.engine.schemas import Validator
from stepd.engine.scope import ExpressionScope, References
from stepd.engine.templates import Template
from stepd_protocol.limits import DIGEST_VERSION_LENGTH, Limits
from stepd_protocol.names import ON_FAILURE, ON_RESTART, OnFailure, OnRestart
from stepd_protocol.problems import FieldFault

__all__ = [
    "AmbiguousMatch",
    "Compiled",
    "CompiledDecision",
    "CompiledStep",
    "NoMatch",
    "compile_definition",
    "decide_rules",
]

EXPRESSIONS_MAX = 3_000
"""Expressions of one definition: compiling takes about 0.2 ms each."""

UPDATE_FIELDS = frozenset({"path", "value"})
DEFINITION_FIELDS = frozenset(
    {"version", "description", "input_schema", "state_schema", "steps", "outcome", "updates", "output"}
    | {"timeout_seconds", "on_restart", "on_failure", "exclusive", "retention_seconds", "budget"}
)
NOT_IN_DIGEST = frozenset({"version", "description"})


@dataclass(frozen=True, slots=True)
class Compiled:
    """One version of a workflow. Times are milliseconds."""

    name: str
    version: str
    digest: str
    raw: bytes
    """As it was registered."""
    description: str | None
    on_restart: OnRestart
    on_failure: OnFailure
    exclusive: bool
    timeout_ms: int | None
    retention_ms: int | None
    """None: the daemon's."""
    input_schema: Validator | None
    state_schema: Validator | None
    steps: tuple[CompiledStep, ...]
    by_id: Mapping[str, int]
    """Ordinals."""
    outcome: CompiledDecision | None
    updates: tuple[tuple[str, Template], ...]
    output: Template | None
    finish_references: References
    """What `outcome`, `updates`, `output` and the check of the state read."""
    budget: Budget
    """What an execution may use that isn't started with a budget of its own."""


def compile_definition(name: str, raw: bytes, limits: Limits) -> Compiled | list[FieldFault]:
    """Returns the compiled definition, or every fault in it, each with its JSON Pointer. `raw` is checked JSON."""
    fault = _size_fault(raw, limits)
    if fault is not None:
        return [FieldFault(path="", message=fault)]
    value = decode(raw)
    if not isinstance(value, dict):
        return [FieldFault(path="", message="a definition is an object")]
    faults: list[FieldFault] = []
    top = Fields(value, "", faults)
    steps = value.get("steps")
    if isinstance(steps, list) and len(steps) > limits.definition_steps:
        message = f"{len(steps)} steps, of which a definition has at most {limits.definition_steps}"
        return [FieldFault(path="/steps", message=message)]
    skeleton = _read_steps(top)
    compiled = _read(name, raw, top, skeleton)
    return faults or compiled


def _size_fault(raw: bytes, limits: Limits) -> str | None:
    if len(raw) > limits.definition_bytes:
        return f"{len(raw):,} bytes, of which a definition has at most {limits.definition_bytes:,}"
    expressions = raw.count(b"$cel") + raw.count(b'"when"')
    if expressions > EXPRESSIONS_MAX:
        return f"{expressions:,} expressions, of which a definition has at most {EXPRESSIONS_MAX:,}"
    return None


def _read_steps(top: Fields) -> Skeleton:
    if not top.required("steps"):
        return read_skeleton([])
    steps = top.objects("steps")
    if top.given["steps"] == []:
        top.fault("steps", "a definition has one step at least")
    return read_skeleton(steps)


def _read(name: str, raw: bytes, top: Fields, skeleton: Skeleton) -> Compiled:
    """Reads all but the skeleton; after a fault what it returns is of no use."""
    top.refuse_others(DEFINITION_FIELDS)
    scope = skeleton.scope_of_finish()
    steps = tuple(read_step(skeleton, ordinal) for ordinal in range(len(skeleton.outlines)))
    outcome = _read_outcome(top, scope)
    updates = _read_updates(top, scope)
    output = template(top, "output", scope)
    version = top.name("version")
    description = top.text("description")
    on_restart = top.choice("on_restart", ON_RESTART, "resume")
    on_failure = top.choice("on_failure", ON_FAILURE, "reconcile")
    exclusive = top.boolean("exclusive", False)
    timeout_ms = top.milliseconds_or_none("timeout_seconds")
    retention_ms = top.milliseconds_or_none("retention_seconds")
    input_schema, state_schema = top.schema("input_schema"), top.schema("state_schema")
    budget = read_budget(top)
    hashed = _digest(top, skeleton)
    return Compiled(
        name=name,
        version=version or hashed[:DIGEST_VERSION_LENGTH],
        digest=hashed,
        raw=raw,
        description=description,
        on_restart=on_restart,
        on_failure=on_failure,
        exclusive=exclusive,
        timeout_ms=timeout_ms,
        retention_ms=retention_ms,
        input_schema=input_schema,
        state_schema=state_schema,
        steps=steps,
        by_id=skeleton.by_id,
        outcome=outcome,
        updates=updates,
        output=output if top.given.get("output") is not None else None,
        budget=budget,
        finish_references=_finish_references(outcome, updates, output, state_schema),
    )


def _read_outcome(top: Fields, scope: ExpressionScope) -> CompiledDecision | None:
    fields = top.object("outcome")
    if fields is None:
        return None
    fields.refuse_others(DECISION_FIELDS)
    decision = read_decision(fields, scope)
    top.full["outcome"] = fields.full
    return decision


def _read_updates(top: Fields, scope: ExpressionScope) -> tuple[tuple[str, Template], ...]:
    rows = top.objects("updates")
    updates = tuple(_read_update(row, scope) for row in rows)
    top.full["updates"] = [row.full for row in rows]
    return updates


def _read_update(row: Fields, scope: ExpressionScope) -> tuple[str, Template]:
    row.refuse_others(UPDATE_FIELDS)
    row.required("value")
    path = row.take("path", "")
    if row.required("path"):
        try:
            parse_pointer(path if isinstance(path, str) else shown(path))
        except PointerFault as fault:
            row.fault("path", str(fault))
    return str(path), template(row, "value", scope)


def _finish_references(
    outcome: CompiledDecision | None,
    updates: tuple[tuple[str, Template], ...],
    output: Template,
    state_schema: Validator | None,
) -> References:
    references = output.references if outcome is None else output.references | outcome.references
    if updates or state_schema is not None:
        references |= References(roots=frozenset({"state"}))
    for _, value in updates:
        references |= value.references
    return references


def _full_step(skeleton: Skeleton, ordinal: int) -> dict[str, Any]:
    """A step with its defaults written out; of `needs`, left out, that is the step before it."""
    outline = skeleton.outlines[ordinal]
    if outline.needs is not None:
        return outline.fields.full
    needs = [skeleton.outlines[need].id for need in skeleton.graph.needs[ordinal]]
    return {**outline.fields.full, "needs": needs}


def _digest(top: Fields, skeleton: Skeleton) -> str:
    full: dict[str, Any] = {field: value for field, value in top.full.items() if field not in NOT_IN_DIGEST}
    full["steps"] = [_full_step(skeleton, ordinal) for ordinal in range(len(skeleton.outlines))]
    return digest(encode(full))
