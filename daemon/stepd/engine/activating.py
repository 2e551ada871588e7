"""How a step whose needs are met is evaluated, once, and set going by its kind.

A kind plugs in at ``_set_going``: it gets a new row that is not added yet, evaluates what its kind has, adds the row to
the work, and gives it its status. What it raises fails the step before any lease.
"""

from __future__ import annotations

from typing import assert_never

from stepd.engine.cel_bounds import Allowance
from stepd.engine.children import arm_child, check_depth
from stepd.engine.deciding import make_decision
from stepd.engine.definition import CompiledStep
from stepd.engine.effort import Effort
from stepd.engine.environment import Environment
from stepd.engine.foreach import keep_list
from stepd.engine.inputs import take_input
from stepd.engine.model import NO_INDEX, Step, input_name, output_name
from stepd.engine.newrows import new_row
from stepd.engine.results import skip
from stepd.engine.rounds import begin_rounds
from stepd.engine.sleeps import fall_asleep
from stepd.engine.standing import queue
from stepd.engine.unleased import failing_before_lease
from stepd.engine.waits import arm
from stepd.engine.work import Work


def activate(work: Work, compiled: CompiledStep, environment: Environment, effort: Effort) -> None:
    """Evaluates ``when`` and what the step's kind has, once; then it goes, is skipped, or has failed."""
    if compiled.written_needs and compiled.needs and all(work.mark(need) == "k" for need in compiled.needs):
        skip(work, compiled, "every step it needs was skipped")
        return
    row = new_row(work, compiled)
    allowance = Allowance()
    with failing_before_lease(work, row):
        if _is_wanted(compiled, environment, allowance):
            _set_going(work, compiled, row, environment, allowance)
        else:
            skip(work, compiled, "its condition is false")
    for name in (input_name(compiled.ordinal, NO_INDEX), output_name(compiled.ordinal, NO_INDEX)):
        effort.bytes += len(work.changes.payloads.get(name, b""))
    effort.took(allowance)
    if compiled.kind == "wait" and row.status != "waiting":
        effort.took_signal()


def _is_wanted(compiled: CompiledStep, environment: Environment, allowance: Allowance) -> bool:
    return compiled.when is None or bool(compiled.when.evaluate(environment, allowance))


def _set_going(work: Work, compiled: CompiledStep, row: Step, environment: Environment, allowance: Allowance) -> None:
    """Does what the step's kind does first. Raises ExpressionFailed, CheckpointMismatch, StepFailed, Missing."""
    match compiled.kind:
        case "task" if compiled.foreach is not None:
            keep_list(work, compiled, row, environment, allowance)
        case "task" | "workflow" if compiled.repeat is not None:
            begin_rounds(work, compiled, row, environment, allowance)
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
            check_depth(work)
            take_input(work, compiled, row, environment, allowance)
            arm_child(work, compiled, row)
        case _:
            assert_never(compiled.kind)
