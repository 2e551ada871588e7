"""Says who holds a database file, by looking only.

Taking the lock to find out, however briefly, could refuse a daemon that starts at that moment.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Final

import msgspec

from stepd.store.sqlite.hold import Holder

LOCKS: Final = Path("/proc/locks")
"""The kernel's list of locks, on Linux: `1: FLOCK ADVISORY WRITE <pid> <device>:<inode> 0 EOF` each."""


class Held(msgspec.Struct, frozen=True):
    """Whether a daemon has the file. ``holder``: who wrote into its lock file last, which may be long gone."""

    is_held: bool
    holder: Holder | None
    is_sure: bool = True
    """False where the holder would be on another machine or in another container, which can't be seen from here."""

    @property
    def name(self) -> str:
        """The holder for a person."""
        if self.holder is None:
            return "a process that has not said who it is"
        return f"pid {self.holder.pid} on {self.holder.host}, since {self.holder.since}"


def held(file: Path) -> Held:
    """Who has the file now; raises nothing."""
    lock = file.with_name(f"{file.name}.lock")
    try:
        holder = msgspec.json.decode(lock.read_bytes(), type=Holder)
    except (OSError, msgspec.MsgspecError):
        holder = None
    if _is_locked(lock, holder):
        return Held(True, holder)
    return Held(False, holder, is_sure=holder is None or holder.host == socket.gethostname())


def _is_locked(lock: Path, holder: Holder | None) -> bool:
    if not lock.exists():
        return False
    try:
        found, lines = lock.stat(), LOCKS.read_text("ascii").splitlines()
    except OSError:
        return holder is not None and _is_alive(holder)
    device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}"
    for words in map(str.split, lines):
        if "FLOCK" not in words or not words[-3].endswith(f":{found.st_ino}"):
            continue
        # Some file systems show another device here than there; then it must be who has signed.
        if words[-3].startswith(f"{device}:") or (holder is not None and words[-4] == str(holder.pid)):
            return True
    return False


def _is_alive(holder: Holder) -> bool:
    if holder.host != socket.gethostname():
        return False
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
