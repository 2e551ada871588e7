"""The list of executions: its filters, its one search field, and page after page of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from stepd.service import reads
from stepd.service.base import Reply
from stepd.ui.answers import content
from stepd.ui.web import Answered, Visit, see
from stepd.wording.shown import duration_text, seconds_between
from stepd_protocol.names import EXECUTION_STATUSES
from stepd_protocol.problems import Problem
from stepd_protocol.times import format_time

FILTERS: Final = ("workflow", "version", "status", "tenant", "correlation", "label", "created_after", "created_before")
SPANS: Final = {
    "hour": ("in the last hour", 3_600),
    "day": ("in the last 24 hours", 86_400),
    "week": ("in the last 7 days", 7 * 86_400),
    "month": ("in the last 30 days", 30 * 86_400),
}
"""Times since which an execution was created: words, and seconds."""
PAGE_ROWS: Final = 50
_SPANS: Final = [(name, words) for name, (words, _) in SPANS.items()]


async def show(visit: Visit) -> Answered:
    """The whole page."""
    fields = dict(visit.call.query)
    if text := fields.get("q", "").strip():
        return await _search(visit, text)
    return await _page(visit, fields, "executions.html")


async def part(visit: Visit) -> Answered:
    """What changes of it."""
    return await _page(visit, dict(visit.call.query), "executions/part.html")


async def _page(visit: Visit, fields: Mapping[str, str], template: str) -> Answered:
    filters = {name: value for name in FILTERS if (value := fields.get(name, "").strip())}
    if fields.get("blocked"):
        filters["blocked"] = "true"
    now = await visit.daemon.store.now()
    since = fields.get("since", "") if fields.get("since", "") in SPANS else ""
    shown = {**filters, "since": since} if since else filters
    if since:
        filters = {**filters, "created_after": format_time(now - SPANS[since][1] * 1000)}
    asked = [("cursor", fields["cursor"])] if fields.get("cursor") else list(filters.items())
    answer = await reads.list_executions(visit.daemon, visit.caller, [*asked, ("limit", str(PAGE_ROWS))])
    if isinstance(answer, Problem):
        return _refused(visit, answer, shown) if template == "executions.html" else answer
    found = content(answer)
    following = None if found["next"] is None else urlencode({**shown, "cursor": found["next"]})
    return visit.page(
        template,
        rows=found["items"],
        following=following,
        filters=shown,
        statuses=EXECUTION_STATUSES,
        spans=_SPANS,
        took=lambda row: _took(row, format_time(now)),
        here=urlencode({**shown, **({"cursor": fields["cursor"]} if fields.get("cursor") else {})}),
        is_first=not fields.get("cursor"),
    )


def _refused(visit: Visit, problem: Problem, filters: Mapping[str, str]) -> Reply:
    """A filter that says nothing sensible: the page, with what is wrong with it."""
    return visit.page(
        "executions.html",
        problem.status,
        rows=[],
        filters=filters,
        statuses=EXECUTION_STATUSES,
        spans=_SPANS,
        refused=problem.detail,
    )


def _took(row: Mapping[str, Any], now: str) -> str:
    """How long it took from its start, or has taken."""
    return duration_text(seconds_between(row["started_at"], row["ended_at"] or now))


async def _search(visit: Visit, text: str) -> Reply:
    """Goes to the execution with this id, else to those with this label, else to those with this correlation."""
    if _is_id(text) and await visit.daemon.store.standing(text.lower(), visit.caller.sees()) is not None:
        return see(f"/ui/executions/{text.lower()}")
    key, mark, value = text.partition(":")
    if mark and value and await _has_any(visit, [("label", f"{key.strip()}:{value.strip()}")]):
        return see(f"/ui?{urlencode({'label': f'{key.strip()}:{value.strip()}'})}")
    return see(f"/ui?{urlencode({'correlation': text})}")


async def _has_any(visit: Visit, filters: list[tuple[str, str]]) -> bool:
    answer = await reads.list_executions(visit.daemon, visit.caller, [*filters, ("limit", "1")])
    return not isinstance(answer, Problem) and bool(content(answer)["items"])


def _is_id(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False
