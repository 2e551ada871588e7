"""Owns the catalogue file: what a directory had at the last run, what changed since, and what of that was published."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from examples.catalogue.sheets import replace_file

Book: TypeAlias = dict[str, Any]
"""`{"execution", "directory", "files": {name: {"sha256", "bytes", "lines", "definitions"}}, "changes": {"since",
"added", "removed", "changed"}}`; `sha256` is null for a file that could not be read."""

FILE_NAME: Final = "catalogue.json"
PUBLISHED_NAME: Final = "published.txt"


def read_book(folder: Path) -> Book | None:
    """The catalogue as the last run left it; None before the first. Raises OSError and ValueError."""
    try:
        book: Book = json.loads((folder / FILE_NAME).read_bytes())
    except FileNotFoundError:
        return None
    return book


def write_book(folder: Path, execution: str, directory: str, files: Mapping[str, Any]) -> Book:
    """Writes the catalogue of one execution and returns it; said again by a second attempt, it changes nothing.

    A write may have happened although its attempt was never heard of again. The file says which execution wrote it, so
    that the second attempt doesn't compare the first one's work with itself. Raises OSError.
    """
    last = read_book(folder)
    if last is not None and last["execution"] == execution:
        return last
    book = {
        "execution": execution,
        "directory": directory,
        "files": dict(files),
        "changes": _changes(last if last is not None and last["directory"] == directory else None, files),
    }
    replace_file(folder / FILE_NAME, json.dumps(book, indent=1).encode())
    return book


def publish_changes(folder: Path, book: Book, by: str) -> str:
    """Adds a line with the book's changes to the list of publications, and returns it. Raises OSError.

    Done twice, the line is there twice.
    """
    counts = ", ".join(f"{len(book['changes'][how])} {how}" for how in ("added", "removed", "changed"))
    line = f"{book['execution']}: {counts}; approved by {by!r}"
    with (folder / PUBLISHED_NAME).open("a", encoding="utf-8") as published:
        published.write(f"{line}\n")
    return line


def _changes(last: Book | None, files: Mapping[str, Any]) -> dict[str, Any]:
    """What differs from the last run's files; for a first run nothing was there, so all are added."""
    before: Mapping[str, Any] = {} if last is None else last["files"]
    return {
        "since": None if last is None else last["execution"],
        "added": sorted(files.keys() - before.keys()),
        "removed": sorted(before.keys() - files.keys()),
        "changed": sorted(
            name for name in files.keys() & before.keys() if files[name]["sha256"] != before[name]["sha256"]
        ),
    }
