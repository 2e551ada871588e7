"""The schema of an SQLite file that a store opens: made, brought up, or refused."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import stepd_migrations
from stepd.engine.work import Settings
from stepd.store.base import StoreRefused
from stepd.store.sqlite import SqliteStore
from stepd_migrations import run


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
