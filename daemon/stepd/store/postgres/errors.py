"""Says what the driver's errors mean for a caller: the one place that knows PostgreSQL's error codes."""

from __future__ import annotations

import os
import ssl
from typing import Final

import asyncpg

from stepd.store.base import StoreUnavailable


class Contended(StoreUnavailable):
    """Others changed the same rows at the same time; nothing was done, and it is worth trying again at once."""


class Locked(StoreUnavailable):
    """Another transaction holds a row for too long."""


class Broken(StoreUnavailable):
    """The connection is of no use any more."""


class Silent(Broken):
    """Nothing was heard in time. Trying again at once would take as long again."""


DRIVER_ERRORS: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
"""What the driver raises; TimeoutError is an OSError."""

CODES: Final[dict[str, tuple[type[StoreUnavailable], str]]] = {
    "40001": (Contended, "Others changed the same rows at the same time."),
    "40P01": (Contended, "Others changed the same rows in another order."),
    "55P03": (Locked, "Another transaction holds a row for too long."),
    "57014": (StoreUnavailable, "PostgreSQL took too long over a statement."),
    "25006": (Broken, "PostgreSQL takes no writes: it is read-only."),
    "25P02": (Broken, "The transaction was broken off."),
    "25P03": (Broken, "PostgreSQL ended a transaction that stood still."),
    "53300": (Broken, "PostgreSQL has no connection left."),
    "3D000": (Broken, "There is no such database."),
}
CLASSES: Final[dict[str, tuple[type[StoreUnavailable], str]]] = {
    "08": (Broken, "The connection to PostgreSQL was lost."),
    "28": (Broken, "PostgreSQL does not let this user in."),
    "53": (StoreUnavailable, "PostgreSQL lacks disk, memory or connections."),
    "57": (Broken, "PostgreSQL is being stopped or started."),
    "58": (Broken, "PostgreSQL's own reading or writing failed."),
    "XX": (Broken, "PostgreSQL has found a fault of its own."),
}
"""Errors that lie outside the daemon, by code and by its first two characters. All others are faults of the daemon."""

NEVER: Final = ("28", "3D", "42")
"""Classes of errors at a start that will not be over by themselves: who, which database, what he may there."""
UNIQUE_VIOLATION: Final = "23505"


def unavailable(error: BaseException) -> StoreUnavailable | None:
    """What to tell a caller where the store is to blame; None where the daemon itself is."""
    match error:
        case StoreUnavailable():
            return error
        case asyncpg.PostgresError():
            code = code_of(error)
            found = CODES.get(code) or CLASSES.get(code[:2])
            return None if found is None else found[0](f"{found[1]} ({code})")
        case asyncpg.DataError() | asyncpg.ClientConfigurationError():
            return None  # a value that doesn't fit its column; a URL that makes no sense
        case TimeoutError():
            return Silent("PostgreSQL does not answer.")
        case asyncpg.InterfaceError() | asyncpg.InternalClientError():
            return Broken("The connection to PostgreSQL was lost.")
        case ssl.SSLError():
            return Broken(f"PostgreSQL and the daemon do not agree on TLS ({error.reason}).")
        case OSError():
            why = os.strerror(error.errno) if isinstance(error.errno, int) else type(error).__name__
            return Broken(f"PostgreSQL can't be reached ({why}).")  # its own text has the address
        case _:
            return None


def code_of(error: BaseException) -> str:
    """The SQLSTATE of an error; empty where it has none."""
    return str(getattr(error, "sqlstate", None) or "")
