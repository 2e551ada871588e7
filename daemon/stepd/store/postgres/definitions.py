"""Registered versions in the database: kept as they came, and which of them new executions get."""

from __future__ import annotations

from typing import Final

from msgspec.structs import astuple

from stepd.engine.definition import Compiled
from stepd.engine.model import Audit
from stepd.store.base import Scope, VersionRow, WorkflowRow
from stepd.store.postgres.connections import Session
from stepd.store.postgres.records import write_audit
from stepd.store.postgres.tables import VERSIONS, numbered
from stepd.store.scope import in_scope
from stepd.store.versions import Definitions

VERSION: Final = f"{VERSIONS.select} where workflow = $1 and version = $2"
CURRENT: Final = "select version from current_versions where workflow = $1"
KNOWN: Final = "select 1 from versions where workflow = $1 and version = $2"
ONE_AT_A_TIME: Final = "lock table versions in share row exclusive mode"
"""Numbers of versions follow each other. Registrations are rare, and readers are not in their way."""
NEXT_NUMBER: Final = "select coalesce(max(number), 0) + 1 from versions"
INSERT: Final = f"insert into versions ({VERSIONS.listed}) values ($1, $2, $3, $4, $5, $6)"
MAKE_CURRENT_UNLESS_CHOSEN: Final = (
    "insert into current_versions (workflow, version, chosen) values ($1, $2, false) "
    "on conflict (workflow) do update set version = excluded.version where not current_versions.chosen"
)
CHOOSE: Final = (
    "insert into current_versions (workflow, version, chosen) values ($1, $2, true) "
    "on conflict (workflow) do update set version = excluded.version, chosen = true"
)
ALL_VERSIONS: Final = f"{VERSIONS.select} where $1::text is null or workflow = $1 order by workflow, number"
ALL_CURRENT: Final = "select workflow, version from current_versions"
OPEN: Final = "select workflow, version, count(*) from executions"


async def find(definitions: Definitions, session: Session, workflow: str, version: str) -> Compiled | None:
    """The compiled version; None where there is none."""
    compiled = definitions.cached(workflow, version)
    if compiled is None:
        values = await session.fetchrow(VERSION, workflow, version)
        if values is not None:
            compiled = definitions.keep_row(VERSIONS.read(values))
    return compiled


async def for_start(definitions: Definitions, session: Session, workflow: str, version: str | None) -> Compiled | None:
    """What a new execution gets: the version asked for, else the current one; None where there is none."""
    if version is None:
        version = await session.fetchval(CURRENT, workflow)
        return None if version is None else await find(definitions, session, workflow, version)
    # Looked up although it may be in memory: that may come from a registration that was undone.
    known = await session.fetchval(KNOWN, workflow, version)
    return None if known is None else await find(definitions, session, workflow, version)


async def register(session: Session, now: int, compiled: Compiled, audit: Audit | None) -> tuple[VersionRow, bool, str]:
    """Keeps a version: the row that stands, whether it is new, and the current version."""
    values = await session.fetchrow(VERSION, compiled.name, compiled.version)
    if values is None:
        await session.execute(ONE_AT_A_TIME)
        values = await session.fetchrow(VERSION, compiled.name, compiled.version)
    if values is not None:
        return VERSIONS.read(values), False, await session.fetchval(CURRENT, compiled.name)
    number = await session.fetchval(NEXT_NUMBER)
    row = VersionRow(compiled.name, compiled.version, compiled.digest, compiled.raw, now, number)
    await session.execute(INSERT, *astuple(row))
    await session.execute(MAKE_CURRENT_UNLESS_CHOSEN, compiled.name, compiled.version)
    if audit is not None:
        await write_audit(session, [audit])
    return row, True, await session.fetchval(CURRENT, compiled.name)


async def make_current(session: Session, workflow: str, version: str, audit: Audit) -> bool:
    """Makes a version current until another is chosen; False where there is no such version."""
    if await session.fetchval(KNOWN, workflow, version) is None:
        return False
    await session.execute(CHOOSE, workflow, version)
    await write_audit(session, [audit])
    return True


async def workflows(session: Session, name: str | None, scope: Scope) -> list[WorkflowRow]:
    """The workflows by name, with their versions and what is open on them in this scope."""
    current = dict(await session.fetch(ALL_CURRENT))
    rows: dict[str, WorkflowRow] = {}
    for values in await session.fetch(ALL_VERSIONS, name):
        row = VERSIONS.read(values)
        line = rows.setdefault(row.workflow, WorkflowRow(row.workflow, current[row.workflow], [], {}))
        line.versions.append(row)
    conditions, parameters = in_scope(scope)
    if name is not None:
        conditions.append("workflow = ?")
        parameters.append(name)
    where = " and ".join(["ended_at is null", *conditions])
    for workflow, version, count in await session.fetch(
        numbered(f"{OPEN} where {where} group by workflow, version"), *parameters
    ):
        rows[workflow].open_executions[version] = count
    return list(rows.values())
