"""Whether the database file still stands where it was opened: SQLite goes on writing to one that was taken away."""

from __future__ import annotations

import os
from pathlib import Path

from stepd.store.sqlite.errors import Broken


class Presence:
    """The file as it was when the daemon started, known by its device and inode, which moving it away keeps."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known = self._look()

    def check(self) -> None:
        """Raises Broken where nothing, or another file, stands in its place: what is written now would be lost."""
        found = self._look()
        if found is None:
            raise Broken(f"The database file is gone: nothing stands at {self._file}. Put it back.")
        if found != self._known:
            raise Broken(f"Another file stands at {self._file}. Put the old one back, or restart the daemon.")

    def _look(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._file)
        except OSError:
            return None
        return found.st_dev, found.st_ino
