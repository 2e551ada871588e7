"""The schema on SQLite: up, down, whole or not at all, and the same columns as the rows."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import stepd_migrations
from stepd.engine.work import Settings
from stepd.store.base import StoreRefused
from stepd.store.sqlite import SqliteStore, rows
from stepd_migrations import run

TABLES = [
    rows.EXECUTIONS,
    rows.STEPS,
    rows.ATTEMPTS,
    rows.IDEMPOTENCY,
    rows.LEDGER,
    rows.VERSIONS,
    rows.WORKERS,
    rows.KEYS,
]


def query(file: Path, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(file, isolation_level=None)
    try:
        return connection.execute(statement, parameters).fetchall()
    finally:
        connection.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "stepd.db"
    run.upgrade_sqlite(path)
    return path


def test_the_version_that_stores_look_for_is_the_newest_one() -> None:
    assert run.newest() == stepd_migrations.HEAD


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_columns_are_the_fields_of_the_row_in_their_order(table: rows.Table[Any], file: Path) -> None:
    assert [line[1] for line in query(file, f"pragma table_info({table.name})")] == list(table.columns)


def test_events_have_the_execution_in_front_of_their_fields(file: Path) -> None:
    assert [line[1] for line in query(file, "pragma table_info(events)")] == ["execution_id", *rows.EVENTS.columns]


def test_audit_rows_have_a_number_in_front_of_their_fields(file: Path) -> None:
    assert [line[1] for line in query(file, "pragma table_info(audit)")] == ["id", *rows.AUDIT.columns]


def test_down_and_up_again(file: Path) -> None:
    before = query(file, "select type, name, sql from sqlite_master order by name")
    run.downgrade_sqlite(file, "base")
    left = query(file, "select name from sqlite_master where type <> 'index' and name not like 'sqlite%'")
    assert left == [("alembic_version",)]
    run.upgrade_sqlite(file)
    assert query(file, "select type, name, sql from sqlite_master order by name") == before


def test_a_migration_that_fails_leaves_nothing_behind(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "later" / "broken_migrations"
    (package / "versions").mkdir(parents=True)
    source = Path(stepd_migrations.__file__).parent
    for path in (source / "env.py", *(source / "versions").glob("v*.py")):
        (package / path.relative_to(source)).write_text(path.read_text())
    (package / "__init__.py").write_text("")
    (package / "versions" / "v9999_broken.py").write_text(
        f'revision, down_revision, branch_labels, depends_on = "9999", "{stepd_migrations.HEAD}", None, None\n'
        "from alembic import op\n"
        "def upgrade():\n"
        '    op.execute("create table half (done int)")\n'
        '    op.execute("insert into pulse (one, at) values (1, 5)")\n'
        '    op.execute("insert into pulse (one, at) values (2, 5)")\n'
    )
    monkeypatch.syspath_prepend(str(package.parent))
    before = query(file, "select name from sqlite_master order by name")
    with pytest.raises(sqlite3.IntegrityError):
        run.upgrade_sqlite(file, location="broken_migrations:")
    assert query(file, "select name from sqlite_master order by name") == before
    assert query(file, "select version_num from alembic_version") == [(stepd_migrations.HEAD,)]
    assert query(file, "select * from pulse") == []


def test_the_audit_log_takes_rows_and_lets_none_go(file: Path) -> None:
    query(file, "insert into audit values (1, 10, 'p', null, 'do', 'x', null, null, 'done')")
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        query(file, "update audit set principal = 'q'")
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        query(file, "delete from audit")
    query(file, "update audit_retention set kept_from = 11")
    query(file, "delete from audit")
    assert query(file, "select * from audit") == []


def test_the_ledger_takes_rows_and_lets_none_go(file: Path) -> None:
    query(file, "insert into ledger values ('a', 'x', 10, 'p', 'k', 'h', x'00', x'00', null)")
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        query(file, "update ledger set operator = 'q'")
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        query(file, "delete from ledger")


async def test_a_store_makes_its_file_and_opens_it_again(tmp_path: Path) -> None:
    for _ in range(2):
        store = SqliteStore(tmp_path / "new.db", Settings())
        await store.open()
        await store.close()
    assert query(tmp_path / "new.db", "select version_num from alembic_version") == [(stepd_migrations.HEAD,)]


@pytest.mark.parametrize("name", ["with space.db", "a?b.db", "c#d.db", "100%41.db", "käse.db"])
async def test_any_file_name_will_do(tmp_path: Path, name: str) -> None:
    store = SqliteStore(tmp_path / name, Settings())
    await store.open()
    await store.pulse()
    assert await store.counts() == {}
    await store.close()
    assert set(os.listdir(tmp_path)) == {name, f"{name}.lock"}


async def test_a_newer_schema_is_refused_and_stays_as_it_is(file: Path) -> None:
    query(file, "update alembic_version set version_num = '9999'")
    with pytest.raises(StoreRefused, match=r"9999.*as new as"):
        await SqliteStore(file, Settings()).open()
    assert query(file, "select version_num from alembic_version") == [("9999",)]


async def test_another_programs_database_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    query(tmp_path / "other.db", "create table theirs (x)")
    with pytest.raises(StoreRefused, match=r"another program.*--database"):
        await SqliteStore(tmp_path / "other.db", Settings()).open()
    assert query(tmp_path / "other.db", "select name from sqlite_master") == [("theirs",)]


async def test_a_file_that_is_no_database_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    text = b"not a database at all, but long enough to look like one " * 100
    (tmp_path / "text.db").write_bytes(text)
    with pytest.raises(StoreRefused, match="not an SQLite database"):
        await SqliteStore(tmp_path / "text.db", Settings()).open()
    assert (tmp_path / "text.db").read_bytes() == text


async def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreRefused, match=r"missing/x\.db\.lock"):
        await SqliteStore(tmp_path / "missing" / "x.db", Settings()).open()
