"""What a step comes to by itself: its output, a failure, and what ``catch`` makes of that."""

from __future__ import annotations

from typing import Any

from stepd.engine.canonical import decode, encode, is_too_deep
from stepd.engine.commands import error_json
from stepd.engine.definition import CompiledStep
from stepd.engine.environment import environment_of
from stepd.engine.faults import FAULTS, class_of
from stepd.engine.model import CAUGHT, NO_INDEX, Step, checkpoint_of, output_name
from stepd.engine.standing import is_item, set_status, settle_row
from stepd.engine.tally import keep_tally, tally_of
from stepd.engine.work import Work
from stepd_protocol.limits import JSON_DEPTH_MAX


def succeed(work: Work, row: Step, output: bytes) -> None:
    """Records a step's output as its checkpoint; it never runs again."""
    compiled = work.definition.steps[row.ordinal]
    set_status(work, row, "succeeded")
    settle_row(row)
    row.error = None
    row.checkpoint = checkpoint_of(row.input_hash, row.idempotency_key, compiled.effect or "")
    work.changes.payloads[output_name(row.ordinal, row.index)] = output
    if is_item(work, row):
        _count(work, row, size=len(output))


def catch_or_fail(
    work: Work, row: Step, error: bytes, *, attempt: int | None = None, worker: str | None = None
) -> bytes | None:
    """A step has failed with nothing doubtful left behind: ``catch`` may take it.

    Returns the error with which the step has failed, None where it was caught; what that means for the execution is
    for the caller to see to.
    """
    compiled = work.definition.steps[row.ordinal]
    failure = decode(error)
    row.error = error
    caught = _caught_value(work, compiled, row, failure["class"])
    if isinstance(caught, bytes):
        succeed(work, row, caught)
        row.caught, row.error = True, error
        if row.index == NO_INDEX:
            work.set_mark(row.ordinal, CAUGHT)
        elif is_item(work, row):
            _count(work, row, caught=1)
        work.emit("step.caught", compiled.id, row.index, attempt, worker, {"error": failure})
        return None
    if caught is not None:
        row.error = error = caught.error
        failure = decode(error)
    set_status(work, row, "failed")
    settle_row(row)
    work.emit("step.failed", compiled.id, row.index, attempt, worker, {"error": failure})
    return error


def excess(raw: bytes, value: Any, limit: int) -> str | None:
    """By what a value that was put together is more than may come in from outside; None where it isn't."""
    if len(raw) > limit:
        return f"has {len(raw)} bytes, {limit} are allowed"
    return f"is nested deeper than {JSON_DEPTH_MAX} levels" if is_too_deep(raw, value) else None


def output_fault(work: Work, compiled: CompiledStep, raw: bytes, value: Any) -> str | None:
    """Why ``value``, which is ``raw`` as JSON, can't be the step's output; None where it can."""
    fault = None if compiled.output_schema is None else compiled.output_schema.first_fault(value)
    if fault is None and (found := excess(raw, value, work.settings.output_bytes)) is not None:
        fault = f"it {found}"
    return fault


def _count(work: Work, row: Step, *, size: int = 0, caught: int = 0) -> None:
    whole = work.change_step(row.ordinal)
    tally = tally_of(whole)
    tally.bytes += size
    tally.caught += caught
    keep_tally(whole, tally)


class _NotCaught:
    """``catch`` named the class, but its value could not be had: the step fails with this error instead."""

    def __init__(self, class_: str, message: str) -> None:
        self.error = error_json(class_, message)


def _caught_value(work: Work, compiled: CompiledStep, row: Step, class_: str) -> bytes | _NotCaught | None:
    for caught_class, template in compiled.catch:
        if caught_class not in (class_, "*"):
            continue
        try:
            value = template.render(environment_of(work, row))
        except FAULTS as fault:
            return _NotCaught(class_of(work, fault), str(fault))
        raw = encode(value)
        wrong = output_fault(work, compiled, raw, value)
        return raw if wrong is None else _NotCaught("invalid_output", f"the value of catch for {class_}: {wrong}")
    return None
