"""Which write is undone next, and how its compensation is called: one at a time, the latest success first."""

from __future__ import annotations

from typing import Any, Literal

from stepd.engine.canonical import decode
from stepd.engine.catching import catch_or_fail
from stepd.engine.cel_bounds import Allowance
from stepd.engine.commands import error_json
from stepd.engine.definition import CompiledStep
from stepd.engine.environment import CheckpointMismatch, environment_of
from stepd.engine.faults import FAULTS, class_of
from stepd.engine.inputs import keep_input, take_input
from stepd.engine.model import Step, checkpoint_of, input_name, output_name
from stepd.engine.newrows import new_row
from stepd.engine.standing import note_undone, queue
from stepd.engine.verdicts import is_write
from stepd.engine.work import Work

Undoing = Literal["under way", "stuck", "done"]


def undo_next(work: Work) -> Undoing:
    """Sees to it that the compensation of the latest success is under way.

    ``stuck`` on a write that has none, unless an operator lets such writes stand, and on a compensation that did not
    succeed. What a compensation that succeeded has undone stands no more.
    """
    while (success := _latest(work)) is not None:
        ordinal = work.definition.steps[success.ordinal].compensate
        if ordinal is None:
            return "stuck"
        compensation = work.step(ordinal, success.index)
        if compensation is None:
            _call(work, work.definition.steps[ordinal], success)
        elif compensation.status == "succeeded":
            note_undone(work, success)
        else:
            return "stuck" if compensation.status in ("failed", "uncertain") else "under way"
    return "done"


def lacks_compensation(work: Work) -> bool:
    """Whether the next write to be undone has no compensation."""
    success = _latest(work)
    return success is not None and work.definition.steps[success.ordinal].compensate is None


def _latest(work: Work) -> Step | None:
    writes = [step for step in work.definition.steps if _may_stand(step)]
    if work.execution.leave_standing:
        writes = [step for step in writes if step.compensate is not None]
    return work.latest_success([step.ordinal for step in writes])


def _may_stand(step: CompiledStep) -> bool:
    """Whether a write of the step can stand, or one of its children's."""
    return (is_write(step) and step.undoes is None) or step.kind == "workflow"


def _call(work: Work, compiled: CompiledStep, success: Step) -> None:
    work.emit("step.compensating", success.step, success.index, data={"compensation": compiled.id})
    row = new_row(work, compiled, success.index)
    work.add_step(row)
    try:
        _take_input(work, compiled, row, success)
    except FAULTS as fault:
        catch_or_fail(work, row, error_json(class_of(work, fault), str(fault)))
    else:
        queue(work, row)


def _take_input(work: Work, compiled: CompiledStep, row: Step, success: Step) -> None:
    """Input and output of the success it undoes, unless the compensation says otherwise."""
    undone = {"input": _input_of(work, success), "output": _output_of(work, success)}
    if compiled.input is None:
        keep_input(work, compiled, row, undone)
    else:
        take_input(work, compiled, row, environment_of(work, success), Allowance())


def _input_of(work: Work, success: Step) -> Any:
    raw = work.payload(input_name(success.ordinal, success.index) if success.own_input else "input")
    return None if raw is None else decode(raw)


def _output_of(work: Work, success: Step) -> Any:
    """The checkpoint of a success, None of a child that left writes but no output. Raises CheckpointMismatch where it
    is not what the step was run for.
    """
    if success.status != "succeeded":
        return None
    raw = work.payload(output_name(success.ordinal, success.index))
    effect = work.definition.steps[success.ordinal].effect or ""
    expected = checkpoint_of(success.input_hash, success.idempotency_key, effect)
    if raw is None or success.checkpoint != expected or success.declared_effect != effect:
        raise CheckpointMismatch(success.step)
    return decode(raw)
