"""Owns `stepd top`: what a daemon has to do and who does it, shown anew every few seconds."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from stepd.cli.exits import EXIT_CODES
from stepd.cli.options import AsJson, Key, Url

if TYPE_CHECKING:
    from stepd.cli.state import Json
    from stepd_worker import Client, StepdError

EVERY_SECONDS: Final = 2.0
FIRST_SECONDS: Final = 1.0
"""Between the two looks that rates are made of, where only one picture is wanted."""


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(epilog=EXIT_CODES)(top)


def top(
    once: Annotated[
        bool, typer.Option("--once", help="Show it once, after a second in which rates are taken.")
    ] = False,
    every: Annotated[float, typer.Option(min=0.2, max=3600, help="Seconds from one look to the next.")] = EVERY_SECONDS,
    json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Show what there is to do and who does it.

    Queues, workers, leases and rates, anew every two seconds until Ctrl-C. It needs a key with the scope read, and a
    way to /metrics. Without a terminal it shows them once. With --json: one document a look, each on a line of its own
    unless there is only one.
    """
    import asyncio

    from stepd.cli.contact import daemon
    from stepd.cli.printing import is_terminal

    with daemon(url, key, as_json=json) as client:
        try:
            asyncio.run(_show(client, every, once=once or not (json or is_terminal()), as_json=json))
        except KeyboardInterrupt:
            pass


async def _show(client: "Client", every: float, *, once: bool, as_json: bool) -> None:
    import asyncio

    from stepd.cli.printing import print_json
    from stepd.cli.state import look, summary

    async with client:
        before = await look(client)
        if once:
            await asyncio.sleep(FIRST_SECONDS)
            found = summary(await look(client), before)
            print_json(found) if as_json else _say(found)
        elif as_json:
            await _go_on(client, every, _print)
        else:
            from stepd.cli.screen import Screen

            with Screen(client.endpoint.url) as screen:
                screen.show(summary(before, None), None)
                await _go_on(client, every, screen.show)


async def _go_on(client: "Client", every: float, show: "Callable[[Json | None, StepdError | None], object]") -> None:
    """Looks again and again; where the daemon doesn't answer, that is shown, and the next look follows."""
    import asyncio

    from stepd.cli.following import may_pass
    from stepd.cli.state import look, summary
    from stepd_worker import StepdError

    before = None
    while True:
        try:
            now = await look(client)
        except StepdError as fault:
            if not may_pass(fault):
                raise
            show(None, fault)
        else:
            show(summary(now, before), None)
            before = now
        await asyncio.sleep(every)


def _print(found: "Json | None", fault: "StepdError | None") -> None:
    from stepd.cli.contact import explain
    from stepd.cli.printing import print_json

    if found is not None:
        print_json(found, indent=None)
    if fault is not None:
        typer.echo(f"stepd: no answer, trying again: {explain(fault)}", err=True)


def _say(found: "Json") -> None:
    from stepd.cli.printing import say
    from stepd.cli.screen import lines

    for text in lines(found):
        say(text)
