"""The stores that sit the exam: how each is opened for a test, and how a test reaches behind its back.

To add a store, write a backend for it and register it in ``BACKENDS``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Protocol

from stepd.clock import Clock
from stepd.engine.work import Settings
from stepd.store.base import Store
from stepd.store.postgres.store import PostgresStore
from stepd.store.sqlite import SqliteStore
from stepd_migrations.run import upgrade_sqlite
from tests.support import postgres


class Backend(Protocol):
    """A place where one store's data lives for the length of a test."""

    def make(self, settings: Settings, clock: Clock) -> Store:
        """A store on that place, not opened yet."""

    def query(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Runs one statement on a connection of the test's own and commits."""

    def refuse_inserts(self, table: str, condition: str) -> None:
        """From now on inserting a row for which the condition (on ``new``) holds fails."""

    def allow_inserts(self, table: str) -> None:
        """Takes that back."""

    def close(self) -> None:
        """Removes the place."""


class SqliteBackend:
    """A file in the test's directory, with its schema already in it: making that takes longer than most tests."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "stepd.db"
        self.file.write_bytes(_empty_database())

    def make(self, settings: Settings, clock: Clock) -> SqliteStore:
        return SqliteStore(self.file, settings, clock)

    def query(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(self.file, timeout=5, isolation_level=None)
        try:
            return connection.execute(statement, parameters).fetchall()
        finally:
            connection.close()

    def refuse_inserts(self, table: str, condition: str) -> None:
        self.query(
            f"create trigger refuse_{table} before insert on {table} when {condition} "
            "begin select raise(abort, 'refused by the test'); end"
        )

    def allow_inserts(self, table: str) -> None:
        self.query(f"drop trigger refuse_{table}")

    def close(self) -> None:
        pass


class PostgresBackend:
    """A database on the tests' server with the schema in it, emptied for each test: that is faster than making it."""

    def __init__(self, _directory: Path) -> None:
        self.database = postgres.emptied_database()

    def make(self, settings: Settings, clock: Clock) -> PostgresStore:
        own = postgres.own_server() is not None
        return PostgresStore(self.database.daemon_url, settings, clock, allow_owner_role=own)

    def query(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return self.database.query(numbered(statement), *parameters)

    def refuse_inserts(self, table: str, condition: str) -> None:
        self.query(
            f"create function refuse_{table}() returns trigger language plpgsql as $$ begin "
            f"if {condition} then raise exception 'refused by the test'; end if; return new; end $$"
        )
        self.query(
            f"create trigger refuse_{table} before insert on {table} for each row execute function refuse_{table}()"
        )

    def allow_inserts(self, table: str) -> None:
        self.query(f"drop function refuse_{table}() cascade")

    def close(self) -> None:
        postgres.give_back(self.database)


def numbered(statement: str) -> str:
    """The statement with ``$1``, ``$2``, … in the place of each ``?``."""
    first, *others = statement.split("?")
    return first + "".join(f"${number}{part}" for number, part in enumerate(others, 1))


@cache
def _empty_database() -> bytes:
    with TemporaryDirectory() as directory:
        file = Path(directory) / "empty.db"
        upgrade_sqlite(file)
        return file.read_bytes()


BACKENDS: Final[dict[str, Callable[[Path], Backend]]] = {"sqlite": SqliteBackend, "postgres": PostgresBackend}
