"""The queries of lists as text, with ``?`` for their parameters: which rows pass a filter, in which order.

Each combination of a status and a tenant is asked for by itself, so that an index gives it in order: one query for all
of them would have to sort every execution it could find.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Final, TypeAlias

import msgspec

from stepd.engine.model import Execution
from stepd.store.base import ExecutionFilter, Scope
from stepd.store.records import AUDIT_DONE, AuditFilter
from stepd.store.tables import Columns
from stepd_protocol.names import EXECUTION_STATUSES

Query: TypeAlias = tuple[str, list[object]]

ARMS: Final = 64
"""Statuses and tenants up to which each combination is looked up by its own index, and the results are merged."""
AUDIT_COLUMNS: Final = ("principal", "key_id", "action", "object", "tenant")


class Dialect(msgspec.Struct, frozen=True):
    """Where the databases differ. ``leading_join`` is a join whose left side is gone through first."""

    leading_join: str
    among: str
    """A condition that is true for each text of a JSON list: ``{}`` is the column, ``?`` the list."""


def page_of_executions(
    columns: Columns[Execution], dialect: Dialect, filter_: ExecutionFilter, scope: Scope, limit: int
) -> Query | None:
    """The executions that pass the filter and are in scope, by ``(created_at, id)``; None where none can."""
    arms: list[str] = []
    parameters: list[object] = []
    for statuses, tenants in _combinations(filter_, scope):
        arm, values = _arm(columns, dialect, filter_, scope, statuses, tenants)
        arms.append(f"select * from ({arm} limit ?) as arm")
        parameters += [*values, limit]
    if not arms:
        return None
    direction = "" if filter_.oldest_first else "desc"
    statement = f"{' union all '.join(arms)} order by created_at {direction}, id {direction} limit ?"
    return statement, [*parameters, limit]


def audit_conditions(filter_: AuditFilter, tenants: tuple[str, ...] | None) -> tuple[list[str], list[object]]:
    """Conditions on a row of the audit log, and their parameters."""
    where = Where()
    for column in AUDIT_COLUMNS:
        if (value := getattr(filter_, column)) is not None:
            where.add(f"{column} = ?", value)
    if filter_.outcome is not None:
        where.add(f"outcome {'=' if filter_.outcome == 'done' else '<>'} ?", AUDIT_DONE)
    for condition, time in (("at > ?", filter_.at_after), ("at < ?", filter_.at_before)):
        if time is not None:
            where.add(condition, time)
    if filter_.cursor is not None:
        where.add("(at, id) < (?, ?)", *filter_.cursor)
    if tenants is not None:
        where.add(f"tenant in ({places(tenants)})" if tenants else "1 = 0", *tenants)
    return where.conditions, where.parameters


def places(values: Sequence[object]) -> str:
    """Places for these parameters in a list."""
    return ", ".join("?" * len(values))


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
    columns: Columns[Execution],
    dialect: Dialect,
    filter_: ExecutionFilter,
    scope: Scope,
    statuses: Sequence[str] | None,
    tenants: Sequence[str] | None,
) -> Query:
    """The query for these statuses and tenants, in order, without its limit."""
    where = Where()
    source, created_at, id_ = "executions e", "e.created_at", "e.id"
    if filter_.labels:
        # The first label leads: its rows lie in the order of the list.
        source = f"labels l {dialect.leading_join} executions e on e.id = l.execution_id"
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
        if wanted is not None and len(wanted) == 1:  # only of an equation a database sees that it keeps the order
            where.add(f"e.{column} = ?", *wanted)
        elif wanted is not None:
            where.add(f"e.{column} in ({places(wanted)})", *wanted)
    for column in ("workflow", "version", "correlation"):
        if (value := getattr(filter_, column)) is not None:
            where.add(f"e.{column} = ?", value)
    if scope.started_by is not None:
        where.add("e.principal = ?", scope.started_by)
    if filter_.ids is not None:
        where.add(dialect.among.format("e.id"), msgspec.json.encode(filter_.ids).decode())
    _between(where, filter_, created_at, id_)
    direction = "" if filter_.oldest_first else "desc"
    order = f"order by {created_at} {direction}, {id_} {direction}"
    return f"select {columns.of('e')} from {source} {where} {order}", where.parameters


def _between(where: Where, filter_: ExecutionFilter, created_at: str, id_: str) -> None:
    if filter_.created_after is not None:
        where.add(f"{created_at} > ?", filter_.created_after)
    if filter_.created_before is not None:
        where.add(f"{created_at} < ?", filter_.created_before)
    if filter_.cursor is not None:
        where.add(f"({created_at}, {id_}) {'>' if filter_.oldest_first else '<'} (?, ?)", *filter_.cursor)


class Where:
    """Conditions of a query as they gather, with their parameters."""

    def __init__(self) -> None:
        self.conditions: list[str] = []
        self.parameters: list[object] = []

    def add(self, condition: str, *parameters: object) -> None:
        self.conditions.append(condition)
        self.parameters += parameters

    def __str__(self) -> str:
        return f"where {' and '.join(self.conditions)}" if self.conditions else ""
