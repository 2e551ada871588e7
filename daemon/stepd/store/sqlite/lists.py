"""Reads over many executions: the list with its filters, the queue, the counts."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import product
from typing import Final

import msgspec

from stepd.engine.model import Execution
from stepd.store.base import ExecutionFilter, QueueLine, Scope
from stepd.store.scope import in_scope
from stepd.store.sqlite.rows import EXECUTIONS
from stepd_protocol.names import EXECUTION_STATUSES

ARMS: Final = 64
"""Statuses and tenants up to which each combination is looked up by its own index, and the results are merged."""

CLAIMABLE: Final = "s.status = 'queued' and s.parked = 0"
QUEUE_LINE: Final = "s.workflow, s.version, s.step, s.tenant"
QUEUE: Final = f"select {QUEUE_LINE}, count(*), min(s.due_at) from steps s indexed by steps_claimable_by_step"
QUEUED: Final = (
    "select distinct s.execution_id from steps s indexed by steps_claimable_by_step "
    f"where s.workflow = ? and s.version = ? and s.step = ? and s.tenant is ? and {CLAIMABLE} limit ?"
)
COUNTS: Final = "select status, count(*) from executions group by status"


class _Where:
    """Conditions of a query as they gather, with their parameters."""

    def __init__(self) -> None:
        self._conditions: list[str] = []
        self.parameters: list[object] = []

    def add(self, condition: str, *parameters: object) -> None:
        self._conditions.append(condition)
        self.parameters += parameters

    def __str__(self) -> str:
        return f"where {' and '.join(self._conditions)}" if self._conditions else ""


def executions(connection: sqlite3.Connection, filter_: ExecutionFilter, scope: Scope, limit: int) -> list[Execution]:
    """The executions that pass the filter and are in scope, by ``(created_at, id)``.

    Each combination of a status and a tenant is asked for by itself, so that an index gives it in order: one query for
    all of them would have to sort every execution it could find.
    """
    arms: list[str] = []
    parameters: list[object] = []
    for statuses, tenants in _combinations(filter_, scope):
        arm, values = _arm(filter_, scope, statuses, tenants)
        arms.append(f"select * from ({arm} limit ?)")
        parameters += [*values, limit]
    if not arms:
        return []
    direction = "" if filter_.oldest_first else "desc"
    statement = f"{' union all '.join(arms)} order by created_at {direction}, id {direction} limit ?"
    found = connection.execute(statement, [*parameters, limit]).fetchall()
    return [EXECUTIONS.read(values) for values in found]


def _combinations(filter_: ExecutionFilter, scope: Scope) -> list[tuple[Sequence[str] | None, Sequence[str] | None]]:
    """Statuses and tenants of each arm; None for any."""
    tenants = scope.tenants
    if filter_.tenant is not None:
        tenants = (filter_.tenant,) if tenants is None or filter_.tenant in tenants else ()
    statuses = filter_.statuses or None
    if tenants is not None and statuses is None:
        statuses = EXECUTION_STATUSES  # the index by tenant goes on with the status
    if len(statuses or "1") * len(tenants if tenants is not None else "1") > ARMS:
        return [(statuses, tenants)]
    by_status = [None] if statuses is None else [(status,) for status in dict.fromkeys(statuses)]
    by_tenant = [None] if tenants is None else [(tenant,) for tenant in dict.fromkeys(tenants)]
    return list(product(by_status, by_tenant))


def _arm(
    filter_: ExecutionFilter, scope: Scope, statuses: Sequence[str] | None, tenants: Sequence[str] | None
) -> tuple[str, list[object]]:
    """The query for these statuses and tenants, in order, without its limit."""
    where = _Where()
    source, created_at, id_ = "executions e", "e.created_at", "e.id"
    if filter_.labels:
        # The first label leads: its rows lie in the order of the list.
        source = "labels l cross join executions e on e.id = l.execution_id"
        created_at, id_ = "l.created_at", "l.execution_id"
        where.add("l.key = ? and l.value = ?", *filter_.labels[0])
    for key, value in filter_.labels[1:]:
        where.add(
            "exists (select 1 from labels o where o.key = ? and o.value = ? "
            "and o.created_at = e.created_at and o.execution_id = e.id)",
            key,
            value,
        )
    for column, wanted in (("status", statuses), ("tenant", tenants)):
        if wanted is not None and len(wanted) == 1:  # only of an equation SQLite sees that it keeps the order
            where.add(f"e.{column} = ?", *wanted)
        elif wanted is not None:
            where.add(f"e.{column} in ({', '.join('?' * len(wanted))})", *wanted)
    for column in ("workflow", "version", "correlation"):
        if (value := getattr(filter_, column)) is not None:
            where.add(f"e.{column} = ?", value)
    if scope.started_by is not None:
        where.add("e.principal = ?", scope.started_by)
    if filter_.ids is not None:
        where.add("e.id in (select value from json_each(?))", msgspec.json.encode(filter_.ids).decode())
    _between(where, filter_, created_at, id_)
    direction = "" if filter_.oldest_first else "desc"
    order = f"order by {created_at} {direction}, {id_} {direction}"
    return f"select {EXECUTIONS.of('e')} from {source} {where} {order}", where.parameters


def _between(where: _Where, filter_: ExecutionFilter, created_at: str, id_: str) -> None:
    if filter_.created_after is not None:
        where.add(f"{created_at} > ?", filter_.created_after)
    if filter_.created_before is not None:
        where.add(f"{created_at} < ?", filter_.created_before)
    if filter_.cursor is not None:
        where.add(f"({created_at}, {id_}) {'>' if filter_.oldest_first else '<'} (?, ?)", *filter_.cursor)


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
    """Executions by status."""
    return dict(connection.execute(COUNTS).fetchall())
