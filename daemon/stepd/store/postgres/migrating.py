"""Brings the schema of a PostgreSQL database up, as its owner, and lets a daemon's role use it."""

from __future__ import annotations

from typing import Any

import asyncpg

from stepd.store.base import StoreRefused
from stepd.store.postgres.address import without_secrets
from stepd.store.postgres.roles import check_exists, grant
from stepd.store.postgres.standing import check_server, schema_version
from stepd_migrations import HEAD


async def migrate(url: str, runtime_role: str | None) -> str | None:
    """Brings the schema to this program's version; answers the one it had. Raises StoreRefused."""
    try:
        connection = await asyncpg.connect(url)
        try:
            return await _migrate(connection, url, runtime_role)
        finally:
            await connection.close()
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError) as error:
        raise StoreRefused(f"The database {without_secrets(url)} can't be used: {_said(error)}.") from error


async def _migrate(connection: asyncpg.Connection[Any], url: str, runtime_role: str | None) -> str | None:
    # Imported only here: it takes a third of a second, which no other command shall cost.
    from stepd_migrations.run import UnknownVersion, upgrade_postgres

    await check_server(connection)
    before = await schema_version(connection)
    if runtime_role is not None:
        await check_exists(connection, runtime_role)
    try:
        await upgrade_postgres(url)
    except asyncpg.LockNotAvailableError as error:
        raise StoreRefused(
            "Somebody uses the tables, or migrates them already: stop the daemons, look into pg_stat_activity for "
            "others, and run it again. Nothing was changed."
        ) from error
    except UnknownVersion as error:
        raise StoreRefused(
            f"The database has the schema version {before}, and this stepd knows up to {HEAD}. "
            "Use a stepd that is as new as the one that wrote it."
        ) from error
    if runtime_role is not None:
        await grant(connection, runtime_role)
    return before


def _said(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
