"""Reads a database file for whoever examines it: changes nothing, and makes no file beside it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

from stepd.store.base import Scope, Serve
from stepd.store.contents import OVERDUE_MS, WORKERS_MS, Contents
from stepd.store.records import ServiceRow
from stepd.store.sqlite import lists, records
from stepd.store.sqlite.errors import PRIMARY_MASK, unavailable
from stepd.store.sqlite.schema import TABLES, VERSION

MAGIC: Final = b"SQLite format 3\0"
LOCK_WAIT_SECONDS: Final = 2.0
CHECK_BESIDE_SECONDS: Final = 10.0
"""How long the integrity check may take while a daemon runs: as long as it reads, the log can't begin anew."""
PROGRESS_STEPS: Final = 10_000
DAMAGES_MAX: Final = 5
SIGNS_OF_DAMAGE: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
"""The last is a table or an index that is missing, though the version says that it is there."""

CHECK: Final = f"pragma quick_check({DAMAGES_MAX})"
KEYS: Final = (
    "select count(*), count(*) filter (where revoked_at is null and "
    "exists (select 1 from json_each(cast(scopes as text)) where value = 'admin')) from keys"
)
RECONCILIATION: Final = "select count(*) from executions where status = 'reconciliation_required'"
ORPHANS: Final = (
    "select count(*) from attempts indexed by attempts_next where next_at is not null and status = 'orphaned'"
)
OVERDUE: Final = (
    "select (select count(*) from attempts indexed by attempts_next where next_at < :at) "
    "+ (select count(*) from steps indexed by steps_timer where timer_at < :at and parked = 0)"
)


class Unreadable(Exception):
    """The file can't be read as a database of stepd, for good where it is damaged; `str()` of it says why."""

    def __init__(self, why: str, *, is_damaged: bool = False) -> None:
        super().__init__(why)
        self.is_damaged = is_damaged


def is_database(file: Path) -> bool:
    """Whether the file begins as SQLite's do. Raises OSError."""
    with file.open("rb") as opened:
        return opened.read(len(MAGIC)) == MAGIC


def log_of(file: Path) -> Path:
    """The write-ahead log beside the file."""
    return file.with_name(f"{file.name}-wal")


def log_bytes(file: Path) -> int:
    """The length of the write-ahead log; 0 where there is none."""
    try:
        return log_of(file).stat().st_size
    except OSError:
        return 0


def connect(file: Path, *, is_held: bool) -> sqlite3.Connection:
    """A connection that changes nothing. Raises Unreadable, sqlite3.Error.

    SQLite makes the log and its index where they are missing, and mends the index where nobody has it open, even for
    whoever reads only. So this is left to it only where a daemon has both open already; else, a file without a log is
    read as it lies there, and one with a log through the index that is there.
    """
    if is_held:
        options = "mode=ro"
    elif log_of(file).exists() and file.with_name(f"{file.name}-shm").exists():
        options = "mode=ro&readonly_shm=1"
    elif log_bytes(file) == 0:
        options = "mode=ro&immutable=1"
    else:
        raise Unreadable(
            f"beside it is a log, {log_of(file).name}, without its index, and reading it would write one; "
            "a daemon makes it when it starts"
        )
    uri = f"file:{quote(str(file))}?{options}"
    connection = sqlite3.connect(uri, uri=True, timeout=LOCK_WAIT_SECONDS, isolation_level=None)
    connection.execute("pragma query_only = on")
    return connection


def read_contents(file: Path, newest: str, now: int, *, is_held: bool) -> Contents:
    """What the file holds; of a schema other than ``newest`` only its version. ``now`` in ms. Raises Unreadable."""
    with _reading(file, is_held=is_held) as connection:
        return _checked(_contents(connection, newest, now))


def check_integrity(file: Path, *, is_held: bool, seconds: float | None = None) -> list[str] | None:
    """What is damaged, at most five lines; None where `seconds` were not enough to look at everything.

    Raises Unreadable.
    """
    try:
        with _reading(file, is_held=is_held) as connection:
            if seconds is not None:
                deadline = time.monotonic() + seconds
                connection.set_progress_handler(lambda: time.monotonic() > deadline, PROGRESS_STEPS)
            found = [str(line) for (line,) in connection.execute(CHECK)]
    except Unreadable as fault:
        if fault.is_damaged:
            return [str(fault)]
        if getattr(fault.__cause__, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT:
            return None
        raise
    return [] if found == ["ok"] else found


@contextmanager
def _reading(file: Path, *, is_held: bool) -> Iterator[sqlite3.Connection]:
    """A connection for as long as it is read from. Raises Unreadable for whatever goes wrong meanwhile."""
    try:
        with closing(connect(file, is_held=is_held)) as connection:
            yield connection
    except sqlite3.Error as error:
        is_damaged = getattr(error, "sqlite_errorcode", 0) & PRIMARY_MASK in SIGNS_OF_DAMAGE
        raise Unreadable(str(unavailable(error) or error), is_damaged=is_damaged) from error
    except (UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise Unreadable(f"a row makes no sense: {error}", is_damaged=True) from error


def _contents(connection: sqlite3.Connection, newest: str, now: int) -> Contents:
    tables, ours = connection.execute(TABLES).fetchone()
    values = connection.execute(VERSION).fetchone() if ours else None
    contents = Contents(tables=tables, version=None if values is None else str(values[0]))
    if contents.version != newest:
        return contents
    service = connection.execute(records.SERVICE).fetchone()
    contents.service = None if service is None else ServiceRow(*service)
    contents.keys, contents.admins = connection.execute(KEYS).fetchone()
    (contents.reconciliation,) = connection.execute(RECONCILIATION).fetchone()
    (contents.orphans,) = connection.execute(ORPHANS).fetchone()
    (contents.overdue,) = connection.execute(OVERDUE, {"at": now - OVERDUE_MS}).fetchone()
    contents.queue = lists.queue(connection, Scope())
    contents.workers = records.workers(connection, now - WORKERS_MS)
    return contents


def _checked(contents: Contents) -> Contents:
    """The same. A damaged file may hold anything, which SQLite's own check can't see. Raises MsgspecError."""
    if contents.service is not None:
        msgspec.json.decode(contents.service.settings, type=dict)
    for row in contents.workers:
        msgspec.json.decode(row.serves, type=tuple[Serve, ...])
        msgspec.json.decode(row.tenants, type=tuple[str, ...])
    msgspec.convert(msgspec.to_builtins(contents, builtin_types=(bytes,)), Contents)
    return contents
