"""Owns `stepd events`: an execution's journal, as it stands or as it grows."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from stepd.cli.exits import EXIT_CODES, INTERRUPTED, Ended
from stepd.cli.options import AsJson, ExecutionId, Key, Url


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

    With --json: one event a line.
    """
    from stepd.cli.contact import daemon
    from stepd.cli.printing import print_json

    with daemon(url, key, as_json=json) as client:
        try:
            for event in client.events(id, after=after, live=follow):
                print_json(event, indent=None) if json else _say_event(event)
        except KeyboardInterrupt:
            raise Ended(INTERRUPTED) from None


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
