"""The items of a step that runs more than once, page by page."""

from __future__ import annotations

from typing import Annotated

import msgspec

from stepd.engine.definition import Compiled
from stepd.engine.model import NO_INDEX, Execution
from stepd.service import views
from stepd.service.answers import forbidden, no_execution, no_step, reply
from stepd.service.attempts import Moments, moments_of, needs_journal
from stepd.service.audit import note_read
from stepd.service.base import Answer, Caller, Daemon
from stepd.service.cursors import decode_cursor, encode_cursor
from stepd.service.queries import Query, QueryReader, choices, whole
from stepd.service.reads import journal
from stepd.store.base import ExecutionRows, ItemsPage
from stepd_protocol.executions import INCLUDES, StepList
from stepd_protocol.limits import FOREACH_ITEMS_MAX, PAGE_ITEMS, PAGE_ITEMS_MAX


class _Cursor(msgspec.Struct, frozen=True):
    """Behind which index the list goes on, and which list it is."""

    after: Annotated[int, msgspec.Meta(ge=0, lt=FOREACH_ITEMS_MAX)]
    execution: str
    step: str


async def items(daemon: Daemon, caller: Caller, execution_id: str, step: str, query: Query) -> Answer:
    """Items or rounds by their index, each as a step stands in its execution's view."""
    asked = QueryReader(query, single={"limit", "cursor", "include"})
    limit = asked.one("limit", whole(1, PAGE_ITEMS_MAX)) or PAGE_ITEMS
    include = asked.one("include", choices(INCLUDES)) or frozenset()
    cursor = asked.one("cursor", lambda text: decode_cursor(text, _Cursor))
    if cursor is not None and (cursor.execution, cursor.step) != (execution_id, step):
        asked.refuse("cursor", "belongs to the items of another step")
    if asked.problem is not None:
        return asked.problem
    if include and not caller.may("read"):
        return forbidden("read", "include needs a key with the scope read")
    standing = await daemon.store.standing(execution_id, caller.sees())
    definition = None if standing is None else await _definition(daemon, standing)
    if standing is None or definition is None:
        return no_execution(execution_id)
    ordinal = definition.by_id.get(step)
    if ordinal is None:
        return no_step(execution_id, step)
    await note_read(daemon, caller, execution_id, standing.tenant)
    await daemon.directory.refresh()
    page = ItemsPage(ordinal, NO_INDEX if cursor is None else cursor.after, limit + 1)
    rows = await _rows(daemon, caller, execution_id, page, include)
    if rows is None:
        return no_execution(execution_id)
    shown = views.Shown(
        rows, definition, daemon.directory, await daemon.store.now(), include, await _moments(daemon, definition, rows)
    )
    found = views.item_views(shown, definition.steps[ordinal])
    last = rows.steps[limit - 1].index if len(found) > limit else None
    following = None if last is None else encode_cursor(_Cursor(last, execution_id, step))
    return reply(200, StepList(items=found[:limit], next=following))


async def _definition(daemon: Daemon, standing: Execution) -> Compiled | None:
    return await daemon.store.definition(standing.workflow, standing.version)


async def _rows(
    daemon: Daemon, caller: Caller, execution_id: str, page: ItemsPage, include: frozenset[str]
) -> ExecutionRows | None:
    """What the page needs. Late outcomes are kept as payloads, so that attempts which have one need these too."""
    attempts, payloads = "attempts" in include, "payloads" in include
    rows = await daemon.store.items(execution_id, caller.sees(), page, attempts=attempts, payloads=payloads)
    if rows is not None and not payloads and any(attempt.stale for attempt in rows.attempts):
        return await daemon.store.items(execution_id, caller.sees(), page, attempts=True, payloads=True)
    return rows


async def _moments(daemon: Daemon, definition: Compiled, rows: ExecutionRows) -> Moments:
    if not needs_journal(rows.attempts):
        return Moments()
    return moments_of(definition, rows.attempts, await journal(daemon, rows.execution.id))
