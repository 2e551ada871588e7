"""The exclusive hold of one daemon on one database file, by a lock that ends with the process however it ends."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from stepd.store.base import StoreRefused


class Holder(msgspec.Struct):
    """Who has the file, as written into the lock file for whoever is refused."""

    pid: int
    host: str
    since: str


class Hold:
    """The lock on ``<database>.lock``. That file stays behind: removing it would let two daemons lock two files."""

    def __init__(self, file: Path) -> None:
        self._database = file
        self._path = file.with_name(f"{file.name}.lock")
        self._descriptor: int | None = None

    def take(self) -> None:
        """Takes the hold. Raises StoreRefused, with who has it, or why it can't be had."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise StoreRefused(
                f"The lock file {self._path} can't be opened for writing ({error.strerror}). "
                "Give the daemon a directory that its user may write to, with --database."
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._sign(descriptor)
        except OSError as error:
            holder = _holder(descriptor)
            os.close(descriptor)
            raise StoreRefused(self._refusal(error, holder)) from error
        self._descriptor = descriptor

    def release(self) -> None:
        """Lets the hold go; nothing where there is none."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _sign(self, descriptor: int) -> None:
        since = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        text = msgspec.json.encode(Holder(os.getpid(), socket.gethostname(), since))
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text, 0)

    def _refusal(self, error: OSError, holder: str) -> str:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            return f"The lock file {self._path} can't be locked: {error.strerror}."
        return (
            f"The database {self._database} is in use by another daemon: {holder}. "
            "Stop that one first, or give this one a file of its own with --database."
        )


def _holder(descriptor: int) -> str:
    try:
        holder = msgspec.json.decode(os.pread(descriptor, 4096, 0), type=Holder)
    except (OSError, msgspec.MsgspecError):
        return "one that has not said who it is"
    return f"pid {holder.pid} on {holder.host}, since {holder.since}"
