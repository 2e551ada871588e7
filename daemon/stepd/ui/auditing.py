"""The page of the audit log: who did what, with its filters."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from stepd.service import auditing
from stepd.ui.answers import content
from stepd.ui.web import Answered, Visit
from stepd_protocol.problems import Problem

FILTERS: Final = ("principal", "action", "target", "tenant", "at_after", "at_before")


async def show(visit: Visit) -> Answered:
    """A page of it."""
    asked = dict(visit.call.query)
    filters = {name: value for name in FILTERS if (value := asked.get(name, "").strip())}
    query = [("cursor", asked["cursor"])] if asked.get("cursor") else list(filters.items())
    answer = await auditing.list_all(visit.daemon, visit.caller, [*query, ("limit", "100")])
    if isinstance(answer, Problem):
        return visit.page("audit.html", answer.status, rows=[], filters=filters, refused=answer.detail)
    page = content(answer)
    following = None if page["next"] is None else urlencode({**filters, "cursor": page["next"]})
    return visit.page("audit.html", rows=page["items"], filters=filters, following=following)
