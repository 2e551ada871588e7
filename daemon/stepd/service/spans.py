"""The spans of a trace: those of an execution and its attempts, whole or in pieces, and those that workers sent."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from stepd.engine.model import NO_INDEX, Attempt, Execution
from stepd.engine.pieces import Piece, execution_span_id, is_piece, piece_span_id, read_piece
from stepd.service.traces import caller_span_id
from stepd_protocol.executions import SpanView
from stepd_protocol.leases import Span, Usage
from stepd_protocol.names import SpanStatus

_span = msgspec.json.Decoder(Span).decode
_usage = msgspec.json.Decoder(list[Usage]).decode

_EXECUTION_STATUS: dict[str, SpanStatus] = {"completed": "ok", "failed": "error", "cancelled": "error"}
_ATTEMPT_STATUS: dict[str, SpanStatus] = {"succeeded": "ok", "failed": "error", "lost": "error"}


def execution_span(execution: Execution, piece: Piece | None = None) -> SpanView:
    """A piece of the execution's own span; without one given, the piece that is not over, or was the last."""
    whole, first = execution_span_id(execution), execution.created_at
    stretch = _Stretch(execution, first, piece)
    attributes: dict[str, Any] = {
        "stepd.execution.id": execution.id,
        "stepd.workflow": execution.workflow,
        "stepd.version": execution.version,
    }
    if stretch.is_last:
        attributes["stepd.execution.status"] = execution.status
        attributes |= _error_type(execution.error)
    return SpanView(
        span_id=piece_span_id(whole, stretch.began, first),
        parent_span_id=caller_span_id(execution) if stretch.began == first else whole,
        previous_span_id=stretch.previous(whole),
        name=execution.workflow,
        kind="internal",
        start_unix_nano=_nano(stretch.began),
        end_unix_nano=None if stretch.end is None else _nano(stretch.end),
        status=_EXECUTION_STATUS.get(execution.status, "unset") if stretch.is_last else "unset",
        attributes=attributes,
        usage=None,
        step=None,
        index=None,
        attempt=None,
        worker=None,
    )


def attempt_span(execution: Execution, attempt: Attempt, step: str, piece: Piece | None = None) -> SpanView:
    """A piece of an attempt's own span; without one given, the piece that is not over, or was the last."""
    whole, first = attempt.span_id, attempt.leased_at
    stretch = _Stretch(attempt, first, piece)
    index = _index(attempt)
    attributes: dict[str, Any] = {
        "stepd.execution.id": execution.id,
        "stepd.step": step,
        "stepd.attempt": attempt.number,
        "stepd.worker": attempt.worker,
    }
    if index is not None:
        attributes["stepd.index"] = index
    attributes["stepd.attempt.status"] = attempt.status if stretch.is_last else "running"
    if stretch.is_last:
        attributes |= _error_type(attempt.error)
    return SpanView(
        span_id=piece_span_id(whole, stretch.began, first),
        parent_span_id=execution_span_id(execution) if stretch.began == first else whole,
        previous_span_id=stretch.previous(whole),
        name=step,
        kind="internal",
        start_unix_nano=_nano(stretch.began),
        end_unix_nano=None if stretch.end is None else _nano(stretch.end),
        status=_ATTEMPT_STATUS.get(attempt.status, "unset") if stretch.is_last else "unset",
        attributes=attributes,
        usage=_usage(attempt.usage) if attempt.usage is not None and stretch.is_last else None,
        step=step,
        index=index,
        attempt=attempt.number,
        worker=attempt.worker,
    )


def kept_span(execution: Execution, attempt: Attempt | None, step: str | None, body: bytes) -> SpanView:
    """A span as it is kept: one that a worker sent, or a piece that is over; without an attempt, of the execution."""
    if is_piece(body):
        piece = read_piece(body)
        if attempt is None or step is None:
            return execution_span(execution, piece)
        return attempt_span(execution, attempt, step, piece)
    return worker_span(attempt, step, _span(body))


def worker_span(attempt: Attempt | None, step: str | None, span: Span) -> SpanView:
    """A span that a worker sent; under none of the attempts where it is not known whose it is."""
    return SpanView(
        span_id=span.span_id,
        parent_span_id=span.parent_span_id or (None if attempt is None else attempt.span_id),
        name=span.name,
        kind=span.kind,
        start_unix_nano=span.start_unix_nano,
        end_unix_nano=span.end_unix_nano,
        status=span.status,
        attributes=span.attributes,
        usage=span.usage,
        step=step,
        index=None if attempt is None else _index(attempt),
        attempt=None if attempt is None else attempt.number,
        worker=None if attempt is None else attempt.worker,
    )


class _Stretch:
    """From when to when a span lasts, and the piece before it."""

    __slots__ = ("_before", "_first", "began", "end", "is_last")

    def __init__(self, of: Execution | Attempt, first: int, piece: Piece | None) -> None:
        self._first = first
        if piece is None:
            self.began = first if of.piece_at is None else of.piece_at
            self.end = None if of.ended_at is None else max(self.began, of.ended_at)
            self._before = of.piece_before
            self.is_last = True
        else:
            self.began, self.end, self._before, self.is_last = piece.piece, piece.end, piece.before, piece.is_last

    def previous(self, whole: str) -> str | UnsetType:
        return UNSET if self._before is None else piece_span_id(whole, self._before, self._first)


def _error_type(error: bytes | None) -> dict[str, str]:
    """The class of a failure, by the name that the semantic conventions have for it."""
    return {} if error is None else {"error.type": msgspec.json.decode(error)["class"]}


def _index(attempt: Attempt) -> int | None:
    return None if attempt.index == NO_INDEX else attempt.index


def _nano(ms: int) -> str:
    return str(ms * 1_000_000)
