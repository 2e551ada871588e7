"""The list of executions: filters, order, and cursors that hold both."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stepd.engine.model import Execution, Signal
from stepd.service import views
from stepd.service.answers import reply
from stepd.service.base import Answer, Caller, Daemon
from stepd.service.cursors import StoredInt, decode_cursor, encode_cursor
from stepd.service.lives import Work
from stepd.service.queries import Query, QueryReader, choice, flag, label, name, short_text, time, whole
from stepd.store.base import ExecutionFilter
from stepd.store.signals import has_untaken
from stepd_protocol.executions import ORDERS, ExecutionList, ExecutionSummary
from stepd_protocol.limits import PAGE_ITEMS, PAGE_ITEMS_MAX
from stepd_protocol.names import EXECUTION_STATUSES
from stepd_protocol.problems import Problem

SINGLE = frozenset(
    {"workflow", "version", "correlation", "tenant", "blocked", "created_after", "created_before", "order"}
)
MANY = frozenset({"status", "label"})
BLOCKED_MAX = 10_000
"""Blocked executions that one list tells apart."""
PAGES_MAX = 20
"""Pages looked through for one answer where executions are left out after the store has found them."""


class _Cursor(msgspec.Struct, frozen=True):
    """Where a list goes on, and the parameters it began with."""

    at: StoredInt
    id: str
    filters: dict[str, list[str]]


class _Asked(msgspec.Struct, frozen=True):
    """One list, as it was asked for."""

    filter: ExecutionFilter
    blocked: bool | None
    limit: int
    texts: dict[str, list[str]]
    """The filters as they came, for the next cursor."""


async def list_executions(daemon: Daemon, caller: Caller, query: Query) -> Answer:
    """Executions in the caller's sight, newest first unless asked otherwise; a page and the cursor of the next."""
    asked = _read(query)
    if isinstance(asked, Problem):
        return asked
    await daemon.directory.refresh()
    found, last = await _find(daemon, caller, asked)
    cursor = None if last is None else encode_cursor(_Cursor(last.created_at, last.id, asked.texts))
    now = await daemon.store.now()
    signals: dict[str, list[Signal]] = {}
    if ended := [execution for execution in found if has_untaken(execution)]:
        for signal in await daemon.store.untaken(ended):
            signals.setdefault(signal.execution_id, []).append(signal)
    items = [await _summary(daemon, execution, now, signals.get(execution.id, ())) for execution in found]
    return reply(200, ExecutionList(items=items, next=cursor))


def _read(query: Query) -> _Asked | Problem:
    asked = QueryReader(query, single=SINGLE | {"cursor", "limit"}, many=MANY)
    limit = asked.one("limit", whole(1, PAGE_ITEMS_MAX)) or PAGE_ITEMS
    cursor = asked.one("cursor", lambda text: decode_cursor(text, _Cursor))
    texts = {parameter: asked.texts(parameter) for parameter in SINGLE | MANY if parameter in asked.given()}
    if cursor is None:
        filter_, blocked = _filter(asked, None)
        return asked.problem or _Asked(filter_, blocked, limit, texts)
    for parameter in texts:
        if texts[parameter] != cursor.filters.get(parameter):
            asked.refuse(parameter, "differs from the list that the cursor goes on with; leave it out, or the cursor")
    pairs = [(parameter, text) for parameter, values in cursor.filters.items() for text in values]
    begun_with = QueryReader(pairs, single=SINGLE, many=MANY)
    filter_, blocked = _filter(begun_with, (cursor.at, cursor.id))
    return asked.problem or begun_with.problem or _Asked(filter_, blocked, limit, cursor.filters)


def _filter(asked: QueryReader, cursor: tuple[int, str] | None) -> tuple[ExecutionFilter, bool | None]:
    """The filters in the query, and what was asked about ``blocked``, which the store doesn't know."""
    filter_ = ExecutionFilter(
        workflow=asked.one("workflow", name),
        version=asked.one("version", name),
        statuses=tuple(dict.fromkeys(asked.all("status", choice(EXECUTION_STATUSES)))),
        correlation=asked.one("correlation", short_text),
        tenant=asked.one("tenant", short_text),
        labels=tuple(asked.all("label", label)),
        created_after=asked.one("created_after", time),
        created_before=asked.one("created_before", time),
        oldest_first=asked.one("order", choice(ORDERS)) == "oldest",
        cursor=cursor,
    )
    return filter_, asked.one("blocked", flag)


async def _find(daemon: Daemon, caller: Caller, asked: _Asked) -> tuple[list[Execution], Execution | None]:
    """One page, and the execution after which the next one begins; None at the end."""
    filter_, limit = asked.filter, asked.limit
    if asked.blocked is False:
        return await _find_unblocked(daemon, caller, filter_, limit)
    if asked.blocked:
        filter_ = msgspec.structs.replace(filter_, ids=await _blocked_ids(daemon, caller))
    found = await daemon.store.executions(filter_, caller.sees(), limit + 1)
    return found[:limit], found[limit - 1] if len(found) > limit else None


async def _find_unblocked(
    daemon: Daemon, caller: Caller, filter_: ExecutionFilter, limit: int
) -> tuple[list[Execution], Execution | None]:
    kept: list[Execution] = []
    last: Execution | None = None
    for _ in range(PAGES_MAX):
        page = await daemon.store.executions(filter_, caller.sees(), PAGE_ITEMS_MAX)
        for last in page:
            if not await _is_blocked(daemon, last):
                kept.append(last)
            if len(kept) == limit:
                return kept, last
        if last is None or len(page) < PAGE_ITEMS_MAX:
            return kept, None
        filter_ = msgspec.structs.replace(filter_, cursor=(last.created_at, last.id))
    return kept, last


async def _blocked_ids(daemon: Daemon, caller: Caller) -> tuple[str, ...]:
    """Executions with a claimable step that no live worker serves, or with a child that needs reconciliation."""
    blocked = await daemon.store.with_blocked_child(BLOCKED_MAX)
    lines = await daemon.store.queue(caller.sees())
    works = [Work(line.workflow, line.version, line.step, line.tenant) for line in lines]
    unserved = [work for work in works if not daemon.directory.is_served(work)]
    if unserved:
        blocked += await daemon.store.queued_executions(unserved, BLOCKED_MAX)
    return tuple(blocked)


async def _is_blocked(daemon: Daemon, execution: Execution) -> bool:
    definition = await daemon.store.definition(execution.workflow, execution.version)
    return definition is not None and views.is_blocked(execution, definition, daemon.directory.is_served)


async def _summary(daemon: Daemon, execution: Execution, now_ms: int, signals: Sequence[Signal]) -> ExecutionSummary:
    definition = await daemon.store.definition(execution.workflow, execution.version)
    if definition is None:
        raise LookupError(f"version {execution.version} of workflow {execution.workflow} is not in the store")
    return views.execution_summary(execution, definition, daemon.directory, now_ms, signals)
