"""Tells an open page that there is something new: it fetches the part that shows it anew."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from stepd.engine.model import ENDED
from stepd.http.table import Stream
from stepd.service.answers import no_execution
from stepd.service.watch import EVERYTHING
from stepd.ui.web import Visit
from stepd_protocol.limits import EVENT_STREAM_COMMENT_SECONDS
from stepd_protocol.problems import Problem

OPENING: Final = b": the page\n\n"
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
    return Stream(_changes(visit, execution_id, PAUSE_SECONDS))


async def of_all(visit: Visit) -> Stream:
    """Changes of whatever execution."""
    return Stream(_changes(visit, EVERYTHING, LIST_PAUSE_SECONDS))


async def _changes(visit: Visit, followed: str, pause: float) -> AsyncIterator[bytes]:
    """Ends with the execution, when the daemon stops, and when the key is revoked."""
    yield OPENING
    with visit.daemon.watch.follow(followed, visit.caller) as follower:
        if followed != EVERYTHING:
            standing = await visit.daemon.store.standing(followed, visit.caller.sees())
            if standing is None or standing.status in ENDED:
                yield ENDED_NOW
                return
        while not follower.ended:
            if await follower.changed(EVENT_STREAM_COMMENT_SECONDS):
                if follower.status in ENDED:
                    yield ENDED_NOW
                    return
                yield CHANGED
                await asyncio.sleep(pause)
            elif not follower.ended:
                yield COMMENT
