"""What a daemon's role may do in PostgreSQL: granted by `stepd migrate --runtime-role`, checked before it serves."""

from __future__ import annotations

from typing import Any, Final

import asyncpg

from stepd.store.base import StoreRefused

WRITTEN: Final = (
    "attempts", "claims", "current_versions", "executions", "idempotency", "keys", "labels", "leavings", "payloads",
    "pulse", "service_config", "sessions", "signals", "spans", "steps", "usage", "versions", "workers",
)  # fmt: skip
"""Tables whose rows a daemon adds, changes and removes."""
APPENDED: Final = ("audit", "events", "ledger", "prices")
"""Tables whose rows a daemon adds and nobody changes; functions of the schema remove what has served its time."""
READ: Final = ("alembic_version", "audit_retention")
TABLES: Final = (*WRITTEN, *APPENDED, *READ)
FUNCTIONS: Final = ("remove_events(text, bigint)", "remove_audit(bigint, bigint)", "store_ms()")
NEEDED: Final = {
    **dict.fromkeys(WRITTEN, ("select", "insert", "update", "delete")),
    **dict.fromkeys(APPENDED, ("select", "insert")),
    **dict.fromkeys(READ, ("select",)),
}
"""What a daemon does with each table, and may; nothing else."""
TOO_MUCH: Final = ("update", "delete", "truncate", "trigger")
"""What would let it change what it has written into the tables that only grow."""

EXISTS: Final = "select 1 from pg_roles where rolname = $1"
SCHEMA: Final = "select current_schema()"
ME: Final = "select current_user::text"
QUOTED: Final = "select quote_ident($1)"
POWERS: Final = (
    "select rolsuper, rolbypassrls or rolreplication as mighty, "
    "has_schema_privilege(rolname, current_schema(), 'create') as makes, "
    "has_schema_privilege(rolname, current_schema(), 'usage') as uses from pg_roles where rolname = $1"
)
OWNED: Final = """
    select relname::text from pg_class
    where relnamespace = current_schema()::regnamespace and relname = any($2)
    and pg_has_role($1, relowner, 'member') order by 1"""
LACKING: Final = """
    select what, name from unnest($2::text[], $3::text[]) as needed(what, name)
    where not has_table_privilege($1, name, what) order by 1, 2"""
EXCEEDING: Final = """
    select what, name from unnest($2::text[]) as name cross join unnest($3::text[]) as what
    where has_table_privilege($1, name, what) or what = 'update' and has_any_column_privilege($1, name, what)
    order by 2, 1"""
MAY_CALL: Final = "select has_function_privilege($1, $2, 'execute')"
MAY_COUNT: Final = "select has_sequence_privilege($1, pg_get_serial_sequence('audit', 'id'), 'usage')"


async def check_role(connection: asyncpg.Connection[Any], *, allow_owner: bool = False) -> None:
    """Raises StoreRefused where the connection's role may do less than a daemon needs, or more.

    More is: to own a table, to create in the schema, to change or remove what the audit log, the ledger and the journal
    hold. With ``allow_owner`` only less is refused.
    """
    role = await connection.fetchval(ME)
    if missing := await lacks(connection, role):
        raise StoreRefused(
            f"The role {role} may not {missing[0]}{_more(missing)}: let it do what a daemon needs, as the owner of the "
            f"schema, by `stepd migrate --database postgresql://… --runtime-role {role}`."
        )
    if allow_owner:
        return
    if found := await powers(connection, role):
        raise StoreRefused(
            f"The role {role} {found[0]}{_more(found)}: a daemon's role must not be able to change what it has "
            "done. Make it another one, which `stepd migrate --database postgresql://… --runtime-role NAME` lets do "
            "just what a daemon needs; on a machine of your own, --allow-owner-role takes this one."
        )


async def check_exists(connection: asyncpg.Connection[Any], role: str) -> None:
    """Raises StoreRefused where the server has no such role."""
    if await connection.fetchval(EXISTS, role) is None:
        raise StoreRefused(
            f"--runtime-role {role}: there is no such role. Make it first, for example with "
            f"`create role {await connection.fetchval(QUOTED, role)} login password '…'`."
        )


async def grant(connection: asyncpg.Connection[Any], role: str) -> None:
    """Lets a role do what a daemon needs, and takes back what it was granted beyond; nothing where it still could more.

    Raises StoreRefused.
    """
    async with connection.transaction():
        await check_exists(connection, role)
        for statement in await _grants(connection, role):
            await connection.execute(statement)
        if found := await powers(connection, role):
            raise StoreRefused(
                f"--runtime-role {role}: it {found[0]}{_more(found)}. Name a role that owns nothing, is a member of no "
                "role that does, and take from PUBLIC what it should not have, for example with "
                f"`revoke create on schema {await _schema(connection)} from public`."
            )


async def lacks(connection: asyncpg.Connection[Any], role: str) -> list[str]:
    """What the role may not do, though a daemon does it."""
    power = await connection.fetchrow(POWERS, role)
    schema = await connection.fetchval(SCHEMA)
    if power is None or not power["uses"]:
        return [f"use the schema {schema}"]
    rights = [(right, table) for table, rights in NEEDED.items() for right in rights]
    lacking = await connection.fetch(LACKING, role, [right for right, _ in rights], [table for _, table in rights])
    found = [f"{right} in the table {table}" for right, table in lacking]
    for function in FUNCTIONS:
        if not await connection.fetchval(MAY_CALL, role, function):
            found.append(f"call the function {function}")
    if not await connection.fetchval(MAY_COUNT, role):
        found.append("number the rows of the table audit")
    return found


async def powers(connection: asyncpg.Connection[Any], role: str) -> list[str]:
    """What the role may do and a daemon must not."""
    power = await connection.fetchrow(POWERS, role)
    if power is None:
        return []
    if power["rolsuper"]:
        return ["is a superuser"]
    found = [f"owns the table {name}" for (name,) in await connection.fetch(OWNED, role, TABLES)]
    if power["makes"]:
        found.append(f"can create in the schema {await connection.fetchval(SCHEMA)}")
    exceeding = await connection.fetch(EXCEEDING, role, (*APPENDED, *READ), TOO_MUCH)
    return found + [f"can {right} in the table {table}" for right, table in exceeding]


async def _grants(connection: asyncpg.Connection[Any], role: str) -> list[str]:
    to = await connection.fetchval(QUOTED, role)
    schema = await _schema(connection)
    statements = [
        f"grant usage on schema {schema} to {to}",
        f"revoke create on schema {schema} from {to}",
        f"revoke all on {', '.join(TABLES)} from {to}",
    ]
    statements += [f"grant {', '.join(rights)} on {table} to {to}" for table, rights in NEEDED.items()]
    statements += [f"grant execute on function {function} to {to}" for function in FUNCTIONS]
    sequence = await connection.fetchval("select pg_get_serial_sequence('audit', 'id')")
    return [*statements, f"grant usage on sequence {sequence} to {to}"]


async def _schema(connection: asyncpg.Connection[Any]) -> str:
    return str(await connection.fetchval("select quote_ident(current_schema())"))


def _more(found: list[str]) -> str:
    return f", and {len(found) - 1} things more" if len(found) > 1 else ""
