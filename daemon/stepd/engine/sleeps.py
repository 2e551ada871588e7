"""Sleeps: until when one lasts is evaluated once, and a timer ends it."""

from __future__ import annotations

from stepd.engine.cel_bounds import Allowance
from stepd.engine.definition import CompiledStep
from stepd.engine.definition_kinds import CompiledSleep, milliseconds_of, time_of
from stepd.engine.environment import Environment
from stepd.engine.expressions import ExpressionFailed
from stepd.engine.model import Step
from stepd.engine.results import succeed_with
from stepd.engine.standing import parking, set_status
from stepd.engine.work import Work
from stepd_protocol.times import TIME_MS_MAX, format_time


def fall_asleep(work: Work, compiled: CompiledStep, row: Step, environment: Environment, allowance: Allowance) -> None:
    """Evaluates when the sleep ends and sets its timer; one that is over already ends with the next sweep.

    Raises ExpressionFailed, and what evaluating raises.
    """
    assert compiled.sleep is not None
    ends_at = _end_of(work.now, compiled.sleep, environment, allowance)
    work.add_step(row)
    set_status(work, row, "waiting")
    row.parked = parking(work, row)
    row.due_at = row.timer_at = ends_at
    work.emit("wait.armed", row.step, row.index, data={"until": format_time(ends_at)})


def wake(work: Work, row: Step) -> None:
    """The sleep is over: the step succeeded, without an output."""
    work.emit("timer.fired", row.step, row.index)
    succeed_with(work, row, b"null", None)


def _end_of(now: int, sleep: CompiledSleep, environment: Environment, allowance: Allowance) -> int:
    try:
        if sleep.until is not None:
            return time_of(sleep.until.render(environment, allowance))
        seconds = None if sleep.seconds is None else sleep.seconds.render(environment, allowance)
        return min(now + milliseconds_of(seconds), TIME_MS_MAX)
    except ValueError as fault:
        what = "seconds" if sleep.until is None else "until"
        raise ExpressionFailed(f"{what}: {fault}") from None
