"""The store on one SQLite file."""

from stepd.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
