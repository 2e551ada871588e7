"""What callers may look at: executions, their journal and spans, workers, and the service itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib.metadata import version

from msgspec import Raw

from stepd.engine.model import Event as EventRow
from stepd.engine.model import Execution as ExecutionRow
from stepd.service import views
from stepd.service.answers import forbidden, no_execution, not_good, reply
from stepd.service.attempts import Moments, moments_of, needs_journal
from stepd.service.audit import note_read
from stepd.service.base import Answer, Caller, Daemon
from stepd.service.lists import list_executions
from stepd.service.queries import Query, QueryReader, choices, seconds, whole
from stepd.service.watch import Follower
from stepd.store.base import ExecutionRows
from stepd_protocol.executions import INCLUDES, Event, EventsAnswer
from stepd_protocol.limits import PAGE_ITEMS, PAGE_ITEMS_MAX, WAIT_SECONDS_MAX
from stepd_protocol.names import PROTOCOL_VERSION
from stepd_protocol.service import ServedWork, ServiceView, WorkerList, WorkerView
from stepd_protocol.times import format_time

__all__ = ["event_view", "events", "journal", "list_executions", "service", "view", "workers"]

SEQ_MAX = 2**63 - 1
JOURNAL_PAGE = 1_000


async def view(daemon: Daemon, caller: Caller, execution_id: str, query: Query) -> Answer:
    """One execution. With ``wait_seconds`` it answers when it has ended or needs reconciliation, or then."""
    asked = QueryReader(query, single={"wait_seconds", "include"})
    wait = asked.one("wait_seconds", seconds(WAIT_SECONDS_MAX)) or 0.0
    include = asked.one("include", choices(INCLUDES)) or frozenset()
    if asked.problem is not None:
        return asked.problem
    if include and not caller.may("read"):
        return forbidden("read", "include needs a key with the scope read")
    with daemon.watch.follow(execution_id, caller) as follower:
        standing = await daemon.store.standing(execution_id, caller.sees())
        if standing is None:
            return no_execution(execution_id)
        await note_read(daemon, caller, execution_id, standing.tenant)
        if wait and not views.is_settled(standing.status):
            await _until_settled(follower, wait, lambda: daemon.store.standing(execution_id, caller.sees()))
            if not daemon.keyring.is_good(caller):
                return not_good()
    await daemon.directory.refresh()
    rows = await _rows(daemon, caller, execution_id, include)
    definition = None
    if rows is not None:
        definition = await daemon.store.definition(rows.execution.workflow, rows.execution.version)
    if rows is None or definition is None:
        return no_execution(execution_id)
    moments = Moments()
    if "attempts" in include and needs_journal(rows.attempts):
        moments = moments_of(definition, rows.attempts, await journal(daemon, execution_id))
    shown = views.Shown(rows, definition, daemon.directory, await daemon.store.now(), include, moments)
    return reply(200, views.execution_view(shown))


async def events(daemon: Daemon, caller: Caller, execution_id: str, query: Query) -> Answer:
    """The journal after a ``seq``."""
    asked = QueryReader(query, single={"after", "limit"})
    after = asked.one("after", whole(0, SEQ_MAX)) or 0
    limit = asked.one("limit", whole(1, PAGE_ITEMS_MAX)) or PAGE_ITEMS
    if asked.problem is not None:
        return asked.problem
    standing = await daemon.store.standing(execution_id, caller.sees())
    if standing is None:
        return no_execution(execution_id)
    await note_read(daemon, caller, execution_id, standing.tenant)
    found = await daemon.store.events(execution_id, after, limit + 1)
    items = [event_view(row) for row in found[:limit]]
    return reply(200, EventsAnswer(items=items, next=items[-1].seq if len(found) > limit else None))


async def workers(daemon: Daemon, caller: Caller) -> Answer:
    """The lives of workers heard of within the last hour; of a key's tenants only."""
    directory = daemon.directory
    await directory.refresh()
    leases = await daemon.store.held_leases(caller.tenants)
    store_now, now = await daemon.store.now(), asyncio.get_running_loop().time()
    items = [
        WorkerView(
            name=life.key.worker,
            instance=life.key.instance,
            last_seen_at=format_time(life.last_seen_ms(store_now, now)),
            live=directory.is_live(life),
            serves=[
                ServedWork(
                    workflow=entry.workflow,
                    version=entry.version,
                    steps=None if entry.steps is None else sorted(entry.steps),
                )
                for entry in life.serves
            ],
            leases=leases.get(life.key, 0),
        )
        for life in sorted(directory.lives(), key=lambda life: life.key)
        if life.is_seen_by(caller.tenants)
    ]
    return reply(200, WorkerList(items=items, next=None))


async def service(daemon: Daemon) -> Answer:
    """The service this daemon belongs to, and which of its parts are on here."""
    shown = ServiceView(
        id=daemon.service_id,
        name=daemon.service_name,
        version=version("stepd"),
        protocol_version=PROTOCOL_VERSION,
        parts=daemon.settings.parts(),
    )
    return reply(200, shown)


def event_view(row: EventRow) -> Event:
    """One line of the journal as callers see it."""
    return Event(
        seq=row.seq,
        at=format_time(row.at),
        type=row.type,
        step=row.step,
        index=row.index,
        attempt=row.attempt,
        worker=row.worker,
        data=Raw(row.data),
    )


async def _until_settled(follower: Follower, wait: float, look: Callable[[], Awaitable[ExecutionRow | None]]) -> None:
    """Waits until the followed execution has ended or needs reconciliation, at most ``wait`` seconds."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait
    while (left := deadline - loop.time()) > 0:
        if not await follower.changed(left):
            return
        if follower.status is None:
            standing = await look()
            if standing is None:
                return
            follower.note(standing.seq, standing.status)
        if views.is_settled(follower.status or ""):
            return


async def _rows(daemon: Daemon, caller: Caller, execution_id: str, include: frozenset[str]) -> ExecutionRows | None:
    """What the view needs. Late outcomes are kept as payloads, so that attempts which have one need these too."""
    attempts, payloads = "attempts" in include, "payloads" in include
    rows = await daemon.store.execution(execution_id, caller.sees(), attempts=attempts, payloads=payloads)
    if rows is not None and not payloads and any(attempt.stale for attempt in rows.attempts):
        return await daemon.store.execution(execution_id, caller.sees(), attempts=True, payloads=True)
    return rows


async def journal(daemon: Daemon, execution_id: str) -> list[EventRow]:
    """All of an execution's journal."""
    found: list[EventRow] = []
    while True:
        page = await daemon.store.events(execution_id, found[-1].seq if found else 0, JOURNAL_PAGE)
        found += page
        if len(page) < JOURNAL_PAGE:
            return found
