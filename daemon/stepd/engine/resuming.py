"""How an execution that needed reconciliation goes on: steps are told, released and queued again, by its direction."""

from __future__ import annotations

import msgspec

from stepd.engine.advance import advance
from stepd.engine.canonical import encode
from stepd.engine.catching import catch_or_fail, succeed
from stepd.engine.commands import Conflict, Resolve
from stepd.engine.compensating import lacks_compensation
from stepd.engine.ending import conclude
from stepd.engine.judging import Foreign, Judgement, Telling, Wrong
from stepd.engine.model import NO_INDEX, OUTSIDE, Event, Execution, Parked, Step
from stepd.engine.renewing import begin_again, follow_items, follows_items, is_whole, renew_item
from stepd.engine.resolutions import ResumeWith, Unresolvable
from stepd.engine.results import error_of_step
from stepd.engine.standing import (
    is_compensation,
    is_item,
    note_success,
    note_undone,
    queue,
    revise,
    set_due,
    set_status,
    settle_row,
)
from stepd.engine.waits import arm_again
from stepd.engine.work import Work

NO_WAY_ON = frozenset({"finish_invalid", "checkpoint_mismatch"})
"""Classes of failures that the same steps would only lead to again."""


def resume_with(work: Work, command: Resolve, resolution: ResumeWith) -> Conflict | Unresolvable | None:
    """Tells the steps and goes on in the direction that the execution had; says why it is refused, else None."""
    execution = work.execution
    if execution.direction == "forward" and _leads_nowhere(execution):
        why = "the same steps would only lead to the same failure again: close it, or cancel it first"
        return Conflict("not_resolvable", execution.status, execution.id, why)
    judged = _judge(work, resolution)
    if not isinstance(judged, _Told):
        return judged
    told = _tell_resolved(work)
    if judged.state is not None:
        work.changes.payloads["state"] = judged.state
        revise(work)
    again = [telling for telling in judged.tellings if telling.becomes == "again"]
    following = [row for row in work.own_rows() if follows_items(row)]
    failed = _settle(work, judged.tellings)
    if execution.direction == "forward" and failed is None:
        _go_on(work, again, following)
    else:
        _end_on(work, again, failed, following)
    told.data = _resolved_data(work, command, resolution)
    return None


class _Told(msgspec.Struct, frozen=True):
    """What the results come to."""

    tellings: list[Telling]
    state: bytes | None


def _judge(work: Work, resolution: ResumeWith) -> _Told | Conflict | Unresolvable:
    judgement = Judgement(work)
    tellings: list[Telling] = []
    wrong: list[Wrong] = []
    for number, result in enumerate(resolution.results):
        judged = judgement.judge(result)
        match judged:
            case Foreign():
                why = f"the stored effect of step {result.step} is not its definition's"
                return Conflict("not_resolvable", work.execution.status, work.execution.id, why)
            case Wrong():
                wrong.append(msgspec.structs.replace(judged, place=f"/results/{number}{judged.place}"))
            case Telling():
                tellings.append(judged)
            case None:
                pass
    wrong += [Wrong("/results", f"{_named(row)} is uncertain: say what became of it") for row in judgement.untold()]
    wrong += [
        Wrong("/results", f"{_named(row)} failed, but a write of its child stands: say what became of it")
        for row in _failed(work)
        if row.standing_seq is not None and not judgement.was_named(row)
    ]
    if wrong:
        faults = tuple((one.place, one.message) for one in wrong)
        return Unresolvable(faults, only_outputs=all(one.is_output for one in wrong))
    return _Told(tellings, judgement.state)


def _settle(work: Work, tellings: list[Telling]) -> bytes | None:
    """Settles the steps that are told to have ended; answers the first failure that nothing caught."""
    failed = None
    for telling in tellings:
        if telling.becomes == "again":
            continue
        row = work.change_step(telling.ordinal, telling.index)
        row.fence += 1
        if telling.becomes == "succeeded":
            note_success(work, row)
            succeed(work, row, telling.output)
            work.emit("step.succeeded", row.step, row.index, data={"by": "resolution"})
            continue
        row.effect, row.spent = telling.effect, telling.spent
        error = catch_or_fail(work, row, telling.error)
        if error is not None and failed is None:
            failed = error_of_step(error, row.step)
    return failed


def _go_on(work: Work, again: list[Telling], following: list[Step]) -> None:
    """The graph goes on: what failed has a fresh budget, what was held is released, the time-out counts anew."""
    execution = work.execution
    failed = _failed(work)
    execution.direction, execution.status, execution.error = None, "queued", None
    execution.forced = execution.leave_standing = False
    timeout_ms = work.definition.timeout_ms
    execution.deadline_at = None if timeout_ms is None else work.now + timeout_ms
    set_due(execution)
    told = {(telling.ordinal, telling.index) for telling in again}
    for telling in again:
        _again(work, telling)
    for row in failed:
        is_told = (row.ordinal, row.index) in told or _is_one_of(row, following)
        if not is_told and not is_compensation(work, row.ordinal):
            _again(work, Telling(row.ordinal, row.index, "again"))
    follow_items(work, following)
    for row in work.rows():
        if row.parked == Parked.HELD:
            _release(work, work.change_step(row.ordinal, row.index))
    arm_again(work)
    advance(work)


def _end_on(work: Work, again: list[Telling], failed: bytes | None, following: list[Step]) -> None:
    """The ending goes on by its rules: nothing of the graph runs any more, only the compensations that are left."""
    execution = work.execution
    execution.forced = False
    if execution.direction != "forward":
        execution.mismatch = False
    if failed is not None and not execution.cancel_requested:
        execution.error = failed
    execution.status = "cancelling" if execution.cancel_requested else "failing"
    error = None if execution.error is None else msgspec.Raw(execution.error)
    work.emit(f"execution.{execution.status}", data={"error": error, "reason": execution.cancel_reason})
    for telling in again:
        # A write that may be tried again, but has something behind it, is in doubt again where it won't be.
        if telling.effect == "none" or is_compensation(work, telling.ordinal):
            _again(work, telling)
    follow_items(work, following)
    if execution.direction == "compensate":
        for row in _failed(work):
            if _has_something_to_undo(work, row):
                _again(work, Telling(row.ordinal, row.index, "again"))
        execution.leave_standing = execution.leave_standing or lacks_compensation(work)
    conclude(work)


def _has_something_to_undo(work: Work, row: Step) -> bool:
    """Whether the row is a compensation, and what it undoes still stands: it may have been told ``absent``."""
    undone = work.definition.steps[row.ordinal].undoes
    success = None if undone is None else work.step(undone, row.index)
    return success is not None and success.standing_seq is not None


def _again(work: Work, telling: Telling) -> None:
    """Queues a row again; one that has no input of its own is pending again, and will be evaluated anew."""
    row = work.change_step(telling.ordinal, telling.index)
    compiled = work.definition.steps[row.ordinal]
    row.fence += 1
    row.spent, row.effect, row.interruptions, row.shunned = telling.spent, telling.effect, 0, None
    if telling.spent == 0 and telling.effect == "none":
        row.fresh_fence = row.fence
    settle_row(row)
    if row.standing_seq is not None:
        note_undone(work, row)
    if is_whole(work, row):
        begin_again(work, row)
    elif is_item(work, row) and (compiled.kind == "workflow" or row.input_hash is None):
        renew_item(work, row)
    elif compiled.kind == "task" and row.input_hash is not None:
        queue(work, row)
    else:
        _evaluate_anew(work, row)


def _evaluate_anew(work: Work, row: Step) -> None:
    compensates = is_compensation(work, row.ordinal)
    set_status(work, row, "pending", OUTSIDE if compensates else None)
    work.drop_step(row)


def _release(work: Work, row: Step) -> None:
    """What was held may go on: a stand in the queue begins anew, other timers keep their time."""
    row.parked = int(Parked.FREE)
    if row.status == "queued":
        queue(work, row)
    elif work.definition.steps[row.ordinal].kind == "workflow":  # its child was cancelled with it
        if is_item(work, row):
            renew_item(work, row)
        else:
            _evaluate_anew(work, row)
    if row.status == "retry_wait":
        row.due_at = work.now if row.due_at is None else row.due_at
        row.timer_at = row.due_at


def _failed(work: Work) -> list[Step]:
    return [row for row in work.rows() if row.status == "failed"]


def _is_one_of(row: Step, rows: list[Step]) -> bool:
    return any((row.ordinal, row.index) == (one.ordinal, one.index) for one in rows)


def _leads_nowhere(execution: Execution) -> bool:
    error = None if execution.error is None else msgspec.json.decode(execution.error)
    return execution.mismatch or (error is not None and error["class"] in NO_WAY_ON)


def _named(row: Step) -> str:
    return f"step {row.step}" if row.index == NO_INDEX else f"item {row.index} of step {row.step}"


def _tell_resolved(work: Work) -> Event:
    """The event stands in front of those of the steps; what it says is known when they are."""
    work.emit("execution.resolved")
    return work.changes.events[-1]


def _resolved_data(work: Work, command: Resolve, resolution: ResumeWith) -> bytes:
    steps = work.definition.steps
    return encode(
        {
            "action": "resume",
            "results": [{**_shown(one.step, one.index), "outcome": one.outcome} for one in resolution.results],
            "anew": [_shown(steps[ordinal].id, index) for ordinal, index in sorted(work.dropped | work.renewed)],
            "operator": command.actor.principal,
            "evidence": {"reference": command.reference, "reason": command.reason},
        }
    )


def _shown(step: str, index: int) -> dict[str, object]:
    return {"step": step, "index": None if index == NO_INDEX else index}
