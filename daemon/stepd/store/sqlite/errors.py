"""Says what the driver's errors mean for a caller: the one place that knows SQLite's error codes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from stepd.store.base import StoreUnavailable

PRIMARY_MASK: Final = 0xFF
"""An extended code holds the primary one in its low byte."""


class Locked(StoreUnavailable):
    """Another process holds a lock on the file; worth a short wait."""


class Broken(StoreUnavailable):
    """The connection is of no use any more: it is to be opened anew."""


class Failing(StoreUnavailable):
    """Reading or writing failed. It may be over at once, or last until the file is opened anew."""


UNAVAILABLE: Final[dict[int, tuple[type[StoreUnavailable], str]]] = {
    sqlite3.SQLITE_BUSY: (Locked, "The database file is locked by another process."),
    sqlite3.SQLITE_LOCKED: (Locked, "The database file is locked."),
    sqlite3.SQLITE_PROTOCOL: (Locked, "The database file's locks are contended."),
    sqlite3.SQLITE_FULL: (StoreUnavailable, "The disk with the database file is full."),
    sqlite3.SQLITE_READONLY: (Broken, "The database file is read-only."),
    sqlite3.SQLITE_PERM: (Broken, "The database file may not be used by this user."),
    sqlite3.SQLITE_CANTOPEN: (Broken, "The database file can't be opened."),
    sqlite3.SQLITE_IOERR: (Failing, "Reading or writing the database file failed."),
    sqlite3.SQLITE_NOTADB: (Broken, "The database file is not an SQLite database."),
    sqlite3.SQLITE_CORRUPT: (Broken, "The database file is damaged."),
    sqlite3.SQLITE_NOMEM: (StoreUnavailable, "There is no memory left for the database."),
    sqlite3.SQLITE_INTERRUPT: (StoreUnavailable, "The store is closing."),
}
"""Errors that lie outside the daemon, by primary code. All others are faults of the daemon and pass as they are."""


def unavailable(error: BaseException) -> StoreUnavailable | None:
    """What to tell a caller where the store is to blame; None where the daemon itself is."""
    if isinstance(error, StoreUnavailable):
        return error
    if not isinstance(error, sqlite3.Error):
        return None
    code: int = getattr(error, "sqlite_errorcode", 0)
    found = UNAVAILABLE.get(code & PRIMARY_MASK)
    if found is None:
        return None
    kind, message = found
    return kind(f"{message} ({error.sqlite_errorname})")


@contextmanager
def translated() -> Iterator[None]:
    """Within it, errors of the driver that lie outside the daemon become StoreUnavailable."""
    try:
        yield
    except sqlite3.Error as error:
        if (told := unavailable(error)) is not None:
            raise told from error
        raise
