"""How a step whose needs are met is evaluated, once, and set going by its kind.

A kind plugs in at ``_set_going``: it gets a new row that is not added yet, evaluates what its kind has, adds the row to
the work, and gives it its status. What it raises fails the step before any lease.
"""

from __future__ import annotations

from typing import assert_never

from stepd.engine.cel_bounds import WORK_MAX, Allowance
from stepd.engine.children import DEPTH_MAX, arm_child, is_too_deep
from stepd.engine.commands import error_json
from stepd.engine.deciding import make_decision
from stepd.engine.definition import CompiledStep
from stepd.engine.environment import CheckpointMismatch, Environment
from stepd.engine.expressions import ExpressionFailed
from stepd.engine.inputs import StepFailed, take_input
from stepd.engine.model import NO_INDEX, Step, input_name, output_name
from stepd.engine.newrows import new_row
from stepd.engine.results import fail_step, mismatch_message, skip
from stepd.engine.sleeps import fall_asleep
from stepd.engine.standing import queue
from stepd.engine.waits import arm
from stepd.engine.work import Work

__all__ = ["Effort", "activate", "new_row"]

EFFORT_UNITS = WORK_MAX // 2
"""About 0.1 s of evaluating."""
EFFORT_BYTES = 4 * 1024 * 1024


class Effort:
    """What evaluating steps has taken in one decision: units of work, and bytes of inputs and outputs."""

    def __init__(self) -> None:
        self.units = self.bytes = 0

    def spent(self) -> bool:
        """Whether other decisions should have their turn before the next step is evaluated."""
        return self.units > EFFORT_UNITS or self.bytes > EFFORT_BYTES


def activate(work: Work, compiled: CompiledStep, environment: Environment, effort: Effort) -> None:
    """Evaluates ``when`` and what the step's kind has, once; then it goes, is skipped, or has failed."""
    if compiled.written_needs and compiled.needs and all(work.mark(need) == "k" for need in compiled.needs):
        skip(work, compiled, "every step it needs was skipped")
        return
    row = new_row(work, compiled)
    allowance = Allowance()
    try:
        if _is_wanted(compiled, environment, allowance):
            _set_going(work, compiled, row, environment, allowance)
        else:
            skip(work, compiled, "its condition is false")
    except ExpressionFailed as failed:
        _fail_before_lease(work, row, "expression_failed", str(failed))
    except CheckpointMismatch as mismatch:
        work.execution.mismatch = True
        _fail_before_lease(work, row, "checkpoint_mismatch", mismatch_message(mismatch))
    except StepFailed as failed:
        _fail_before_lease(work, row, failed.class_, str(failed))
    finally:
        effort.units += WORK_MAX - allowance.units_left
        for name in (input_name(compiled.ordinal, NO_INDEX), output_name(compiled.ordinal, NO_INDEX)):
            effort.bytes += len(work.changes.payloads.get(name, b""))


def _is_wanted(compiled: CompiledStep, environment: Environment, allowance: Allowance) -> bool:
    if compiled.when is None:
        return True
    wanted = compiled.when.evaluate(environment, allowance)
    if not isinstance(wanted, bool):
        raise ExpressionFailed(f"{compiled.when.source}: a condition must give true or false")
    return wanted


def _set_going(work: Work, compiled: CompiledStep, row: Step, environment: Environment, allowance: Allowance) -> None:
    """Does what the step's kind does first. Raises ExpressionFailed, CheckpointMismatch, StepFailed, Missing."""
    match compiled.kind:
        case "task":
            take_input(work, compiled, row, environment, allowance)
            work.add_step(row)
            queue(work, row)
        case "wait":
            work.add_step(row)
            arm(work, row)
        case "sleep":
            fall_asleep(work, compiled, row, environment, allowance)
        case "decision":
            make_decision(work, compiled, row, environment, allowance)
        case "workflow":
            if is_too_deep(work.execution):
                raise StepFailed("child_failed", f"a child would have more than {DEPTH_MAX} executions above it")
            take_input(work, compiled, row, environment, allowance)
            arm_child(work, compiled, row)
        case _:
            assert_never(compiled.kind)


def _fail_before_lease(work: Work, row: Step, class_: str, message: str) -> None:
    work.add_step(row)
    fail_step(work, row, error_json(class_, message))
