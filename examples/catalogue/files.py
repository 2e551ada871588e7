"""Owns what is read of a directory: which files it has, the fingerprint and the measures of each."""

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

# What tools and installers leave behind is not what the directory is about.
SKIPPED_FOLDERS: Final = frozenset({"__pycache__", "site-packages", ".git"})
CHUNK_BYTES: Final = 1024 * 1024
_PROBE_BYTES: Final = 8192
_DEFINITION: Final = re.compile(rb"^[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]", re.MULTILINE)


class Entry(NamedTuple):
    """One file: its path below the directory, and its size."""

    name: str
    bytes: int


class Measures(NamedTuple):
    """What was counted in one file; both zero for one that is no text."""

    lines: int
    definitions: int
    """Functions, methods and classes; of Python files only."""


def walk(directory: Path) -> Iterator[Entry]:
    """The regular files below a directory, in the order of their names; links and folders that can't be read are left
    out."""
    for folder, folders, names in os.walk(directory):
        folders[:] = sorted(set(folders) - SKIPPED_FOLDERS)
        for name in sorted(names):
            path = Path(folder, name)
            try:
                status = path.lstat()
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                yield Entry(path.relative_to(directory).as_posix(), status.st_size)


def fingerprint(path: Path, between: Callable[[], None]) -> str | None:
    """The SHA-256 of a file's bytes, in hex; None where it can't be read. `between` is called before each megabyte."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                between()
                digest.update(chunk)
    except OSError:
        return None
    return digest.hexdigest()


def measure(path: Path) -> Measures:
    """Counts lines, and in a Python file definitions; nothing in one that can't be read."""
    try:
        with path.open("rb") as file:
            content = file.read(_PROBE_BYTES)
            content = b"" if b"\0" in content else content + file.read()
    except OSError:
        content = b""
    definitions = len(_DEFINITION.findall(content)) if path.suffix == ".py" else 0
    return Measures(content.count(b"\n") + (not content.endswith(b"\n") and content != b""), definitions)
