"""Opens connections to the file: the one that writes, and those that only read."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final
from urllib.parse import quote

OPEN_WAIT_SECONDS: Final = 5.0
"""How long opening may wait for a lock of another process; nothing is served yet."""
READ_WAIT_SECONDS: Final = 2.0
CACHED_STATEMENTS: Final = 256
CACHE_KIB: Final = 32_768
LOG_BYTES: Final = 67_108_864
"""To this size the write-ahead log is cut when it begins anew after a time of many writes."""

WRITER_PRAGMAS: Final = (
    "pragma journal_mode = wal",
    "pragma synchronous = full",
    "pragma foreign_keys = off",  # what belongs together is written and removed together by the store itself
    f"pragma cache_size = -{CACHE_KIB}",
    "pragma temp_store = memory",
    "pragma wal_autocheckpoint = 0",  # the checkpoints are made beside the event loop
    f"pragma journal_size_limit = {LOG_BYTES}",
    "pragma busy_timeout = 0",  # a wait here would be a wait of the whole event loop
)


def connect_writer(file: Path, wait_seconds: float = 0) -> sqlite3.Connection:
    """The connection that writes, in WAL mode with full durability; once open it never waits for a lock.

    ``wait_seconds`` bounds how long opening it may wait for one. Raises sqlite3.Error.
    """
    connection = _connect(f"file:{quote(str(file))}?mode=rw", wait_seconds)
    try:
        for pragma in WRITER_PRAGMAS:
            connection.execute(pragma).fetchall()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def connect_reader(file: Path) -> sqlite3.Connection:
    """A connection that can't write. Raises sqlite3.Error."""
    return _connect(f"file:{quote(str(file))}?mode=ro", READ_WAIT_SECONDS)


def connect_checkpointer(file: Path) -> sqlite3.Connection:
    """A connection for checkpoints only. Raises sqlite3.Error."""
    connection = _connect(f"file:{quote(str(file))}?mode=rw", READ_WAIT_SECONDS)
    connection.execute("pragma synchronous = full")
    return connection


def _connect(uri: str, wait_seconds: float) -> sqlite3.Connection:
    return sqlite3.connect(
        uri,
        uri=True,
        timeout=wait_seconds,
        isolation_level=None,
        check_same_thread=False,  # opened and closed on other threads than they are used on, never used on two at once
        cached_statements=CACHED_STATEMENTS,
    )
