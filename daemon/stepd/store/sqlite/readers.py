"""Reads that may take long, each in one consistent look, on threads and connections of their own."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from stepd.store.base import StoreUnavailable
from stepd.store.sqlite.connections import connect_reader
from stepd.store.sqlite.errors import Broken, translated
from stepd.store.sqlite.presence import Presence

R = TypeVar("R")

THREADS: Final = 2


class Readers:
    """A few threads, each with a connection that can't write."""

    def __init__(self, file: Path, presence: Presence) -> None:
        self._file = file
        self._presence = presence
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="stepd-read")
        self._own = threading.local()
        self._lock = threading.Lock()
        self._open: set[sqlite3.Connection] = set()
        self._closed = False

    async def run(self, read: Callable[[sqlite3.Connection], R]) -> R:
        """Runs ``read`` on a thread, on one snapshot of what is committed. Raises StoreUnavailable."""
        if self._closed:
            raise StoreUnavailable("The daemon is stopping.")
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._read, read)

    async def close(self) -> None:
        """Breaks off what runs, and closes the connections."""
        self._closed = True
        with self._lock:
            for connection in self._open:
                connection.interrupt()
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)
        for connection in self._open:
            connection.close()
        self._open.clear()

    def _read(self, read: Callable[[sqlite3.Connection], R]) -> R:
        try:
            with translated():
                connection = self._connection()
                connection.execute("begin")
                try:
                    return read(connection)
                finally:
                    connection.execute("rollback")
        except Broken:
            self._disconnect()
            raise

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._own, "connection", None)
        if connection is None:
            self._presence.check()
            connection = self._own.connection = connect_reader(self._file)
            with self._lock:
                self._open.add(connection)
        return connection

    def _disconnect(self) -> None:
        connection: sqlite3.Connection | None = getattr(self._own, "connection", None)
        if connection is not None:
            self._own.connection = None
            with self._lock:
                self._open.discard(connection)
            connection.close()
