"""The places where a schema can be: how it is brought up and taken down there, and what is in it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import asyncpg

from stepd_migrations import run
from tests.support import postgres


class Place(Protocol):
    """A database of a test's own, empty at first."""

    def upgrade(self, to: str = "head", *, location: str = run.LOCATION) -> None: ...

    def downgrade(self, to: str) -> None: ...

    def query(self, statement: str) -> list[tuple[Any, ...]]: ...

    def columns(self, table: str) -> list[str]: ...

    def objects(self) -> list[tuple[Any, ...]]:
        """All that the schema has: tables, columns, indexes, triggers, functions."""


class SqlitePlace:
    def __init__(self, file: Path) -> None:
        self.file = file

    def upgrade(self, to: str = "head", *, location: str = run.LOCATION) -> None:
        run.upgrade_sqlite(self.file, to, location=location)

    def downgrade(self, to: str) -> None:
        run.downgrade_sqlite(self.file, to)

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.file, isolation_level=None)) as connection:
            return connection.execute(statement).fetchall()

    def columns(self, table: str) -> list[str]:
        return [line[1] for line in self.query(f"pragma table_info({table})")]

    def objects(self) -> list[tuple[Any, ...]]:
        found = self.query("select type, name, sql from sqlite_master where name not like 'sqlite%' order by name")
        return [(kind, name, " ".join(sql.split())) for kind, name, sql in found if name != "alembic_version"]


class PostgresPlace:
    def __init__(self, database: postgres.Database) -> None:
        self.database = database

    def upgrade(self, to: str = "head", *, location: str = run.LOCATION) -> None:
        postgres.wait_for(run.upgrade_postgres(self.database.url, to, location=location))

    def downgrade(self, to: str) -> None:
        postgres.wait_for(run.downgrade_postgres(self.database.url, to))

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        return self.database.query(statement)

    def columns(self, table: str) -> list[str]:
        found = self.query(
            "select column_name from information_schema.columns "
            f"where table_schema = current_schema() and table_name = '{table}' order by ordinal_position"
        )
        return [name for (name,) in found]

    def objects(self) -> list[tuple[Any, ...]]:
        found = [line for query in POSTGRES_OBJECTS for line in sorted(self.query(query))]
        # A server of one's own has another schema for each test.
        own = f"{self.query('select current_schema()')[0][0]}."
        return [
            tuple(value and value.replace(own, "") for value in line)
            for line in found
            if not line[0].startswith("alembic_version")
        ]


COLUMNS: Final = """
    select table_name, column_name, ordinal_position::text, data_type, is_nullable, collation_name, column_default
    from information_schema.columns where table_schema = current_schema()"""
INDEXES: Final = "select indexname, indexdef from pg_indexes where schemaname = current_schema()"
CONSTRAINTS: Final = """
    select conname, pg_get_constraintdef(oid) from pg_constraint
    where connamespace = current_schema()::regnamespace and contype in ('c', 'u', 'p')"""
TRIGGERS: Final = """
    select tgname, pg_get_triggerdef(t.oid) from pg_trigger t join pg_class c on c.oid = tgrelid
    where relnamespace = current_schema()::regnamespace and not tgisinternal"""
FUNCTIONS: Final = "select proname, prosrc from pg_proc where pronamespace = current_schema()::regnamespace"
POSTGRES_OBJECTS: Final = (COLUMNS, INDEXES, CONSTRAINTS, TRIGGERS, FUNCTIONS)


@contextmanager
def _sqlite(directory: Path) -> Iterator[Place]:
    yield SqlitePlace(directory / "stepd.db")


@contextmanager
def _postgres(_directory: Path) -> Iterator[Place]:
    with postgres.database(empty=True) as database:
        yield PostgresPlace(database)


PLACES: Final[dict[str, Callable[[Path], Any]]] = {"sqlite": _sqlite, "postgres": _postgres}
REFUSALS: Final = (sqlite3.IntegrityError, asyncpg.IntegrityConstraintViolationError, asyncpg.RaiseError)
"""What the databases say to a change that they don't take."""
