"""Owns what goes to standard output: lines of styled text, columns, JSON. Text is always plain, never markup."""

import os
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Final, TypeAlias

import typer
from rich.console import Console
from rich.text import Text

from stepd.wording.shown import json_for_machines, shown

Cell: TypeAlias = str | Text
"""Text from data is escaped on the way; a `Text` is taken as it is."""

GAP: Final = 2

STATUS_STYLES: Final = {
    "completed": "green",
    "succeeded": "green",
    "failed": "red",
    "failing": "red",
    "cancelled": "yellow",
    "cancelling": "yellow",
    "uncertain": "magenta",
    "reconciliation_required": "magenta",
    "running": "cyan",
    "leased": "cyan",
    "retry_wait": "yellow",
    "paused": "yellow",
    "pending": "dim",
    "skipped": "dim",
}


@cache
def console() -> Console:
    """The console of this process, made when it is first asked for."""
    return Console(markup=False, highlight=False, emoji=False)


def is_terminal() -> bool:
    """Whether standard output is a terminal on which lines can be drawn anew."""
    return sys.stdout.isatty() and os.environ.get("TERM", "").lower() not in ("", "dumb", "unknown")


def say(*parts: Cell, style: str = "") -> None:
    """Prints one line, without spaces at its end."""
    text = line(*parts, style=style)
    text.rstrip()
    console().print(text, soft_wrap=True)


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """Prints a value as JSON: one document, or one line with `indent=None`."""
    typer.echo(json_for_machines(value, indent=indent))


def line(*parts: Cell, style: str = "") -> Text:
    """Parts joined to one line, those from data escaped."""
    return Text("", style=style).join([as_text(part) for part in parts])


def as_text(cell: Cell, style: str = "") -> Text:
    """A cell as text, escaped where it isn't text already."""
    return Text(shown(cell), style=style) if isinstance(cell, str) else cell


def status_text(status: str) -> Text:
    """A status in its colour."""
    return as_text(status, STATUS_STYLES.get(status, ""))


def columns(head: Sequence[str], rows: Iterable[Sequence[Cell]]) -> list[Text]:
    """Rows as lines in which the columns stand below each other; a head of no words gets no line."""
    table = [[as_text(cell) for cell in row] for row in rows]
    if any(head):
        table.insert(0, [as_text(word, "bold") for word in head])
    widths = [max(row[place].cell_len for row in table) for place in range(len(head))] if table else []
    return [_row(row, widths) for row in table]


def _row(row: Sequence[Text], widths: Sequence[int]) -> Text:
    text = Text()
    for cell, width in zip(row, widths, strict=True):
        text.append_text(cell)
        text.append(" " * (width - cell.cell_len + GAP))
    text.rstrip()
    return text
