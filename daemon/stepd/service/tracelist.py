"""The trace of an execution as a flat list, page by page: its own span, its attempts, and what workers sent."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from stepd.engine.definition import Compiled
from stepd.engine.model import Execution
from stepd.service.answers import no_execution, reply
from stepd.service.audit import note_read
from stepd.service.base import Answer, Caller, Daemon
from stepd.service.cursors import decode_cursor, encode_cursor
from stepd.service.queries import Query, QueryReader, whole
from stepd.service.spans import attempt_span, execution_span, kept_span
from stepd.store.reads import Scope, SpanKey, SpanLine
from stepd_protocol.executions import SpanList, SpanView
from stepd_protocol.limits import PAGE_SPANS_BYTES, PAGE_SPANS_MAX

BEGINNING: SpanKey = ("", "")
SPAN_ID_LENGTH = 16
AT_ONCE = 200
"""Lines asked of the store at once: spans may be large, and a page ends by its size too."""


_Under: TypeAlias = Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{16}|@[0-9a-f]{16}:([0-9a-f]{16})?)?$")]


class _Cursor(msgspec.Struct, frozen=True):
    """Behind which line the list goes on, and whose it is. An attempt stands in it as its span: its id is a lease's."""

    under: _Under
    span: Annotated[str, msgspec.Meta(max_length=16)]
    execution: str


async def spans(daemon: Daemon, caller: Caller, execution_id: str, query: Query) -> Answer:
    """A page of the trace: the execution first, then each attempt with what is below it, then what is tied to none."""
    asked = QueryReader(query, single={"limit", "cursor"})
    limit = asked.one("limit", whole(1, PAGE_SPANS_MAX)) or PAGE_SPANS_MAX
    cursor = asked.one("cursor", lambda text: decode_cursor(text, _Cursor))
    if cursor is not None and cursor.execution != execution_id:
        asked.refuse("cursor", "belongs to the spans of another execution")
    if asked.problem is not None:
        return asked.problem
    standing = await daemon.store.standing(execution_id, caller.sees())
    definition = None
    if standing is not None:
        definition = await daemon.store.definition(standing.workflow, standing.version)
    if standing is None or definition is None:
        return no_execution(execution_id)
    await note_read(daemon, caller, execution_id, standing.tenant)
    items = [] if cursor is not None else [execution_span(standing)]
    after = BEGINNING if cursor is None else await _after(daemon, cursor)
    lines, has_more = await _lines(daemon, execution_id, after, limit - len(items))
    items += [_view(standing, definition, line) for line in lines]
    return reply(200, SpanList(items=items, next=_next(lines, execution_id) if has_more else None))


async def _after(daemon: Daemon, cursor: _Cursor) -> SpanKey:
    """Where the page before ended. An attempt that is gone went with its execution."""
    if len(cursor.under) != SPAN_ID_LENGTH:
        return cursor.under, cursor.span
    found = await daemon.store.traced([], [cursor.under], Scope())
    ids = [
        id_
        for id_, attempt in found.attempts.items()
        if (attempt.execution_id, attempt.span_id) == (cursor.execution, cursor.under)
    ]
    return (ids[0] if ids else "", cursor.span)


def _next(lines: list[SpanLine], execution_id: str) -> str:
    if not lines:
        return encode_cursor(_Cursor("", "", execution_id))
    last = lines[-1]
    return encode_cursor(
        _Cursor(last.attempt_id if last.attempt is None else last.attempt.span_id, last.span_id, execution_id)
    )


async def _lines(daemon: Daemon, execution_id: str, after: SpanKey, limit: int) -> tuple[list[SpanLine], bool]:
    """The lines of a page, and whether there are more behind them."""
    lines: list[SpanLine] = []
    size = 0
    while True:
        found = await daemon.store.spans(execution_id, after, min(AT_ONCE, limit - len(lines) + 1))
        if not found:
            return lines, False
        for line in found:
            if len(lines) == limit or size > PAGE_SPANS_BYTES:
                return lines, True
            lines.append(line)
            size += len(line.body)
        after = lines[-1].key


def _view(execution: Execution, definition: Compiled, line: SpanLine) -> SpanView:
    step = None if line.attempt is None else definition.steps[line.attempt.ordinal].id
    if line.attempt is not None and step is not None and not line.span_id:
        return attempt_span(execution, line.attempt, step)
    return kept_span(execution, line.attempt, step, line.body)
