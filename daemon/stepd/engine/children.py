"""What a parent's rows say of the children of its ``workflow`` steps, and how those are armed, asked to end and let go.

Parent and child are never changed in one transaction, but for the child's beginning. What one has to tell the other
stands in its own rows as an errand (``Step.errand``, ``Execution.news_at``) until it was carried, so that no crash
between the two loses it.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

import msgspec

from stepd.engine.canonical import digest
from stepd.engine.commands import Actor, Parent, Start
from stepd.engine.definition import Compiled, CompiledStep
from stepd.engine.faults import StepFailed
from stepd.engine.model import NO_INDEX, Execution, Step
from stepd.engine.spending import NOTHING, Spent, below, changed, in_currency, keep_spent
from stepd.engine.standing import note_standing, parking, set_status
from stepd.engine.tally import tally_of
from stepd.engine.work import Work
from stepd_protocol.times import format_time


class _Told(msgspec.Struct, frozen=True):
    """What a child told of its usage last: the change's number, and the sums."""

    number: int = 0
    used: Spent = NOTHING


_read_told = msgspec.json.Decoder(_Told).decode

DEPTH_MAX = 10
"""How many executions may stand above one."""
UUID_VERSION = 7 << 76
UUID_VARIANT = 2 << 62
UUID_LOW_BITS = 62


def check_depth(work: Work) -> None:
    """Raises StepFailed where no child may stand below this execution."""
    if work.execution.depth >= DEPTH_MAX:
        raise StepFailed("child_failed", f"a child would have more than {DEPTH_MAX} executions above it")


def arm_child(work: Work, compiled: CompiledStep, row: Step) -> None:
    """Makes a step wait for a child, which is to be started with the input that the row has got."""
    row.child_id, row.child_open, row.child_seq, row.child_usage = _child_id(work, row), True, 0, None
    row.errand = "start"
    work.execution.children += 1
    work.add_step(row)
    _show(work, row)
    set_status(work, row, "waiting")
    row.parked = parking(work, row)
    row.timer_at = None if compiled.timeout_ms is None else work.now + compiled.timeout_ms
    timeout_at = None if row.timer_at is None else format_time(row.timer_at)
    work.emit("wait.armed", row.step, row.index, data={"child": row.child_id, "timeout_at": timeout_at})


def start_of(definition: Compiled, execution: Execution, row: Step, input_: bytes) -> tuple[Start, str | None]:
    """The start of the child that an armed step waits for, and the version it names (None: the current one)."""
    compiled = definition.steps[row.ordinal]
    start = Start(
        id=row.child_id or "",
        workflow=compiled.workflow or "",
        actor=Actor(execution.principal),
        tenant=execution.tenant,
        correlation=execution.correlation,
        labels=execution.labels,
        priority=execution.priority,
        input=input_,
        input_hash=row.input_hash or digest(input_),
        state=b"{}",
        start_at=None,
        on_restart=None,
        exclusive=None,
        traceparent=_traceparent(execution),
        parent=Parent(execution.id, row.step, row.index, execution.depth + 1),
    )
    return start, compiled.version


def open_row(work: Work, ordinal: int, index: int, child_id: str) -> Step | None:
    """The row that waits for this child, to be changed; None where none does any more. Raises Missing."""
    row = work.step(ordinal, index)
    if row is None or row.child_id != child_id or not row.child_open:
        return None
    return work.change_step(ordinal, index)


def ask_to_end(work: Work) -> None:
    """Every open child is to be cancelled, by force where the parent is forced; one not begun never will be."""
    if work.execution.children == 0:
        return
    errand = "force" if work.execution.forced else "cancel"
    for row in list(_open_rows(work)):
        changed = work.change_step(row.ordinal, row.index)
        if row.errand == "start":
            let_go(work, changed)
            changed.child_id = None
        else:
            changed.errand = errand


def take_usage(work: Work, row: Step, number: int, used: Spent) -> None:
    """Counts what the child has used, as it told with the change of this number; what it told before is taken out."""
    before = _Told() if row.child_usage is None else _read_told(row.child_usage)
    if number <= before.number:
        return
    total = below(work.execution)
    used = in_currency(used, total.currency)
    work.execution.below = keep_spent(changed(total, before.used, used))
    row.child_usage = keep_spent(_Told(number, used))


def let_go(work: Work, row: Step) -> None:
    """Nothing is waited for any more: the child has ended, or was never begun."""
    unblock(work, row)
    row.child_open, row.errand, row.timer_at = False, None, None
    work.execution.children -= 1


def block(work: Work, row: Step, since: int) -> None:
    """The child needs an operator, and so does its parent, in a way."""
    row.child_blocked_at = since
    _show(work, row)
    work.execution.blocked_child = work.execution.blocked_child or row.child_id


def unblock(work: Work, row: Step) -> None:
    """The child needs no operator, or no more."""
    if row.child_blocked_at is None:
        return
    row.child_blocked_at = None
    _show(work, row)
    if work.execution.blocked_child == row.child_id:
        others = (other.child_id for other in _open_rows(work) if other.child_blocked_at is not None)
        work.execution.blocked_child = next(others, None)


def note_writes(work: Work, row: Step) -> None:
    """The child has ended with a write that stands: the step counts as a write that succeeded."""
    row.standing_seq = work.execution.seq
    note_standing(work, row.ordinal, stand=True)


def _show(work: Work, row: Step) -> None:
    """The child of a round shows on the step too, whose last round it is."""
    if row.index != NO_INDEX:
        whole = work.change_step(row.ordinal)
        whole.child_id, whole.child_blocked_at = row.child_id, row.child_blocked_at


def _open_rows(work: Work) -> Iterator[Step]:
    for compiled in work.definition.steps:
        if compiled.kind == "workflow" and work.mark(compiled.ordinal) == "W":
            row = work.step(compiled.ordinal)
            if row is not None and compiled.has_items:
                row = work.step(compiled.ordinal, tally_of(row).total - 1)
            if row is not None and row.child_open:
                yield row


def _child_id(work: Work, row: Step) -> str:
    """A UUIDv7 of now, which no other step, and no other arming of this one, comes to."""
    source = f"{row.idempotency_key} {work.execution.seq}".encode()
    tail = int.from_bytes(sha256(source).digest()[:10], "big")
    high, low = tail >> UUID_LOW_BITS & 0xFFF, tail & (1 << UUID_LOW_BITS) - 1
    digits = f"{(work.now << 80) | UUID_VERSION | (high << 64) | UUID_VARIANT | low:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _traceparent(execution: Execution) -> str:
    """The child's place in the trace: below its parent."""
    hexadecimal = execution.id.replace("-", "")
    given = execution.traceparent or f"00-{hexadecimal}-{'0' * 16}-01"
    return f"{given[:36]}{hexadecimal[16:]}{given[52:]}"
