"""Brings a database to a version of the schema, whole or not at all."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import URL, Connection, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

LOCATION = "stepd_migrations:"


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


def _config(location: str) -> Config:
    config = Config()
    config.set_main_option("script_location", location)
    return config


def _leave_transactions_to_us(connection: Any, _record: object) -> None:
    """The driver would commit before each DDL statement, and a migration that fails half-way would stay half done."""
    connection.isolation_level = None


def _begin_immediate(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
