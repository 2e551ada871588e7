"""Owns `stepd events`: an execution's journal, as it stands or as it grows."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepd.cli.exits import EXIT_CODES, INTERRUPTED, Ended
from stepd.cli.options import AsJson, ExecutionId, Key, Url

if TYPE_CHECKING:
    from stepd_worker import Client, StepdError


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(epilog=EXIT_CODES)(events)


def events(
    id: ExecutionId,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the execution has ended.")] = False,
    after: Annotated[int, typer.Option(min=0, help="Only those with a number beyond this one.")] = 0,
    json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Show an execution's journal.

    With --json: one event a line. --follow goes on through stops of the daemon, of up to two minutes.
    """
    import asyncio

    from stepd.cli.contact import daemon

    with daemon(url, key, as_json=json) as client:
        try:
            asyncio.run(_tell(client, id, after, follow=follow, as_json=json))
        except KeyboardInterrupt:
            raise Ended(INTERRUPTED) from None


async def _tell(client: "Client", execution_id: str, after: int, *, follow: bool, as_json: bool) -> None:
    from stepd.cli.following import events_to_the_end
    from stepd.cli.printing import print_json

    async with client:
        events = client.events.aio(execution_id, after=after)
        if follow:
            # One that isn't there at all is told at once; from then on each loss of the stream is heard of here.
            await client.service.aio()
            client.retry_seconds = 0
            events = events_to_the_end(client, execution_id, after, _Away())
        async for event in events:
            print_json(event, indent=None) if as_json else _say_event(event)


class _Away:
    """Says once on stderr that the daemon doesn't answer, each time that it stops to."""

    def __init__(self) -> None:
        self._said = False

    def __call__(self, fault: "StepdError | None") -> None:
        from stepd.cli.contact import explain

        if fault is not None and not self._said:
            typer.echo(f"stepd: no answer, going on as soon as there is one: {explain(fault)}", err=True)
        self._said = fault is not None


def _say_event(event: Mapping[str, Any]) -> None:
    from stepd.cli.printing import as_text, say
    from stepd.wording.journal import data_text, subject_of
    from stepd.wording.shown import shown

    attempt = f"  attempt {event['attempt']}" if event["attempt"] is not None else ""
    worker = f"  on {shown(event['worker'])}" if event["worker"] else ""
    subject = f"  {subject_of(event)}" if event["step"] is not None else ""
    say(
        as_text(f"{event['seq']:>5}  {event['at']}  ", "dim"),
        as_text(event["type"], "bold"),
        f"{subject}{attempt}{worker}  ",
        as_text(data_text(event["data"]), "dim"),
    )
