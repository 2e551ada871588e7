"""Owns the report: a catalogue in a few lines of text."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from examples.catalogue.book import Book

NAMES_SHOWN: Final = 5
KINDS_SHOWN: Final = 5


def report_lines(book: Book, published: str | None = None) -> list[str]:
    """What is in the catalogue, what changed since the run before, what was published: at most some twenty lines."""
    files = book["files"]
    lines, definitions = (sum(file[count] for file in files.values()) for count in ("lines", "definitions"))
    size = sum(file["bytes"] for file in files.values())
    return [
        _clean(f"Catalogue of {book['directory']}"),
        f"  {len(files):,} files, {_megabytes(size)}, {lines:,} lines, {definitions:,} functions and classes",
        *_kinds(files),
        *_unreadable(files),
        *_changes(book["changes"]),
        *([_clean(f"  Published: {published}")] if published else []),
    ]


def _kinds(files: Mapping[str, Any]) -> Iterator[str]:
    """The kinds of files that take most room, by suffix."""
    counts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for name, file in files.items():
        sums = counts[PurePosixPath(name).suffix or "(none)"]
        for place, count in enumerate((1, file["bytes"], file["lines"])):
            sums[place] += count
    by_size = sorted(counts.items(), key=lambda item: -item[1][1])
    for suffix, (number, size, lines) in by_size[:KINDS_SHOWN]:
        yield f"    {_clean(suffix):<8} {number:>7,} files {_megabytes(size):>10} {lines:>10,} lines"


def _unreadable(files: Mapping[str, Any]) -> Iterator[str]:
    count = sum(file["sha256"] is None for file in files.values())
    if count:
        yield f"    {count:,} of them could not be read"


def _changes(changes: Mapping[str, Any]) -> Iterator[str]:
    if changes["since"] is None:
        yield "  This is the first run here, so all of them are new."
        return
    if not any(changes[how] for how in ("added", "removed", "changed")):
        yield f"  Nothing changed since the last run, {changes['since']}."
        return
    yield f"  Since the last run, {changes['since']}:"
    for how in ("added", "removed", "changed"):
        names = [_clean(name) for name in changes[how][:NAMES_SHOWN]]
        more = f" and {len(changes[how]) - len(names):,} more" if len(changes[how]) > len(names) else ""
        if names:
            yield f"    {how:<8} {len(changes[how]):>7,}: {', '.join(names)}{more}"


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:,.1f} MB"


def _clean(text: str) -> str:
    """A file's name may be anything: bytes that are no text, which JSON can't hold, or what a terminal would obey."""
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)[:200]
