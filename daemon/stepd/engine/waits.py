"""Waits: armed for the whole of their time-out, resumed by one signal each, or over when nothing came in time."""

from __future__ import annotations

from collections.abc import Iterator

from stepd.engine.canonical import decode
from stepd.engine.commands import error_json
from stepd.engine.definition import CompiledStep
from stepd.engine.definition_kinds import CompiledWait
from stepd.engine.model import Signal, Step
from stepd.engine.results import fail_step, skip_row, succeed_with
from stepd.engine.standing import parking, set_status
from stepd.engine.work import Work
from stepd_protocol.times import format_time

WAITING_MARK = "W"
OPEN_WAIT_MARKS = frozenset({"p", WAITING_MARK})


def arm(work: Work, row: Step) -> None:
    """Arms a wait, also one that was armed before: its whole time-out begins now. A kept signal that fits takes it."""
    compiled = work.definition.steps[row.ordinal]
    wait = wait_of(compiled)
    set_status(work, row, "waiting")
    row.parked = parking(work, row)
    row.queued_at = work.now
    row.timer_at = None if compiled.timeout_ms is None else work.now + compiled.timeout_ms
    timeout_at = None if row.timer_at is None else format_time(row.timer_at)
    work.emit("wait.armed", row.step, row.index, data={"event": wait.event, "timeout_at": timeout_at})
    _give_kept(work, [row])


def arm_again(work: Work) -> list[Step]:
    """Arms every wait that an ending held, each with its whole time-out: the execution goes on after all.

    Answers the rows that a kept signal resumed at once.
    """
    rows = [work.change_step(row.ordinal) for row in _armed(work)]
    for row in rows:
        if work.execution.direction is None:
            arm(work, row)
    return [row for row in rows if row.status != "waiting"]


def take_kept(work: Work) -> None:
    """Gives kept signals to the armed waits that they fit: what came during a pause counts when it ends."""
    _give_kept(work, _armed(work))


def open_waits(work: Work, event: str) -> Iterator[CompiledStep]:
    """The waits for this event that are not over, in the order of the definition."""
    for compiled in work.definition.steps:
        is_open = work.mark(compiled.ordinal) in OPEN_WAIT_MARKS
        if is_open and compiled.wait is not None and compiled.wait.event == event:
            yield compiled


def armed_first(work: Work, ordinals: list[int]) -> Step | None:
    """Of these waits the one that was armed first, then the earlier in the definition. Raises Missing."""
    armed = [ordinal for ordinal in ordinals if work.mark(ordinal) == WAITING_MARK]
    return next(iter(_in_order(work.some_steps(armed))), None)


def resume(work: Work, ordinal: int, signal: Signal) -> None:
    """The signal takes the wait: its payload is the step's output."""
    row = work.change_step(ordinal)
    work.emit("wait.resumed", row.step, row.index, data={"event": signal.name, "signal": signal.number})
    payload, signal.payload = signal.payload, b""
    signal.taken_by = row.ordinal
    succeed_with(work, row, payload, decode(payload))


def time_out(work: Work, row: Step) -> None:
    """Nothing came in time: the step fails, class ``wait_timeout``, or is skipped."""
    wait = wait_of(work.definition.steps[row.ordinal])
    work.emit("wait.timed_out", row.step, row.index, data={"on_timeout": wait.on_timeout})
    if wait.on_timeout == "skip":
        skip_row(work, row, f"no signal {wait.event} came within its timeout_seconds")
    else:
        message = f"no signal {wait.event} came within the step's timeout_seconds"
        fail_step(work, row, error_json("wait_timeout", message))


def wait_of(compiled: CompiledStep) -> CompiledWait:
    """What a step of kind ``wait`` waits for."""
    assert compiled.wait is not None
    return compiled.wait


def _armed(work: Work) -> list[Step]:
    """The armed waits: the one armed first in front, then by their order in the definition. Raises Missing."""
    ordinals = [
        compiled.ordinal
        for compiled in work.definition.steps
        if compiled.wait is not None and work.mark(compiled.ordinal) == WAITING_MARK
    ]
    return _in_order(work.some_steps(ordinals))


def _in_order(rows: list[Step]) -> list[Step]:
    return sorted(rows, key=lambda row: (row.queued_at or 0, row.ordinal))


def _give_kept(work: Work, rows: list[Step]) -> None:
    """Gives each of the waits, one after the other, the kept signal of its name that came first of those that fit."""
    if work.execution.signals_kept == 0:
        return
    given: dict[int, int] = {}
    for row in rows:
        event, fits = wait_of(work.definition.steps[row.ordinal]).event, f" {row.ordinal} "
        kept = work.kept_signals(event)
        number = next((one.number for one in kept if fits in one.fits and one.number not in given), None)
        if number is not None:
            given[number] = row.ordinal
    for signal in work.take_signals(list(given)):
        if work.execution.direction is None:
            work.execution.signals_kept -= 1
            resume(work, given[signal.number], signal)
