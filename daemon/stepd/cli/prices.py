"""Owns `stepd prices`: what models cost, and how that is replaced."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from stepd.cli.exits import EXIT_CODES
from stepd.cli.options import AsJson, Key, Url, read_file

if TYPE_CHECKING:
    import msgspec

KINDS: Final = ("input", "cache_read", "cache_write", "output", "reasoning")
HEAD: Final = ("model", "from", "input", "cache read", "cache write", "output", "reasoning")
SHOWN_ONLY: Final = ("version", "created_at", "principal")
"""Members of a table as it is shown that one which is put doesn't have."""


def register(app: typer.Typer) -> None:
    """Adds the command and its own one."""
    group = typer.Typer(invoke_without_command=True, epilog=EXIT_CODES)
    group.callback()(prices)
    group.command("set", epilog=EXIT_CODES)(set_prices)
    app.add_typer(group, name="prices")


def prices(
    context: typer.Context,
    version: Annotated[
        int | None, typer.Option(min=1, help="An older version; else the newest.", show_default=False)
    ] = None,
    json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Show what a million tokens of each model cost, or replace that."""
    if context.invoked_subcommand is not None:
        return
    from stepd.cli.contact import daemon
    from stepd.cli.printing import columns, print_json, say

    with daemon(url, key, as_json=json) as client:
        table = client.prices(version)
    if json:
        print_json(table)
        return
    if table["version"] is None:
        typer.echo("No prices: all tokens are unpriced. Enter some with: stepd prices set FILE", err=True)
        return
    say(_told(table))
    for row in columns(HEAD, map(_cells, table["prices"])):
        say(row)


def set_prices(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The table as JSON; - for standard input.", show_default=False)
    ],
    json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Replace the table: {"currency": "USD", "prices": [{"model": "m-1", "input": 2.5, "output": "10"}]}.

    A price is for a million tokens. A model may have a price for "cache_read", "cache_write" and "reasoning" too, and a
    date, "valid_from". What is reported from now on is priced by the new table, and nothing that was reported before.
    What stepd prices --json prints may be edited and given back.
    """
    table = _table(file)
    from stepd.cli.contact import daemon
    from stepd.cli.printing import print_json, say

    with daemon(url, key, as_json=json) as client:
        made = client.put_prices(table)
    print_json(made) if json else say(_told(made))


def _table(file: str) -> "msgspec.Raw | dict[str, msgspec.Raw]":
    """What is to be put: as it was written, but for what only a table that is shown has."""
    import msgspec

    raw = read_file(file, "FILE")
    try:
        members = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except msgspec.ValidationError:
        return raw
    return {name: value for name, value in members.items() if name not in SHOWN_ONLY}


def _told(table: Mapping[str, Any]) -> str:
    from stepd.wording.shown import shown, time_text

    count = len(table["prices"])
    models = f"{count} price{'' if count == 1 else 's'}"
    by = f"{shown(table['principal'])}, {time_text(table['created_at'])}"
    return f"Version {table['version']}: {models} in {shown(table['currency'])} for a million tokens ({by})."


def _cells(price: Mapping[str, Any]) -> list[Any]:
    from stepd.wording.shown import amount_text, time_text

    amounts = ["-" if price[kind] is None else amount_text(price[kind], None) for kind in KINDS]
    since = "always" if price["valid_from"] is None else time_text(price["valid_from"])
    return [price["model"], since, *amounts]
