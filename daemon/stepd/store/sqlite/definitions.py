"""Registered versions in the database: kept as they came, and which of them new executions get."""

from __future__ import annotations

import sqlite3
from typing import Final

from msgspec.structs import astuple

from stepd.engine.definition import Compiled
from stepd.engine.model import Audit
from stepd.store.base import Scope, VersionRow, WorkflowRow
from stepd.store.scope import in_scope
from stepd.store.sqlite.rows import AUDIT, VERSIONS
from stepd.store.sqlite.transaction import Transaction
from stepd.store.versions import Definitions

VERSION: Final = f"{VERSIONS.select} where workflow = ? and version = ?"
CURRENT: Final = "select version from current_versions where workflow = ?"
KNOWN: Final = "select 1 from versions where workflow = ? and version = ?"
NEXT_NUMBER: Final = "select coalesce(max(number), 0) + 1 from versions"
MAKE_CURRENT_UNLESS_CHOSEN: Final = (
    "insert into current_versions (workflow, version, chosen) values (?, ?, 0) "
    "on conflict (workflow) do update set version = excluded.version where not chosen"
)
CHOOSE: Final = (
    "insert into current_versions (workflow, version, chosen) values (?, ?, 1) "
    "on conflict (workflow) do update set version = excluded.version, chosen = 1"
)
ALL_VERSIONS: Final = f"{VERSIONS.select} order by workflow, number"
VERSIONS_OF: Final = f"{VERSIONS.select} where workflow = ? order by number"
ALL_CURRENT: Final = "select workflow, version from current_versions"
OPEN: Final = "select workflow, version, count(*) from executions"


def find(definitions: Definitions, connection: sqlite3.Connection, workflow: str, version: str) -> Compiled | None:
    """The compiled version; None where there is none."""
    compiled = definitions.cached(workflow, version)
    if compiled is None:
        values = connection.execute(VERSION, (workflow, version)).fetchone()
        if values is not None:
            compiled = definitions.keep_row(VERSIONS.read(values))
    return compiled


def for_start(
    definitions: Definitions, connection: sqlite3.Connection, workflow: str, version: str | None
) -> Compiled | None:
    """What a new execution gets: the version asked for, else the current one; None where there is none."""
    if version is None:
        values = connection.execute(CURRENT, (workflow,)).fetchone()
        return None if values is None else find(definitions, connection, workflow, values[0])
    # Looked up although it may be in memory: that may come from a registration that was undone.
    known = connection.execute(KNOWN, (workflow, version)).fetchone()
    return None if known is None else find(definitions, connection, workflow, version)


def register(transaction: Transaction, compiled: Compiled, audit: Audit | None) -> tuple[VersionRow, bool, str]:
    """Keeps a version: the row that stands, whether it is new, and the current version."""
    connection = transaction.connection
    values = connection.execute(VERSION, (compiled.name, compiled.version)).fetchone()
    if values is not None:
        return VERSIONS.read(values), False, _current(connection, compiled.name)
    (number,) = connection.execute(NEXT_NUMBER).fetchone()
    row = VersionRow(compiled.name, compiled.version, compiled.digest, compiled.raw, transaction.now(), number)
    connection.execute(VERSIONS.insert, astuple(row))
    connection.execute(MAKE_CURRENT_UNLESS_CHOSEN, (compiled.name, compiled.version))
    if audit is not None:
        connection.execute(AUDIT.insert, astuple(audit))
    return row, True, _current(connection, compiled.name)


def make_current(transaction: Transaction, workflow: str, version: str, audit: Audit) -> bool:
    """Makes a version current until another is chosen; False where there is no such version."""
    connection = transaction.connection
    if connection.execute(KNOWN, (workflow, version)).fetchone() is None:
        return False
    connection.execute(CHOOSE, (workflow, version))
    connection.execute(AUDIT.insert, astuple(audit))
    return True


def workflows(connection: sqlite3.Connection, name: str | None, scope: Scope) -> list[WorkflowRow]:
    """The workflows by name, with their versions and what is open on them in this scope."""
    found = connection.execute(*((ALL_VERSIONS, ()) if name is None else (VERSIONS_OF, (name,)))).fetchall()
    current = dict(connection.execute(ALL_CURRENT).fetchall())
    rows: dict[str, WorkflowRow] = {}
    for values in found:
        row = VERSIONS.read(values)
        line = rows.setdefault(row.workflow, WorkflowRow(row.workflow, current[row.workflow], [], {}))
        line.versions.append(row)
    statement, parameters = _open(name, scope)
    for workflow, version, count in connection.execute(statement, parameters):
        rows[workflow].open_executions[version] = count
    return list(rows.values())


def _open(name: str | None, scope: Scope) -> tuple[str, list[object]]:
    conditions, parameters = in_scope(scope)
    source = OPEN if conditions else f"{OPEN} indexed by executions_open"
    if name is not None:
        conditions.append("workflow = ?")
        parameters.append(name)
    where = " and ".join(["ended_at is null", *conditions])
    return f"{source} where {where} group by workflow, version", parameters


def _current(connection: sqlite3.Connection, workflow: str) -> str:
    version: str = connection.execute(CURRENT, (workflow,)).fetchone()[0]
    return version
