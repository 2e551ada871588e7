"""Owns the options that several commands share, and the reading of what is given with them."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from stepd.cli import completing
from stepd.cli.exits import NOT_FOUND, Ended
from stepd.wording.shown import cut, shown

if TYPE_CHECKING:
    import msgspec

STDIN: Final = "-"
FILE_MARK: Final = "@"

Url: TypeAlias = Annotated[
    str | None,
    typer.Option(help="Address of the daemon; else STEPD_URL, else http://127.0.0.1:7117.", show_default=False),
]
Key: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Key to show the daemon; else STEPD_KEY, which the process list doesn't show.", show_default=False
    ),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
WorkflowName: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="WORKFLOW", help="The workflow's name.", show_default=False, autocompletion=completing.workflows
    ),
]
Input: TypeAlias = Annotated[
    str | None, typer.Option(help="Its input: JSON, @file, or - for standard input.", show_default=False)
]
State: TypeAlias = Annotated[str | None, typer.Option(help="Its first state: JSON, @file, or -.", show_default=False)]
Version: TypeAlias = Annotated[
    str | None,
    typer.Option(help="A version; else the current one.", show_default=False, autocompletion=completing.versions),
]
BudgetCost: TypeAlias = Annotated[
    float | None,
    typer.Option(min=0, help="What it may cost with its children before it is paused.", show_default=False),
]
BudgetTokens: TypeAlias = Annotated[
    int | None,
    typer.Option(min=0, help="Tokens it may use with its children before it is paused.", show_default=False),
]
ExecutionId: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="The execution's id.", show_default=False, autocompletion=completing.executions()
    ),
]
InDoubt: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="The execution's id.",
        show_default=False,
        autocompletion=completing.executions("reconciliation_required"),
    ),
]


def budget_of(cost: float | None, tokens: int | None) -> dict[str, Any] | None:
    """The bounds of a budget that are given; None where none is."""
    given = {name: value for name, value in (("cost", cost), ("tokens", tokens)) if value is not None}
    return given or None


def read_json(text: str | None, option: str) -> "msgspec.Raw | None":
    """The JSON of an option given as text, as `@file`, or as `-` for standard input; passed on as it was written.

    None where the option was not given. Raises BadParameter for what is no JSON; ends the program where the file can't
    be read.
    """
    if text is None:
        return None
    import msgspec

    content, source = _content(text, option)
    try:
        msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError) as fault:
        raise typer.BadParameter(
            f"{source} is no JSON: {fault}. A text needs its quotes, like '\"text\"'; "
            f"{FILE_MARK}file reads a file, {STDIN} standard input.",
            param_hint=option,
        ) from None
    return msgspec.Raw(content)


def read_file(name: str, argument: str) -> "msgspec.Raw":
    """The JSON in a file, or in standard input for `-`; as `read_json`, which takes the file's name behind a mark."""
    raw = read_json(name if name == STDIN else FILE_MARK + name, argument)
    assert raw is not None
    return raw


def read_object(text: str | None, option: str) -> dict[str, Any] | None:
    """As `read_json`, for an option that takes an object."""
    raw = read_json(text, option)
    if raw is None:
        return None
    import msgspec

    value = msgspec.json.decode(raw)
    if not isinstance(value, dict):
        raise typer.BadParameter('It must be an object, like {"key": "value"}.', param_hint=option)
    return value


def read_pairs(pairs: list[str] | None, option: str) -> dict[str, str]:
    """`key=value` pairs. Raises BadParameter for what is none, and for a key that is given twice."""
    read: dict[str, str] = {}
    for pair in pairs or ():
        key, mark, value = pair.partition("=")
        if not mark or not key or not value:
            raise typer.BadParameter(f"{shown(pair)!r} must look like key=value.", param_hint=option)
        if key in read:
            raise typer.BadParameter(f"The key {shown(key)!r} is given twice.", param_hint=option)
        read[key] = value
    return read


def check_time(text: str | None, option: str) -> str | None:
    """A time as it was given. Raises BadParameter where it is no RFC 3339 time with an offset."""
    if text is not None:
        from stepd_protocol.times import parse_time

        try:
            parse_time(text)
        except ValueError as fault:
            raise typer.BadParameter(f"{shown(text)!r} {fault}.", param_hint=option) from None
    return text


def _content(text: str, option: str) -> tuple[bytes, str]:
    """The bytes that an option stands for, and how to call them in a message."""
    if text == STDIN:
        return sys.stdin.buffer.read(), "Standard input"
    if not text.startswith(FILE_MARK):
        return text.encode("utf-8", "surrogateescape"), cut(shown(text), 80)
    path = Path(text[1:])
    try:
        return path.read_bytes(), f"The file {shown(str(path))}"
    except OSError as fault:
        typer.echo(f"stepd: cannot read {shown(str(path))}, given with {option}: {fault.strerror}", err=True)
        raise Ended(NOT_FOUND) from None
