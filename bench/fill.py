"""Fills a stopped daemon's file with ended executions, as copies of those that it has."""

from __future__ import annotations

import sqlite3
from pathlib import Path

BATCH = 2_000
OWNED = ("steps", "payloads", "events")
"""Tables whose rows carry the id of their execution, and nothing else that is unique over the store."""


def fill(file: Path, wanted: int) -> None:
    """Copies ended executions, with steps, attempts, payloads and journal, until there are ``wanted``."""
    connection = sqlite3.connect(file)
    connection.execute("pragma synchronous = off")
    ids = [row[0] for row in connection.execute("select id from executions where ended_at is not null limit 200")]
    (have,) = connection.execute("select count(*) from executions where ended_at is not null").fetchone()
    made = 0
    while have + made < wanted:
        for number in range(min(BATCH, wanted - have - made)):
            _copy(connection, ids[number % len(ids)], f"-{made + number:08d}")
        made += BATCH
        connection.commit()
    connection.execute("analyze")
    connection.commit()
    connection.close()


def _copy(connection: sqlite3.Connection, execution: str, suffix: str) -> None:
    _copy_rows(connection, "executions", "id", execution, {"id": suffix})
    for table in OWNED:
        _copy_rows(connection, table, "execution_id", execution, {"execution_id": suffix})
    _copy_rows(connection, "attempts", "execution_id", execution, {"execution_id": suffix, "id": suffix})


def _copy_rows(connection: sqlite3.Connection, table: str, key: str, execution: str, suffixes: dict[str, str]) -> None:
    columns = [row[1] for row in connection.execute(f"pragma table_info({table})")]
    values = [f"{column} || '{suffixes[column]}'" if column in suffixes else column for column in columns]
    statement = f"insert into {table} ({', '.join(columns)}) select {', '.join(values)} from {table} where {key} = ?"
    connection.execute(statement, (execution,))
