"""Ways in which a database file can't be had for a while; each is a `with` block, after which it can again."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

LOCKER = (
    "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); c.execute('begin immediate');"
    "print('locked', flush=True); sys.stdin.read()"
)


@contextlib.contextmanager
def locked(file: Path) -> Iterator[None]:
    """The write lock, held by a process of its own."""
    with subprocess.Popen(
        [sys.executable, "-c", LOCKER, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"locked\n"
        try:
            yield
        finally:
            process.stdin.close()
            process.wait(10)


@contextlib.contextmanager
def full(file: Path) -> Iterator[None]:
    """The disk is filled to its last block; it must be a small one."""
    ballast = file.with_name("ballast")
    with ballast.open("wb", buffering=0) as filling:
        for size in (65536, 4096, 1):
            with contextlib.suppress(OSError):
                while True:
                    filling.write(b"x" * size)
    try:
        yield
    finally:
        ballast.unlink()


@contextlib.contextmanager
def read_only(file: Path) -> Iterator[None]:
    """No file of the database can be written to, not even by who has it open."""
    files = [file, file.with_name(f"{file.name}-wal")]
    _change_attribute("+i", files)
    try:
        yield
    finally:
        _change_attribute("-i", files)


@contextlib.contextmanager
def vanished(file: Path) -> Iterator[None]:
    """The database file was moved away; what it is moved back to is the same file."""
    moved = file.rename(file.with_name("moved.db"))
    try:
        yield
    finally:
        moved.rename(file)


@contextlib.contextmanager
def exchanged(file: Path) -> Iterator[None]:
    """Another file stands where the database was."""
    with vanished(file):
        file.write_bytes(b"")
        yield


@contextlib.contextmanager
def small_disk(place: Path) -> Iterator[Path]:
    """A file system of 4 MiB of its own, at `place`. Skips the test where it can't be had."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", place], capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        pytest.skip(f"no small disk can be mounted here: {made.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def _change_attribute(change: str, files: list[Path]) -> None:
    if os.geteuid() != 0:
        pytest.skip("a file that is open can be made read-only by root only")
    changed = subprocess.run(["chattr", change, *files], capture_output=True, text=True, check=False)
    if changed.returncode != 0:
        pytest.skip(f"files can't be made immutable here: {changed.stderr.strip()}")
