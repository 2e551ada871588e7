"""What parent and child do when they hear of each other: the child's beginning, how it stands, its end."""

from __future__ import annotations

from stepd.engine.advance import advance
from stepd.engine.canonical import decode, encode
from stepd.engine.children import block, let_go, note_writes, open_row, take_usage, unblock
from stepd.engine.commands import ChildBegun, ChildNews, ChildRefused, Done, ErrandDone, NewsTaken, error_json
from stepd.engine.ending import remove_at
from stepd.engine.model import ENDED, NO_INDEX, Execution, Step
from stepd.engine.results import fail_step, succeed_with
from stepd.engine.spending import own, whole
from stepd.engine.standing import standing_writes
from stepd.engine.work import Work

# -- the parent's side ------------------------------------------------------------------------------------------------


def begun(work: Work, command: ChildBegun) -> Done:
    """The child has been started."""
    row = open_row(work, command.ordinal, command.index, command.child_id)
    if row is not None:
        row.errand = None
        data: dict[str, object] = {"execution": row.child_id, "workflow": command.workflow, "version": command.version}
        work.emit("child.started", row.step, row.index, data=data)
    return Done(work.execution.status)


def refused(work: Work, command: ChildRefused) -> Done:
    """The child can't be started: the step fails."""
    row = open_row(work, command.ordinal, command.index, command.child_id)
    if row is not None:
        _never_begun(work, row, error_json("child_failed", command.message))
    return Done(work.execution.status)


def hear(work: Work, news: ChildNews) -> Done:
    """Hears how the child stands and what it has used; older news than those known change nothing.

    With the child the step ends.
    """
    row = open_row(work, work.definition.by_id[news.step], news.index, news.child_id)
    if row is None:
        return Done(work.execution.status)
    take_usage(work, row, news.usage_seq, news.usage)
    if news.seq <= row.child_seq:
        return Done(work.execution.status)
    row.child_seq = news.seq
    if news.status in ENDED:
        _end(work, row, news)
    elif news.status == "reconciliation_required":
        block(work, row, row.child_blocked_at or news.at)
    else:
        unblock(work, row)
    return Done(work.execution.status)


def errand_done(work: Work, command: ErrandDone) -> Done:
    """An errand was carried to the child; another may have taken its place since."""
    row = open_row(work, command.ordinal, command.index, command.child_id)
    if row is not None and row.errand == command.errand:
        row.errand = None
    return Done(work.execution.status)


def time_out(work: Work, row: Step) -> None:
    """The step's time is over: its child is asked to end, and the step fails once it has, unless it completes first."""
    row.timer_at = None
    work.emit("timer.fired", row.step, row.index, data={"why": "timeout"})
    error = error_json("timeout", "the child did not end within the step's timeout_seconds")
    if row.errand == "start":
        _never_begun(work, row, error)
    else:
        row.error, row.errand = error, "cancel"


def _never_begun(work: Work, row: Step, error: bytes) -> None:
    let_go(work, row)
    row.child_id = None
    fail_step(work, row, error)
    advance(work, row.ordinal)


def _end(work: Work, row: Step, news: ChildNews) -> None:
    """The child has ended: the step has its output, or fails; where the child was just cancelled too, it stays held."""
    let_go(work, row)
    data: dict[str, object] = {"execution": row.child_id, "status": news.status, "standing_writes": news.writes}
    work.emit("child.ended", row.step, row.index, data=data)
    if news.writes:
        note_writes(work, row)
    if news.status == "completed":
        output = news.output or b"null"
        succeed_with(work, row, output, decode(output))
    elif row.error is not None or not _left_held(work, news):
        fail_step(work, row, row.error or _child_failed(news))
    advance(work, row.ordinal)


def _left_held(work: Work, news: ChildNews) -> bool:
    """Whether the child was cancelled with its parent and nothing of it stands: then its step has not failed."""
    return work.execution.direction is not None and news.status == "cancelled" and not news.writes


def _child_failed(news: ChildNews) -> bytes:
    """The step's error: how the child ended, with the child's own error in the details."""
    error = None if news.error is None else decode(news.error)
    why = "" if error is None else f": {error['class']}: {error['message']}"
    details = {"execution": news.child_id, "status": news.status, "error": error}
    return error_json("child_failed", f"child {news.child_id} is {news.status}{why}", encode(details))


# -- the child's side -------------------------------------------------------------------------------------------------


def note_news(work: Work) -> None:
    """Notes that the parent has something to hear: the end, what is used, or that an operator is needed, or is no more.

    Until it has heard of the end, nothing removes the child.
    """
    execution, before = work.execution, work.loaded.execution.status
    if execution.parent_id is None:
        return
    if execution.below != work.loaded.execution.below or own(execution) != own(work.loaded.execution):
        execution.usage_seq += 1
        execution.news_at = execution.news_at or work.now
    if execution.status == before:
        return
    if execution.status in ENDED:
        execution.news_at, execution.remove_at = work.now, None
        execution.leaves_writes = bool(standing_writes(work))
    elif "reconciliation_required" in (execution.status, before):
        execution.news_at = work.now


def news_of(execution: Execution, output: bytes | None) -> ChildNews:
    """What a child has to tell its parent as it stands. ``output``: of a completed one."""
    return ChildNews(
        step=execution.parent_step or "",
        index=NO_INDEX if execution.parent_index is None else execution.parent_index,
        child_id=execution.id,
        seq=execution.seq,
        status=execution.status,
        at=execution.news_at or 0,
        output=output,
        error=execution.error,
        writes=execution.leaves_writes,
        usage_seq=execution.usage_seq,
        usage=whole(execution),
    )


def news_taken(work: Work, command: NewsTaken) -> Done:
    """The parent has heard what there was up to an event. An ended child is kept for its time from then on."""
    execution = work.execution
    if execution.news_at is not None and (execution.seq, execution.usage_seq) == (command.seq, command.usage_seq):
        execution.news_at = None
        work.changes.touched = True
        if execution.status in ENDED:
            execution.remove_at = remove_at(work)
    return Done(execution.status)
