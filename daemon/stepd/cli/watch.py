"""Owns `stepd watch`: an execution shown as it goes, and an exit code that says how it ended."""

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import typer

from stepd.cli.exits import ENDING_EXIT_CODES, INTERRUPTED, Ended, code_for_status
from stepd.cli.options import AsJson, ExecutionId, Key, Url

if TYPE_CHECKING:
    from stepd_worker import Client


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(epilog=ENDING_EXIT_CODES)(watch)


def watch(id: ExecutionId, json: AsJson = False, url: Url = None, key: Key = None) -> None:
    """Show an execution as it goes.

    It is shown until it has ended or needs reconciliation: on a terminal a line for each step, drawn anew; elsewhere a
    line for each event; with --json nothing but its view at the end. Ctrl-C stops the watch, not the execution.
    """
    from stepd.cli.contact import daemon

    with daemon(url, key, as_json=json) as client:
        show_until_settled(client, id, as_json=json)


def show_until_settled(client: "Client", execution_id: str, *, as_json: bool) -> None:
    """Shows an execution to its end, then ends the program with the code for how it ended."""
    import asyncio

    try:
        view = asyncio.run(_shown_until_settled(client, execution_id, as_json=as_json))
    except KeyboardInterrupt:
        typer.echo(f"Stopped watching; the execution goes on. See: stepd watch {execution_id}", err=True)
        raise Ended(INTERRUPTED) from None
    raise Ended(code_for_status(view["status"]))


async def _shown_until_settled(client: "Client", execution_id: str, *, as_json: bool) -> dict[str, Any]:
    from stepd.cli import printing
    from stepd.cli.following import Display, follow
    from stepd.cli.lines import Lines, Silent
    from stepd.cli.rows import ending_rows

    async with client:
        if as_json:
            view = await follow(client, execution_id, Silent())
            printing.print_json(view)
            return view
        with ExitStack() as drawing:
            display: Display = Lines()
            if printing.is_terminal():
                from stepd.cli.live import Live

                display = drawing.enter_context(Live())
            view = await follow(client, execution_id, display)
    for text in printing.columns(("", ""), ending_rows(view)):
        printing.say(text)
    return view
