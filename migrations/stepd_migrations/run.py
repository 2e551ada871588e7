"""Brings a database to a version of the schema, whole or not at all."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import asyncpg
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import URL, Connection, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

LOCATION = "stepd_migrations:"
LOCK: Final = 7_117_001
"""Number of the advisory lock that two migrations of one PostgreSQL database wait for."""
LOCK_WAIT: Final = "30s"
"""How long a migration waits for that lock, and for each table that is in use."""


class UnknownVersion(Exception):
    """The database, or the caller, names a version that is not among the scripts."""


def upgrade_sqlite(file: Path, to: str = "head", *, location: str = LOCATION) -> None:
    """Brings the SQLite file up to a version; makes the file where there is none. A failure leaves it as it was.

    Raises sqlite3.Error where the file can't be used, UnknownVersion where the version it has is not one of these.
    """
    _on_sqlite(file, location, lambda config: command.upgrade(config, to))


def downgrade_sqlite(file: Path, to: str, *, location: str = LOCATION) -> None:
    """Takes the SQLite file back to an older version, ``base`` for none. What that version can't hold is lost."""
    _on_sqlite(file, location, lambda config: command.downgrade(config, to))


async def upgrade_postgres(url: str, to: str = "head", *, location: str = LOCATION) -> None:
    """Brings the schema in which the URL's role makes its tables up to a version. A failure leaves it as it was.

    Raises asyncpg.PostgresError and OSError where the database can't be used, UnknownVersion where the version it has
    is not one of these.
    """
    await _on_postgres(url, location, lambda config: command.upgrade(config, to))


async def downgrade_postgres(url: str, to: str, *, location: str = LOCATION) -> None:
    """Takes it back to an older version, ``base`` for none. What that version can't hold is lost."""
    await _on_postgres(url, location, lambda config: command.downgrade(config, to))


def newest(location: str = LOCATION) -> str | None:
    """The newest version among the scripts."""
    return ScriptDirectory.from_config(_config(location)).get_current_head()


def _on_sqlite(file: Path, location: str, act: Callable[[Config], None]) -> None:
    engine = create_engine(URL.create("sqlite", database=str(file)), poolclass=NullPool)
    event.listen(engine, "connect", _leave_transactions_to_us)
    event.listen(engine, "begin", _begin_immediate)
    try:
        with engine.begin() as connection:
            config = _config(location)
            config.attributes["connection"] = connection
            act(config)
    except CommandError as error:
        raise UnknownVersion(str(error)) from error
    except DBAPIError as error:
        if isinstance(error.orig, sqlite3.Error):
            raise error.orig from error
        raise
    finally:
        engine.dispose()


async def _on_postgres(url: str, location: str, act: Callable[[Config], None]) -> None:
    async def connect() -> asyncpg.Connection[asyncpg.Record]:
        return await asyncpg.connect(url)

    def run(connection: Connection) -> None:
        connection.exec_driver_sql(f"set local lock_timeout = '{LOCK_WAIT}'")
        connection.exec_driver_sql(f"select pg_advisory_xact_lock({LOCK})")
        config = _config(location)
        config.attributes["connection"] = connection
        act(config)

    engine = create_async_engine("postgresql+asyncpg://", async_creator=connect, poolclass=NullPool)
    try:
        async with engine.begin() as connection:
            await connection.run_sync(run)
    except CommandError as error:
        raise UnknownVersion(str(error)) from error
    except DBAPIError as error:
        cause = error.orig.__cause__ if error.orig else None
        if isinstance(cause, (asyncpg.PostgresError, OSError)):
            raise cause from error
        raise
    finally:
        await engine.dispose()


def _config(location: str) -> Config:
    config = Config()
    config.set_main_option("script_location", location)
    return config


def _leave_transactions_to_us(connection: Any, _record: object) -> None:
    """The driver would commit before each DDL statement, and a migration that fails half-way would stay half done."""
    connection.isolation_level = None


def _begin_immediate(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
