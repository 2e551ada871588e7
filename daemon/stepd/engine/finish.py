"""How an execution ends well: outcome, updates, state and output, all or nothing."""

from __future__ import annotations

from typing import Any

from stepd.engine.canonical import encode, is_too_deep
from stepd.engine.cel_bounds import Allowance
from stepd.engine.commands import error_json
from stepd.engine.definition import AmbiguousMatch, NoMatch, decide_rules
from stepd.engine.ending import begin_ending, end
from stepd.engine.environment import CheckpointMismatch, Environment
from stepd.engine.expressions import ExpressionFailed
from stepd.engine.faults import class_of
from stepd.engine.model import checkpoint_of
from stepd.engine.pointers import PointerFault, apply_updates
from stepd.engine.standing import revise
from stepd.engine.work import Work
from stepd_protocol.limits import JSON_DEPTH_MAX


class _Invalid(Exception):
    """The finish can't be written; the text says why."""


def finish(work: Work, environment: Environment) -> None:
    """Every step is succeeded or skipped: evaluates and writes the finish, or fails with ``finish_invalid``."""
    try:
        _check_checkpoints(work)
        outcome, told = _outcome(work, environment)
        written = _checked("outcome", outcome, work.settings.output_bytes)
        state = _updated_state(work, environment)
        output = _output(work, environment)
    except CheckpointMismatch as mismatch:
        begin_ending(work, "failing", _error(class_of(work, mismatch), str(mismatch)))
        return
    except (ExpressionFailed, NoMatch, AmbiguousMatch, PointerFault, _Invalid) as fault:
        begin_ending(work, "failing", _error("finish_invalid", str(fault)))
        return
    if state is not None:
        work.changes.payloads["state"] = state
    work.changes.payloads["output"] = output
    work.changes.payloads["outcome"] = written
    revise(work)
    steps = [step.id for step in work.definition.steps if work.mark(step.ordinal) in ("s", "C")]
    data: dict[str, object] = {"outcome": outcome, "revision": work.execution.revision, **told, "steps": steps}
    end(work, "completed", data)


def _error(class_: str, message: str) -> bytes:
    return error_json(class_, message, step=None, cause=None)


def _check_checkpoints(work: Work) -> None:
    rows = [row for row in work.own_rows() if row.status != "skipped"]
    for row in rows:
        compiled = work.definition.steps[row.ordinal]
        expected = checkpoint_of(row.input_hash, row.idempotency_key, compiled.effect or "")
        if row.status != "succeeded" or row.checkpoint != expected or row.declared_effect != (compiled.effect or ""):
            raise CheckpointMismatch(compiled.id)
    succeeded = sum(mark in ("s", "C") for mark in work.execution.graph)
    if succeeded != sum(row.index < 0 for row in rows):
        raise CheckpointMismatch("that is missing")


def _outcome(work: Work, environment: Environment) -> tuple[Any, dict[str, object]]:
    decision = work.definition.outcome
    if decision is None:
        return None, {"hit_policy": None, "rule_ids": []}
    value, rules = decide_rules(decision, environment)
    return value, {"hit_policy": decision.hit_policy, "rule_ids": list(rules)}


def _updated_state(work: Work, environment: Environment) -> bytes | None:
    """The state after ``updates``, computed from the state before them; None where there is nothing to write."""
    definition = work.definition
    allowance = Allowance()
    if not definition.updates and definition.state_schema is None:
        return None
    state = environment.root("state")
    updates = [(pointer, template.render(environment, allowance)) for pointer, template in definition.updates]
    work.updates = updates
    if updates:
        state = apply_updates(state, updates)
    fault = definition.state_schema.first_fault(state) if definition.state_schema is not None else None
    if fault is not None:
        raise _Invalid(f"the state does not fit state_schema: {fault}")
    raw = _checked("state", state, work.settings.state_bytes)
    return raw if updates else None


def _output(work: Work, environment: Environment) -> bytes:
    template = work.definition.output
    return _checked("output", None if template is None else template.render(environment), work.settings.output_bytes)


def _checked(what: str, value: Any, limit: int) -> bytes:
    """The value as JSON. Raises _Invalid where it is more than may come in from outside."""
    raw = encode(value)
    if len(raw) > limit:
        raise _Invalid(f"the {what} has {len(raw)} bytes, {limit} are allowed")
    if is_too_deep(raw, value):
        raise _Invalid(f"the {what} is nested deeper than {JSON_DEPTH_MAX} levels")
    return raw
