"""Tells an open page that there is something new: it fetches the part that shows it anew."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from stepd.engine.model import ENDED
from stepd.http.table import Stream
from stepd.service.answers import no_execution
from stepd.service.watch import Follower, Onlooker
from stepd.store.base import ExecutionFilter
from stepd.ui.web import Visit, stays
from stepd_protocol.limits import EVENT_STREAM_COMMENT_SECONDS
from stepd_protocol.problems import Problem, make_problem

STREAMS_MAX: Final = 500
"""Open pages that one daemon tells at a time; the others are up to date when they are loaded."""
OPENING: Final = b"retry: 1000\n\n"
CHANGED: Final = b"data: changed\n\n"
ENDED_NOW: Final = b"event: ended\ndata: ended\n\n"
COMMENT: Final = b": still here\n\n"
PAUSE_SECONDS: Final = 0.25
"""Between two tellings of one execution; what happens meanwhile is told once."""
LIST_PAUSE_SECONDS: Final = 1.0


async def of_execution(visit: Visit) -> Stream | Problem:
    """Changes of one execution, until it has ended."""
    execution_id = visit.call.path[0]
    standing = await visit.daemon.store.standing(execution_id, visit.caller.sees())
    if standing is None:
        return no_execution(execution_id)
    return _full(visit) or Stream(_changes_of(visit, execution_id))


async def of_all(visit: Visit) -> Stream | Problem:
    """Changes of whatever execution the visitor sees."""
    return _full(visit) or Stream(_changes(visit))


def _full(visit: Visit) -> Problem | None:
    if visit.daemon.watch.streams < STREAMS_MAX:
        return None
    return make_problem("too_busy", f"this daemon has {STREAMS_MAX} streams open, which is all it holds")


async def _changes_of(visit: Visit, execution_id: str) -> AsyncIterator[bytes]:
    """Ends with the execution, when the daemon stops, and with the session or its key."""
    yield OPENING
    with visit.daemon.watch.stream(execution_id, visit.caller) as follower:
        standing = await visit.daemon.store.standing(execution_id, visit.caller.sees())
        if standing is None or standing.status in ENDED:
            yield ENDED_NOW
            return
        while True:
            changed = await follower.changed(EVENT_STREAM_COMMENT_SECONDS)
            if not await _goes_on(visit, follower):
                return
            if changed and follower.status in ENDED:
                yield ENDED_NOW
                return
            yield CHANGED if changed else COMMENT
            await asyncio.sleep(PAUSE_SECONDS)


async def _changes(visit: Visit) -> AsyncIterator[bytes]:
    """Ends when the daemon stops, and with the session or its key."""
    yield OPENING
    now = asyncio.get_running_loop().time
    with visit.daemon.watch.look_on(visit.caller) as onlooker:
        told_at = now()
        while True:
            ids = await onlooker.changes(max(told_at + EVENT_STREAM_COMMENT_SECONDS - now(), 0))
            if not await _goes_on(visit, onlooker):
                return
            if await _sees_one(visit, ids):
                yield CHANGED
                told_at = now()
            elif now() >= told_at + EVENT_STREAM_COMMENT_SECONDS:
                yield COMMENT
                told_at = now()
            await asyncio.sleep(LIST_PAUSE_SECONDS)


async def _sees_one(visit: Visit, ids: frozenset[str] | None) -> bool:
    """Whether something changed that is there for the visitor; of what isn't, not even the time is told."""
    scope = visit.caller.sees()
    if ids is None or (ids and scope.tenants is None and scope.started_by is None):
        return True
    return bool(ids) and bool(await visit.daemon.store.executions(ExecutionFilter(ids=tuple(ids)), scope, 1))


async def _goes_on(visit: Visit, waiting: Follower | Onlooker) -> bool:
    return not waiting.ended and await stays(visit)
