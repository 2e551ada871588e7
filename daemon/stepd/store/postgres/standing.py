"""Whether a PostgreSQL database can be served from: the server's version, and that of the schema in it."""

from __future__ import annotations

from typing import Any, Final

import asyncpg

from stepd.store.base import StoreRefused
from stepd_migrations import HEAD

OLDEST: Final = 15
"""The oldest PostgreSQL that a store runs on."""
MIGRATE: Final = "`stepd migrate --database postgresql://… --runtime-role NAME`, as the owner of the schema"

SERVER: Final = "select current_setting('server_version'), current_setting('server_version_num')::int / 10000"
SCHEMA: Final = "select current_schema(), current_database()"
TABLES: Final = """
    select count(*), count(*) filter (where relname = 'alembic_version') from pg_class
    where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p')"""
MAY_READ: Final = "select has_table_privilege('alembic_version', 'select')"
VERSION: Final = "select version_num from alembic_version"


async def check_server(connection: asyncpg.Connection[Any]) -> None:
    """Raises StoreRefused where the server is older than a store can use."""
    shown, major = await _row(connection, SERVER)
    if major < OLDEST:
        raise StoreRefused(f"The server is PostgreSQL {shown}; stepd needs {OLDEST} or newer.")


async def check_schema(connection: asyncpg.Connection[Any]) -> None:
    """Raises StoreRefused where the schema is not the one that this program knows."""
    version = await schema_version(connection)
    if version is None:
        raise StoreRefused(f"The database has no schema of stepd yet; make it with {MIGRATE}.")
    if version < HEAD:
        raise StoreRefused(
            f"The database has the schema version {version}, and this stepd needs {HEAD}. Bring it up with {MIGRATE}."
        )
    if version > HEAD:
        raise StoreRefused(
            f"The database has the schema version {version}, and this stepd knows up to {HEAD}. Start a stepd that "
            "is as new as the one whose `stepd migrate` wrote it."
        )


async def schema_version(connection: asyncpg.Connection[Any]) -> str | None:
    """The version of the schema; None where there is none yet. Raises StoreRefused for what is not stepd's."""
    schema, database = await _row(connection, SCHEMA)
    if schema is None:
        raise StoreRefused(
            f"The database {database} has no schema for this role to use: make one, or name it in the URL with "
            "?search_path=NAME."
        )
    tables, ours = await _row(connection, TABLES)
    if tables and not ours:
        raise StoreRefused(
            f"The schema {schema} of the database {database} is another program's: it has {tables} tables, and none "
            "says that it is stepd's. Name another database with --database, or another schema with ?search_path=NAME."
        )
    if not ours:
        return None
    if not await connection.fetchval(MAY_READ):
        raise StoreRefused(f"The role may not read the schema's version; let it do what a daemon needs with {MIGRATE}.")
    version = await connection.fetchval(VERSION)
    return None if version is None else str(version)


async def _row(connection: asyncpg.Connection[Any], query: str) -> Any:
    return await connection.fetchrow(query)
