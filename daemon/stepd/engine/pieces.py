"""How a trace tells what lasts long: in pieces of a bounded length, each told as soon as it is over.

A span can be sent only when it has ended, so that one of an execution that waits for days, or of a body that works for
hours, would be seen by nobody meanwhile. The first piece bears the span id of the whole. Where nothing happened for
longer than a piece, there is none for that time.
"""

from __future__ import annotations

from hashlib import sha256

import msgspec

from stepd.engine.model import Attempt, Execution, SpanRow
from stepd.engine.work import Work

NO_ATTEMPT = ""
"""``attempt_id`` of the spans of the execution itself."""


class Piece(msgspec.Struct, frozen=True):
    """A stretch of an execution or an attempt that is over; times in ms since the epoch."""

    piece: int
    """When it began."""
    end: int
    before: int | None = None
    """When the piece before it began."""
    is_last: bool = False


class Told(msgspec.Struct, frozen=True):
    """A piece that a decision ended, and of what; ``attempt`` None: of the execution itself."""

    piece: Piece
    attempt: Attempt | None
    step: str | None


read_piece = msgspec.json.Decoder(Piece).decode
"""Reads the body of a kept piece."""
keep_piece = msgspec.json.Encoder().encode

_MARK = b'{"piece":'


def is_piece(body: bytes) -> bool:
    """Whether the body of a kept span is that of a piece."""
    return body.startswith(_MARK)


def execution_span_id(execution: Execution) -> str:
    """The span of the execution itself: the last half of its id."""
    return execution.id.replace("-", "")[16:]


def piece_span_id(whole: str, began: int, first: int) -> str:
    """The span of a piece that began then, of something whose own span is ``whole`` and that began at ``first``."""
    return whole if began == first else sha256(f"{whole}:{began}".encode()).hexdigest()[:16]


def cut(work: Work) -> None:
    """Ends the pieces that are over with this decision: those of what has ended, and those that are long enough."""
    for attempt in work.changes.attempts.values():
        before = work.loaded.attempts.get(attempt.id)
        if before is not None and before.ended_at is None:
            _cut_attempt(work, attempt)
    if work.loaded.execution.ended_at is None and not work.changes.empty:
        _cut_execution(work)


def _cut_attempt(work: Work, attempt: Attempt) -> None:
    for piece in _over(work, attempt, attempt.leased_at):
        step = work.definition.steps[attempt.ordinal].id
        work.changes.pieces.append(Told(piece, attempt, step))
        if not piece.is_last:
            _keep(work, attempt.id, piece_span_id(attempt.span_id, piece.piece, attempt.leased_at), piece)


def _cut_execution(work: Work) -> None:
    execution = work.execution
    for piece in _over(work, execution, execution.created_at):
        work.changes.pieces.append(Told(piece, None, None))
        if not piece.is_last:
            span_id = piece_span_id(execution_span_id(execution), piece.piece, execution.created_at)
            _keep(work, NO_ATTEMPT, span_id, piece)


def _over(work: Work, of: Execution | Attempt, first: int) -> list[Piece]:
    """The pieces that are over; what is left goes on in a piece that begins on the grid of its length."""
    length = work.settings.piece_ms
    began = first if of.piece_at is None else of.piece_at
    if work.now - began < length and of.ended_at is None:
        return []
    found = []
    if work.now - began >= length:
        found.append(Piece(began, began + length, of.piece_before))
        of.piece_before, began = began, began + (work.now - began) // length * length
        of.piece_at = began
    if of.ended_at is not None:
        found.append(Piece(began, max(began, of.ended_at), of.piece_before, is_last=True))
    return found


def _keep(work: Work, attempt_id: str, span_id: str, piece: Piece) -> None:
    work.changes.spans.append(SpanRow(attempt_id, span_id, keep_piece(piece), fresh=False))
