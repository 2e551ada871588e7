"""Reads over many executions: the list with its filters, the queue, the counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stepd.engine.model import Execution
from stepd.store.base import COUNTED_MAX, ExecutionFilter, QueueLine, Scope
from stepd.store.listing import Dialect, page_of_executions
from stepd.store.postgres.connections import Session
from stepd.store.postgres.tables import EXECUTIONS, numbered
from stepd.store.scope import in_scope
from stepd_protocol.names import EXECUTION_STATUSES

DIALECT: Final = Dialect(leading_join="join", among="{} in (select jsonb_array_elements_text(?::text::jsonb))")
CLAIMABLE: Final = "s.status = 'queued' and s.parked = 0"
QUEUE_LINE: Final = "s.workflow, s.version, s.step, s.tenant"
QUEUE: Final = f"select {QUEUE_LINE}, count(*), min(s.due_at) from steps s"
ORDER: Final = "order by s.workflow, s.version, s.step, s.tenant nulls first"
QUEUED: Final = (
    "select distinct s.execution_id from steps s where s.workflow = $1 and s.version = $2 and s.step = $3 "
    f"and s.tenant is not distinct from $4::text and {CLAIMABLE} limit $5"
)
COUNTS: Final = (
    "select s.status, (select count(*) from (select 1 from executions e where e.status = s.status limit $2) found) "
    "from unnest($1::text[]) as s (status)"
)
FLIGHT: Final = "select status, count(*) from attempts where next_at is not null group by status"


async def executions(session: Session, filter_: ExecutionFilter, scope: Scope, limit: int) -> list[Execution]:
    """The executions that pass the filter and are in scope, by ``(created_at, id)``."""
    query = page_of_executions(EXECUTIONS, DIALECT, filter_, scope, limit)
    if query is None:
        return []
    statement, parameters = query
    return [EXECUTIONS.read(values) for values in await session.fetch(numbered(statement), *parameters)]


async def queue(session: Session, scope: Scope) -> list[QueueLine]:
    """The claimable steps in scope, counted by workflow, version, step and tenant."""
    conditions, parameters = in_scope(scope, "e.")
    join = "join executions e on e.id = s.execution_id" if conditions else ""
    where = " and ".join([CLAIMABLE, *conditions])
    statement = f"{QUEUE} {join} where {where} group by {QUEUE_LINE} {ORDER}"
    return [QueueLine(*values) for values in await session.fetch(numbered(statement), *parameters)]


async def queued_executions(
    session: Session, lines: Sequence[tuple[str, str, str, str | None]], limit: int
) -> list[str]:
    """Ids of executions with a claimable step of one of these (workflow, version, step, tenant)."""
    found: dict[str, None] = {}
    for line in lines:
        if len(found) < limit:
            found.update(dict.fromkeys(id_ for (id_,) in await session.fetch(QUEUED, *line, limit)))
    return list(found)[:limit]


async def counts(session: Session) -> dict[str, int]:
    """Executions by status, each counted to a bound."""
    counted = await session.fetch(COUNTS, EXECUTION_STATUSES, COUNTED_MAX)
    return {status: count for status, count in counted if count}


async def flight(session: Session) -> dict[str, int]:
    """Attempts that have not ended, by status."""
    return dict(await session.fetch(FLIGHT))
