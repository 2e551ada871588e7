"""How an execution goes on when steps are done: which become ready, with which input, and when it is finished."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Any

from stepd.engine.canonical import decode, digest, encode, is_too_deep
from stepd.engine.cel_bounds import WORK_MAX, Allowance
from stepd.engine.commands import error_json
from stepd.engine.definition import CompiledStep
from stepd.engine.ending import begin_ending, conclude
from stepd.engine.environment import CheckpointMismatch, Environment
from stepd.engine.expressions import ExpressionFailed
from stepd.engine.finish import finish
from stepd.engine.model import CAUGHT, DONE_MARKS, ENDED, GOING, NO_INDEX, Step, checkpoint_of, input_name, output_name
from stepd.engine.standing import queue, set_status, settle_row
from stepd.engine.work import Work
from stepd_protocol.limits import JSON_DEPTH_MAX

PRIORITY_MAX = 100
EFFORT_UNITS = WORK_MAX // 2
"""About 0.1 s of evaluating."""
EFFORT_BYTES = 4 * 1024 * 1024
ALL_DONE = "".join(sorted(DONE_MARKS))


def advance(work: Work, done: int | None = None) -> None:
    """Evaluates every pending step whose needs are met; finishes the execution when nothing is left.

    ``done`` is the step that has just ended, whose successors alone are looked at; None looks at all. Does nothing
    while the execution is scheduled or paused; goes on with the ending where that has begun. Where evaluating takes
    long, the rest is left to the sweeper, in transactions of their own: no definition holds the daemon.
    """
    if work.execution.direction is not None:
        conclude(work)
        return
    environment = Environment(work)
    steps = work.definition.steps
    candidates = list(range(len(steps)) if done is None else steps[done].successors)
    heapify(candidates)
    effort = _Effort()
    while candidates and work.execution.status in GOING:
        if effort.spent():
            work.execution.due_at = work.now
            return
        ordinal = heappop(candidates)
        if work.mark(ordinal) != "p" or not _needs_met(work, steps[ordinal]):
            continue
        _activate(work, steps[ordinal], environment, effort)
        if work.mark(ordinal) in DONE_MARKS:
            for successor in steps[ordinal].successors:
                heappush(candidates, successor)
    if work.execution.status in GOING and not work.execution.graph.strip(ALL_DONE):
        finish(work, environment)


def succeed(work: Work, row: Step, output: bytes) -> None:
    """Records a step's output as its checkpoint; it never runs again."""
    compiled = work.definition.steps[row.ordinal]
    set_status(work, row, "succeeded")
    settle_row(row)
    row.error = None
    row.checkpoint = checkpoint_of(row.input_hash, row.idempotency_key, compiled.effect or "")
    work.changes.payloads[output_name(row.ordinal, row.index)] = output


def fail_step(work: Work, row: Step, error: bytes, *, attempt: int | None = None, worker: str | None = None) -> str:
    """A step has failed with nothing doubtful left behind: ``catch`` may take it, else the ending begins.

    Returns the disposition: ``caught`` or ``step_failed``.
    """
    compiled = work.definition.steps[row.ordinal]
    failure = decode(error)
    row.error = error
    caught = _caught_value(work, compiled, failure["class"])
    if isinstance(caught, bytes):
        succeed(work, row, caught)
        row.caught, row.error = True, error
        work.set_mark(row.ordinal, CAUGHT)
        work.emit("step.caught", compiled.id, row.index, attempt, worker, {"error": failure})
        return "caught"
    if caught is not None:
        row.error = error = caught.error
        failure = decode(error)
    set_status(work, row, "failed")
    settle_row(row)
    work.emit("step.failed", compiled.id, row.index, attempt, worker, {"error": failure})
    if work.execution.direction is None and work.execution.status not in ENDED:
        begin_ending(work, "failing", error_of_step(error, compiled.id))
    return "step_failed"


def error_of_step(error: bytes, step: str) -> bytes:
    """A step's error as the execution's: ``{class, message, step, cause}``."""
    failure = decode(error)
    return encode({"class": failure["class"], "message": failure["message"], "step": step, "cause": None})


class _NotCaught:
    """``catch`` named the class, but its value could not be had: the step fails with this error instead."""

    def __init__(self, class_: str, message: str) -> None:
        self.error = error_json(class_, message)


def _caught_value(work: Work, compiled: CompiledStep, class_: str) -> bytes | _NotCaught | None:
    for caught_class, template in compiled.catch:
        if caught_class not in (class_, "*"):
            continue
        try:
            value = template.render(Environment(work))
        except ExpressionFailed as failed:
            return _NotCaught("expression_failed", str(failed))
        except CheckpointMismatch as mismatch:
            work.execution.mismatch = True
            return _NotCaught("checkpoint_mismatch", _mismatch_message(mismatch))
        raw = encode(value)
        fault = compiled.output_schema.first_fault(value) if compiled.output_schema is not None else None
        if fault is None and (excess := _excess(raw, value, work.settings.output_bytes)) is not None:
            fault = f"it {excess}"
        return raw if fault is None else _NotCaught("invalid_output", f"the value of catch for {class_}: {fault}")
    return None


def _needs_met(work: Work, compiled: CompiledStep) -> bool:
    return all(work.mark(need) in DONE_MARKS for need in compiled.needs)


class _Effort:
    """What evaluating steps has taken in one decision: units of work, and bytes of inputs."""

    def __init__(self) -> None:
        self.units = self.bytes = 0

    def spent(self) -> bool:
        """Whether other decisions should have their turn before the next step is evaluated."""
        return self.units > EFFORT_UNITS or self.bytes > EFFORT_BYTES


def _activate(work: Work, compiled: CompiledStep, environment: Environment, effort: _Effort) -> None:
    """Evaluates ``when`` and ``input`` of a step, once, and queues it, skips it, or fails it."""
    if compiled.written_needs and compiled.needs and all(work.mark(need) == "k" for need in compiled.needs):
        _skip(work, compiled, "every step it needs was skipped")
        return
    row = _new_row(work, compiled)
    allowance = Allowance()
    try:
        if compiled.when is not None:
            wanted = compiled.when.evaluate(environment, allowance)
            if not isinstance(wanted, bool):
                raise ExpressionFailed(f"{compiled.when.source}: a condition must give true or false")
            if not wanted:
                _skip(work, compiled, "its condition is false")
                return
        fault = _take_input(work, compiled, row, environment, allowance)
    except ExpressionFailed as failed:
        _fail_before_lease(work, row, "expression_failed", str(failed))
        return
    except CheckpointMismatch as mismatch:
        work.execution.mismatch = True
        _fail_before_lease(work, row, "checkpoint_mismatch", _mismatch_message(mismatch))
        return
    finally:
        effort.units += WORK_MAX - allowance.units_left
        effort.bytes += len(work.changes.payloads.get(input_name(compiled.ordinal, NO_INDEX), b""))
    if fault is not None:
        _fail_before_lease(work, row, "invalid_input", fault)
        return
    work.add_step(row)
    queue(work, row)


def _mismatch_message(mismatch: CheckpointMismatch) -> str:
    return f"the stored output of step {mismatch.step} does not belong to the step as it stands"


def _take_input(
    work: Work, compiled: CompiledStep, row: Step, environment: Environment, allowance: Allowance
) -> str | None:
    """Stores the step's input with its hash; answers what is wrong with it, or None."""
    if compiled.input is None:
        row.input_hash = work.execution.input_hash
        value = environment.root("input") if compiled.input_schema is not None else None
    else:
        value = compiled.input.render(environment, allowance)
        raw = encode(value)
        if (excess := _excess(raw, value, work.settings.input_bytes)) is not None:
            return f"the input {excess}"
        row.own_input, row.input_hash = True, digest(raw)
        work.changes.payloads[input_name(compiled.ordinal, NO_INDEX)] = raw
    return None if compiled.input_schema is None else compiled.input_schema.first_fault(value)


def _excess(raw: bytes, value: Any, limit: int) -> str | None:
    """By what a value that was put together is more than may come in from outside; None where it isn't."""
    if len(raw) > limit:
        return f"has {len(raw)} bytes, {limit} are allowed"
    return f"is nested deeper than {JSON_DEPTH_MAX} levels" if is_too_deep(raw, value) else None


def _fail_before_lease(work: Work, row: Step, class_: str, message: str) -> None:
    work.add_step(row)
    fail_step(work, row, error_json(class_, message))


def _skip(work: Work, compiled: CompiledStep, why: str) -> None:
    work.set_mark(compiled.ordinal, "k")
    work.emit("step.skipped", compiled.id, data={"why": why})


def _new_row(work: Work, compiled: CompiledStep) -> Step:
    execution = work.execution
    return Step(
        execution_id=execution.id,
        ordinal=compiled.ordinal,
        index=NO_INDEX,
        step=compiled.id,
        workflow=execution.workflow,
        version=execution.version,
        tenant=execution.tenant,
        status="pending",
        parked=0,
        priority=max(-PRIORITY_MAX, min(PRIORITY_MAX, execution.priority + compiled.priority)),
        due_at=None,
        execution_created_at=execution.created_at,
        timer_at=None,
        fence=0,
        spent=0,
        last_attempt=0,
        interruptions=0,
        effect="none",
        caught=False,
        lease_id=None,
        own_input=False,
        input_hash=None,
        declared_effect=compiled.effect or "",
        idempotency_key=f"{execution.id}:{compiled.id}",
        checkpoint=None,
        error=None,
        shunned=None,
        has_previous=False,
        queued_at=None,
    )
