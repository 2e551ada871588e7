"""The operator's pages: what waits for him, and who works."""

from __future__ import annotations

from typing import Final

from stepd.service import reads
from stepd.service.base import Answer
from stepd.ui.answers import content
from stepd.ui.web import Answered, Visit

SHOWN: Final = "100"
"""Executions of each kind on the page."""


async def queue(visit: Visit) -> Answered:
    """What needs an operator, and what is blocked."""
    return await _queue(visit, "queue.html")


async def queue_part(visit: Visit) -> Answered:
    """What changes of it."""
    return await _queue(visit, "queue/part.html")


async def workers(visit: Visit) -> Answered:
    """Workers, what they serve, and what they hold."""
    return await _workers(visit, "workers.html")


async def workers_part(visit: Visit) -> Answered:
    """What changes of it."""
    return await _workers(visit, "workers/part.html")


async def _queue(visit: Visit, template: str) -> Answered:
    doubtful = await _listed(visit, ("status", "reconciliation_required"))
    blocked = await _listed(visit, ("blocked", "true"))
    paused = await _listed(visit, ("status", "paused"))
    return visit.page(
        template,
        doubtful=content(doubtful),
        blocked=content(blocked),
        paused=content(paused),
        may_resolve=visit.caller.may("operate"),
    )


async def _listed(visit: Visit, *filters: tuple[str, str]) -> Answer:
    """The oldest first: they have waited longest."""
    asked = [*filters, ("order", "oldest"), ("limit", SHOWN)]
    return await reads.list_executions(visit.daemon, visit.caller, asked)


async def _workers(visit: Visit, template: str) -> Answered:
    return visit.page(template, workers=content(await reads.workers(visit.daemon, visit.caller))["items"])
