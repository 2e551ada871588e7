"""What a resolution makes of steps that have items or rounds: those are told one by one, and the step follows them."""

from __future__ import annotations

from collections.abc import Sequence

from stepd.engine.model import NO_INDEX, Parked, Step
from stepd.engine.standing import has_items, set_status
from stepd.engine.tally import Tally, keep_tally, tally_of
from stepd.engine.work import Work


def follows_items(row: Step) -> bool:
    """Whether a step's own row is ``failed`` or ``uncertain`` because an item is, which is then told instead."""
    return row.index == NO_INDEX and row.items is not None and tally_of(row).count("failed", "uncertain") > 0


def follow_items(work: Work, rows: Sequence[Step]) -> None:
    """After their items were told, these steps are again what those make of them."""
    for known in rows:
        row = work.change_step(known.ordinal)
        tally = tally_of(row)
        if tally.count("uncertain"):
            continue
        if tally.count("failed"):
            if row.status != "failed":
                _become(work, row, "failed", tally)
            continue
        row.error = None
        _become(work, row, tally.status, tally)


def begin_again(work: Work, row: Step) -> None:
    """A step that failed although its items have succeeded is tried again: with as many rounds more as it may have."""
    tally = tally_of(row)
    tally.since = tally.total
    keep_tally(row, tally)
    row.error, row.effect = None, "none"
    _become(work, row, tally.status, tally)


def renew_item(work: Work, row: Step) -> None:
    """An item or round that failed before it had an input is evaluated anew."""
    set_status(work, row, "pending")
    row.parked, row.error = int(Parked.FREE), None
    work.renewed.add((row.ordinal, row.index))


def is_whole(work: Work, row: Step) -> bool:
    """Whether this is the own row of a step whose items or rounds have rows."""
    return row.index == NO_INDEX and row.items is not None and has_items(work, row.ordinal)


def _become(work: Work, row: Step, status: str, tally: Tally) -> None:
    set_status(work, row, status)
    row.parked = int(Parked.ITEMS)
    type_ = "step.failed" if status == "failed" else "step.held" if work.execution.direction else "step.queued"
    work.emit(type_, row.step, data={"items": tally.left, "status": status})
