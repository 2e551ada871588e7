"""Executions as callers see them: rows in, wire types out, and nothing in between that waits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Protocol, cast

import msgspec
from msgspec import UNSET, Raw, UnsetType

from stepd.engine.definition import Compiled, CompiledStep
from stepd.engine.model import (
    ENDED,
    ENDING,
    GOING,
    GRAPH_STATUS,
    NO_INDEX,
    Execution,
    Parked,
    Signal,
    Step,
    input_name,
    output_name,
)
from stepd.engine.standing import stands
from stepd.engine.tally import OPEN, tally_of
from stepd.service.attempts import Moments, attempt_views, error_info
from stepd.service.budgets import budget_view
from stepd.service.lives import Work
from stepd.service.money import usage_total
from stepd.store.base import ExecutionRows
from stepd_protocol.executions import (
    AttemptView,
    BlockedView,
    ExecutionError,
    ExecutionSummary,
    ExecutionView,
    ParentView,
    PausedView,
    SignalNotTaken,
    StandingWrite,
    StepView,
)
from stepd_protocol.fields import NULL
from stepd_protocol.names import Direction, ExecutionStatus, StepStatus
from stepd_protocol.times import format_time

PENDING_MARK = "p"
QUEUED_MARK = "q"
CHILD_DETAIL = "its child needs reconciliation"

_labels = msgspec.json.Decoder(dict[str, str]).decode


class Blocking(Protocol):
    """Tells why a claimable step stands."""

    def blocked(self, row: Step, now_ms: int) -> BlockedView | None:
        """Of a step's row."""

    def blocked_work(self, work: Work, since_ms: int, now_ms: int) -> BlockedView | None:
        """Of a step known by what it is only, claimable since then at the earliest."""


class _StoredError(msgspec.Struct):
    """An execution's error as its row keeps it."""

    class_: str = msgspec.field(name="class")
    message: str
    step: str | None = None
    cause: Raw = NULL


_error = msgspec.json.Decoder(_StoredError).decode


class Shown(msgspec.Struct, frozen=True):
    """What a view is made from."""

    rows: ExecutionRows
    definition: Compiled
    blocking: Blocking
    now_ms: int
    """The store's time."""
    include: Collection[str] = ()
    """``attempts``, ``payloads``, both or none."""
    moments: Moments = Moments()


def execution_view(shown: Shown) -> ExecutionView:
    """The whole view of one execution."""
    rows, definition = shown.rows, shown.definition
    execution = rows.execution
    by_ordinal = {row.ordinal: row for row in rows.steps if row.index == NO_INDEX}
    steps = [_step_view(shown, compiled, by_ordinal.get(compiled.ordinal)) for compiled in definition.steps]
    blocked = [step.blocked for step in steps if step.blocked is not None]
    return ExecutionView(
        **_common(execution, definition),
        standing_writes=_standing_writes(execution, definition, rows.standing_items),
        signals_not_taken=_signals_not_taken(rows.signals, payloads=True),
        blocked=min(blocked, key=lambda view: str(view.since)) if blocked else None,
        input=_payload(rows, "input"),
        output=_payload(rows, "output"),
        outcome=_payload(rows, "outcome"),
        state=_payload(rows, "state"),
        steps=steps,
    )


def execution_summary(
    execution: Execution, definition: Compiled, blocking: Blocking, now_ms: int, signals: Sequence[Signal] = ()
) -> ExecutionSummary:
    """The line of a list. Of a blocked step it knows only that it was queued after the execution began."""
    return ExecutionSummary(
        **_common(execution, definition),
        standing_writes=_standing_writes(execution, definition, ()),
        blocked=_blocked_from_graph(execution, definition, blocking, now_ms),
        signals_not_taken=_signals_not_taken(signals, payloads=False),
    )


def item_views(shown: Shown, compiled: CompiledStep) -> list[StepView]:
    """The items of a step that are among the rows, each as a step."""
    return [_step_view(shown, compiled, row) for row in shown.rows.steps]


def is_settled(status: str) -> bool:
    """Whether nothing happens any more without an operator."""
    return status in ENDED or status == "reconciliation_required"


def is_blocked(execution: Execution, definition: Compiled, is_served: Callable[[Work], bool]) -> bool:
    """Whether a claimable step of it is served by no live worker, or a child of it needs reconciliation."""
    return execution.blocked_child is not None or any(not is_served(work) for work in _claimable(execution, definition))


def time_or_null(ms: int | None) -> str | None:
    """A time that may be none."""
    return None if ms is None else format_time(ms)


def _common(execution: Execution, definition: Compiled) -> dict[str, Any]:
    """The members that list and view share."""
    return {
        "id": execution.id,
        "workflow": execution.workflow,
        "version": execution.version,
        "status": cast(ExecutionStatus, execution.status),
        "direction": cast(Direction, execution.direction or "forward"),
        "revision": execution.revision,
        "error": _error_view(execution.error),
        "correlation": execution.correlation,
        "tenant": execution.tenant,
        "labels": _labels(execution.labels),
        "usage": usage_total(execution),
        "budget": budget_view(execution),
        "paused": _paused(execution),
        "created_at": format_time(execution.created_at),
        "started_at": time_or_null(execution.started_at),
        "ended_at": time_or_null(execution.ended_at),
        "parent": _parent(execution),
    }


def _paused(execution: Execution) -> PausedView | None:
    if execution.status != "paused":
        return None
    return PausedView(reason=execution.pause_reason or "requested", since=time_or_null(execution.paused_at))


def _parent(execution: Execution) -> ParentView | UnsetType:
    if execution.parent_id is None:
        return UNSET
    index = None if execution.parent_index == NO_INDEX else execution.parent_index
    return ParentView(execution=execution.parent_id, step=execution.parent_step or "", index=index)


def _error_view(raw: bytes | None) -> ExecutionError | None:
    if raw is None:
        return None
    stored = _error(raw)
    cause = bytes(stored.cause)
    return ExecutionError(
        class_=stored.class_,
        message=stored.message,
        step=stored.step,
        cause=None if cause == b"null" else error_info(cause),
    )


def _standing_writes(
    execution: Execution, definition: Compiled, items: Iterable[tuple[int, int]]
) -> list[StandingWrite]:
    """Each item whose write stands; a list, which doesn't know of items, names the step once."""
    by_step: dict[int, list[int | None]] = {}
    for ordinal, index in items:
        by_step.setdefault(ordinal, []).append(index)
    return [
        StandingWrite(step=compiled.id, index=index)
        for compiled in definition.steps
        if stands(execution, compiled)
        for index in by_step.get(compiled.ordinal, [None])
    ]


def _signals_not_taken(signals: Sequence[Signal], *, payloads: bool) -> list[SignalNotTaken]:
    return [
        SignalNotTaken(
            name=signal.name,
            payload=Raw(signal.payload) if payloads and signal.payload else UNSET,
            at=format_time(signal.received_at),
        )
        for signal in signals
    ]


def _claimable(execution: Execution, definition: Compiled) -> list[Work]:
    """Steps that a claim could take now, as the graph has them: none while paused, while ending compensations only."""
    if execution.status not in GOING | ENDING:
        return []
    ending = execution.status in ENDING
    return [
        Work(execution.workflow, execution.version, compiled.id, execution.tenant)
        for compiled in definition.steps
        if execution.graph[compiled.ordinal] == QUEUED_MARK and not (ending and compiled.undoes is None)
    ]


def _blocked_from_graph(
    execution: Execution, definition: Compiled, blocking: Blocking, now_ms: int
) -> BlockedView | None:
    if execution.blocked_child is not None:
        return BlockedView(code="child_reconciliation", execution=execution.blocked_child, detail=CHILD_DETAIL)
    since = execution.started_at or execution.start_at or execution.created_at
    views = [blocking.blocked_work(work, since, now_ms) for work in _claimable(execution, definition)]
    return next((view for view in views if view is not None), None)


def _step_view(shown: Shown, compiled: CompiledStep, row: Step | None) -> StepView:
    rows, with_payloads = shown.rows, "payloads" in shown.include
    attempts: list[AttemptView] | UnsetType = UNSET
    if "attempts" in shown.include:
        index = NO_INDEX if row is None else row.index
        attempts = attempt_views(compiled, index, rows, shown.moments, payloads=with_payloads)
    if row is None:
        return _step_without_row(rows.execution, compiled, attempts)
    input_ = input_name(row.ordinal, row.index) if row.own_input else "input"
    return StepView(
        id=compiled.id,
        index=None if row.index == NO_INDEX else row.index,
        status=cast(StepStatus, row.status),
        attempt=row.last_attempt,
        effect=compiled.effect,
        next_attempt_at=time_or_null(row.due_at if row.status == "retry_wait" else None),
        error=None if row.error is None else error_info(row.error),
        blocked=_blocked(shown, row),
        held=_is_held(rows.execution, row),
        caught=row.caught,
        items=UNSET if row.items is None else tally_of(row).counts,
        attempts=attempts,
        child=UNSET if row.child_id is None else row.child_id,
        input=_payload(rows, input_) if with_payloads else UNSET,
        output=_payload(rows, output_name(row.ordinal, row.index)) if with_payloads else UNSET,
    )


def _blocked(shown: Shown, row: Step) -> BlockedView | None:
    if row.parked == Parked.ITEMS and row.status == "queued" and shown.rows.execution.status in GOING:
        work = Work(row.workflow, row.version, row.step, row.tenant)
        return shown.blocking.blocked_work(work, row.queued_at or shown.now_ms, shown.now_ms)
    if row.child_blocked_at is None or row.child_id is None:
        return shown.blocking.blocked(row, shown.now_ms)
    return BlockedView(
        code="child_reconciliation",
        since=format_time(row.child_blocked_at),
        detail=CHILD_DETAIL,
        execution=row.child_id,
    )


def _is_held(execution: Execution, row: Step) -> bool:
    """Whether the ending holds it; a step with items as long as it is open, for what is left of them is held."""
    if row.parked != Parked.ITEMS:
        return row.parked == Parked.HELD
    return row.status in OPEN and execution.direction is not None and execution.status not in ENDED


def _step_without_row(
    execution: Execution, compiled: CompiledStep, attempts: list[AttemptView] | UnsetType
) -> StepView:
    """A step that was not evaluated yet, or never will be."""
    mark = execution.graph[compiled.ordinal]
    return StepView(
        id=compiled.id,
        index=None,
        status=cast(StepStatus, GRAPH_STATUS[mark]),
        attempt=0,
        effect=compiled.effect,
        next_attempt_at=None,
        error=None,
        blocked=None,
        held=mark == PENDING_MARK and execution.direction is not None and execution.status not in ENDED,
        attempts=attempts,
    )


def _payload(rows: ExecutionRows, name: str) -> Raw:
    raw = rows.payloads.get(name)
    return NULL if raw is None else Raw(raw)
