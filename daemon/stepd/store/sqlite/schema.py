"""Sees to it that the file has the newest schema before anything is served from it."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final
from urllib.parse import quote

from stepd.store.base import StoreRefused
from stepd.store.sqlite.errors import unavailable
from stepd_migrations import HEAD

TABLES: Final = (
    "select count(*), count(*) filter (where name = 'alembic_version') from sqlite_master where type = 'table'"
)
VERSION: Final = "select version_num from alembic_version"
OPEN_WAIT_SECONDS: Final = 5.0


def bring_up(file: Path) -> None:
    """Makes the file where there is none, and brings an older schema up. Blocks; raises StoreRefused."""
    try:
        version = _version(file)
        if version != HEAD:
            _migrate(file, version)
    except sqlite3.Error as error:
        raise StoreRefused(f"The database {file} can't be used: {unavailable(error) or error}") from error


def _version(file: Path) -> str | None:
    """The version of the file's schema; None where there is none yet. Raises StoreRefused for a foreign database."""
    connection = sqlite3.connect(f"file:{quote(str(file))}", uri=True, timeout=OPEN_WAIT_SECONDS, isolation_level=None)
    try:
        tables, ours = connection.execute(TABLES).fetchone()
        if tables and not ours:
            raise StoreRefused(
                f"The file {file} is a database of another program: it has {tables} tables, and none says that it is "
                "stepd's. Name another file with --database."
            )
        values = connection.execute(VERSION).fetchone() if ours else None
    finally:
        connection.close()
    return None if values is None else str(values[0])


def _migrate(file: Path, version: str | None) -> None:
    # Imported only here: it takes a third of a second, which a start on an up-to-date file shall not cost.
    from stepd_migrations.run import UnknownVersion, upgrade_sqlite

    try:
        upgrade_sqlite(file)
    except UnknownVersion as error:
        raise StoreRefused(
            f"The database {file} has the schema version {version}, and this stepd knows up to {HEAD}. "
            "Start a stepd that is as new as the one that wrote it."
        ) from error
