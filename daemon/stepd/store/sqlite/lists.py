"""Reads over many executions: the list with its filters, the queue, the counts."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from stepd.engine.model import Execution
from stepd.store.base import COUNTED_MAX, ExecutionFilter, QueueLine, Scope
from stepd.store.listing import Dialect, page_of_executions
from stepd.store.scope import in_scope
from stepd.store.sqlite.rows import EXECUTIONS
from stepd_protocol.names import EXECUTION_STATUSES

CLAIMABLE: Final = "s.status = 'queued' and s.parked = 0"
QUEUE_LINE: Final = "s.workflow, s.version, s.step, s.tenant"
QUEUE: Final = f"select {QUEUE_LINE}, count(*), min(s.due_at) from steps s indexed by steps_claimable_by_step"
QUEUED: Final = (
    "select distinct s.execution_id from steps s indexed by steps_claimable_by_step "
    f"where s.workflow = ? and s.version = ? and s.step = ? and s.tenant is ? and {CLAIMABLE} limit ?"
)
COUNT: Final = "select count(*) from (select 1 from executions indexed by executions_status where status = ? limit ?)"
FLIGHT: Final = (
    "select status, count(*) from attempts indexed by attempts_next where next_at is not null group by status"
)


DIALECT: Final = Dialect(leading_join="cross join", among="{} in (select value from json_each(?))")


def executions(connection: sqlite3.Connection, filter_: ExecutionFilter, scope: Scope, limit: int) -> list[Execution]:
    """The executions that pass the filter and are in scope, by ``(created_at, id)``."""
    query = page_of_executions(EXECUTIONS, DIALECT, filter_, scope, limit)
    return [] if query is None else [EXECUTIONS.read(values) for values in connection.execute(*query).fetchall()]


def queue(connection: sqlite3.Connection, scope: Scope) -> list[QueueLine]:
    """The claimable steps in scope, counted by workflow, version, step and tenant."""
    conditions, parameters = in_scope(scope, "e.")
    join = "join executions e on e.id = s.execution_id" if conditions else ""
    where = " and ".join([CLAIMABLE, *conditions])
    statement = f"{QUEUE} {join} where {where} group by {QUEUE_LINE} order by {QUEUE_LINE}"
    return [QueueLine(*values) for values in connection.execute(statement, parameters)]


def queued_executions(
    connection: sqlite3.Connection, lines: Sequence[tuple[str, str, str, str | None]], limit: int
) -> list[str]:
    """Ids of executions with a claimable step of one of these (workflow, version, step, tenant)."""
    found: dict[str, None] = {}
    for line in lines:
        if len(found) < limit:
            found.update(dict.fromkeys(id_ for (id_,) in connection.execute(QUEUED, (*line, limit))))
    return list(found)[:limit]


def counts(connection: sqlite3.Connection) -> dict[str, int]:
    """Executions by status, each counted to a bound."""
    counted = {status: connection.execute(COUNT, (status, COUNTED_MAX)).fetchone()[0] for status in EXECUTION_STATUSES}
    return {status: count for status, count in counted.items() if count}


def flight(connection: sqlite3.Connection) -> dict[str, int]:
    """Attempts that have not ended, by status."""
    return dict(connection.execute(FLIGHT).fetchall())
