"""What a step comes to, and with it the execution: a failure that nothing takes begins the ending."""

from __future__ import annotations

from typing import Any

from stepd.engine.canonical import decode, encode
from stepd.engine.catching import catch_or_fail, output_fault, succeed
from stepd.engine.commands import error_json
from stepd.engine.definition import CompiledStep
from stepd.engine.ending import begin_ending, make_uncertain
from stepd.engine.items import fails_with
from stepd.engine.model import ENDED, Step
from stepd.engine.standing import set_status, settle_row
from stepd.engine.tally import tally_of
from stepd.engine.verdicts import is_write, judge
from stepd.engine.work import Work


def succeed_with(work: Work, row: Step, raw: bytes, value: Any) -> None:
    """A step that had no lease has this output, ``value`` as ``raw``: it succeeded, unless that fits neither schema nor
    limit; then it failed, class ``invalid_output``.
    """
    compiled = work.definition.steps[row.ordinal]
    fault = output_fault(work, compiled, raw, value)
    if fault is not None:
        fail_step(work, row, error_json("invalid_output", f"the output: {fault}"))
        return
    succeed(work, row, raw)
    work.emit("step.succeeded", row.step, row.index)


def fail_step(work: Work, row: Step, error: bytes, *, attempt: int | None = None, worker: str | None = None) -> str:
    """A step has failed with nothing doubtful left behind: ``catch`` may take it, else the ending begins.

    Returns the disposition: ``caught`` or ``step_failed``.
    """
    failed = catch_or_fail(work, row, error, attempt=attempt, worker=worker)
    if failed is None:
        return "caught"
    fails_with(work, row)
    if work.execution.direction is None and work.execution.status not in ENDED:
        begin_ending(work, "failing", error_of_step(failed, row.step))
    return "step_failed"


def fail_whole(work: Work, row: Step, class_: str, message: str) -> None:
    """A step fails whose items or rounds have succeeded; where those are writes, that is its effect."""
    compiled = work.definition.steps[row.ordinal]
    tally = tally_of(row)
    if is_write(compiled) and tally.count("succeeded") > tally.caught:
        row.effect = "applied"
    error = error_json(class_, message)
    if judge("fatal", compiled, row.effect) == "uncertain":
        make_uncertain(work, row, error)
    else:
        fail_step(work, row, error)


def skip(work: Work, compiled: CompiledStep, why: str) -> None:
    """A step that isn't done: what needs it goes on without its output."""
    work.set_mark(compiled.ordinal, "k")
    work.emit("step.skipped", compiled.id, data={"why": why})


def skip_row(work: Work, row: Step, why: str) -> None:
    """As ``skip``, for a step that has a row already."""
    set_status(work, row, "skipped")
    settle_row(row)
    work.emit("step.skipped", row.step, row.index, data={"why": why})


def error_of_step(error: bytes, step: str) -> bytes:
    """A step's error as the execution's: ``{class, message, step, cause}``."""
    failure = decode(error)
    return encode({"class": failure["class"], "message": failure["message"], "step": step, "cause": None})
