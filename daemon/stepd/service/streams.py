"""Journals as server-sent events: where a stream begins, what it sends, and when it ends."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from stepd.engine.model import ENDED, Event, Execution
from stepd.service.answers import no_execution
from stepd.service.audit import note_stream
from stepd.service.base import Answer, Caller, Daemon, Reply
from stepd.service.decoding import shown
from stepd.service.queries import Query, QueryReader, whole
from stepd.service.reads import SEQ_MAX, event_view
from stepd.service.watch import Follower
from stepd_protocol.limits import EVENT_STREAM_COMMENT_SECONDS
from stepd_protocol.problems import Problem, make_problem

PAGE = 200
OPENING = b": events\n\n"
COMMENT = b": still here\n\n"

_encode = msgspec.json.Encoder().encode


async def open_stream(
    daemon: Daemon, caller: Caller, execution_id: str, query: Query, last_event_id: str | None
) -> AsyncIterator[bytes] | Answer:
    """The journal after ``after``, or after ``Last-Event-ID``, which wins: chunks of whole events and comments.

    204 where the execution has ended and nothing follows; 400 for a ``Last-Event-ID`` that is no event of it.
    """
    asked = QueryReader(query, single={"after", "limit"})
    after = asked.one("after", whole(0, SEQ_MAX)) or 0
    if "limit" in asked.given():
        asked.refuse("limit", "a stream has no pages; leave it out")
    if asked.problem is not None:
        return asked.problem
    standing = await daemon.store.standing(execution_id, caller.sees())
    if standing is None:
        return no_execution(execution_id)
    begins_after = after if last_event_id is None else _event_named(last_event_id, standing)
    if isinstance(begins_after, Problem):
        return begins_after
    if standing.status in ENDED and begins_after >= standing.seq:
        return Reply(204, b"")
    await note_stream(daemon, caller, execution_id, standing.tenant)
    return _events(daemon, caller, execution_id, begins_after)


def _event_named(last_event_id: str, standing: Execution) -> int | Problem:
    try:
        seq = whole(0, SEQ_MAX)(last_event_id)
    except ValueError:
        return make_problem(
            "invalid_last_event_id", f"Last-Event-ID must be the seq of an event, not {shown(last_event_id)}"
        )
    if seq > standing.seq:
        detail = f"Last-Event-ID {seq} is beyond the last event of this execution, {standing.seq}"
        return make_problem("invalid_last_event_id", detail)
    return seq


async def _events(daemon: Daemon, caller: Caller, execution_id: str, after: int) -> AsyncIterator[bytes]:
    """Ends after the last event of an ended execution, when the daemon stops, and when the key is revoked."""
    yield OPENING
    with daemon.watch.stream(execution_id, caller) as follower:
        while not follower.ended:
            page = await daemon.store.events(execution_id, after, PAGE)
            if page:
                after = page[-1].seq
                yield b"".join(map(_frame, page))
            if len(page) < PAGE:
                if await _is_over(daemon, caller, execution_id, after, follower):
                    return
                if not await follower.changed(EVENT_STREAM_COMMENT_SECONDS) and not follower.ended:
                    yield COMMENT


async def _is_over(daemon: Daemon, caller: Caller, execution_id: str, after: int, follower: Follower) -> bool:
    """Whether the last event was sent. What was told of the execution is asked for only once."""
    if follower.status is None:
        standing = await daemon.store.standing(execution_id, caller.sees())
        if standing is None:
            return True
        follower.note(standing.seq, standing.status)
    return follower.status in ENDED and after >= follower.seq


def _frame(row: Event) -> bytes:
    """One event; a line break in its JSON can only be white space, and would end the line of the stream."""
    data = _encode(event_view(row)).replace(b"\r", b" ").replace(b"\n", b" ")
    return b"id: %d\ndata: %b\n\n" % (row.seq, data)
