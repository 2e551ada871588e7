"""Owns `stepd ls` and `stepd show`: which executions there are, and one of them in full."""

from collections.abc import Mapping
from itertools import islice
from typing import Annotated, Any, Final

import typer

from stepd.cli import completing
from stepd.cli.exits import EXIT_CODES
from stepd.cli.options import AsJson, ExecutionId, Key, Url, check_time, read_pairs

PAGE_ITEMS: Final = 50
# `show` reads when steps began and ended from the journal; of a very long one only the beginning.
EVENTS_MAX: Final = 2_000


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command(epilog=EXIT_CODES)(ls)
    app.command(epilog=EXIT_CODES)(show)


def ls(
    workflow: Annotated[
        str | None, typer.Option(help="Of this workflow.", show_default=False, autocompletion=completing.workflows)
    ] = None,
    version: Annotated[str | None, typer.Option(help="On this version.", show_default=False)] = None,
    status: Annotated[
        list[str] | None,
        typer.Option(help="In this status; may be repeated.", show_default=False, autocompletion=completing.statuses),
    ] = None,
    correlation: Annotated[str | None, typer.Option(help="With this correlation.", show_default=False)] = None,
    tenant: Annotated[str | None, typer.Option(help="Of this tenant.", show_default=False)] = None,
    label: Annotated[str | None, typer.Option(metavar="KEY=VALUE", help="With this label.", show_default=False)] = None,
    blocked: Annotated[
        bool | None, typer.Option("--blocked/--not-blocked", help="Blocked ones only, or none.", show_default=False)
    ] = None,
    created_after: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Created after this time, like 2026-11-30T12:00:00Z.", show_default=False),
    ] = None,
    created_before: Annotated[
        str | None, typer.Option(metavar="TIME", help="Created before this time.", show_default=False)
    ] = None,
    oldest: Annotated[bool, typer.Option("--oldest", help="Oldest first; else newest first.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many on one page.")] = PAGE_ITEMS,
    cursor: Annotated[
        str | None, typer.Option(help="Go on where a page ended; it holds that page's filters.", show_default=False)
    ] = None,
    json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """List executions, newest first.

    With --json: {"items": [...], "next": a cursor or null}.
    """
    given_label = next(iter(read_pairs([label] if label else None, "--label").items()), None)
    check_time(created_after, "--created-after")
    check_time(created_before, "--created-before")
    from stepd.cli.contact import daemon
    from stepd.cli.printing import print_json

    with daemon(url, key, as_json=json) as client:
        page = client.list(
            workflow=workflow,
            version=version,
            status=status or (),
            correlation=correlation,
            tenant=tenant,
            label=":".join(given_label) if given_label else None,
            blocked=blocked,
            created_after=created_after,
            created_before=created_before,
            order="oldest" if oldest else None,
            # A cursor holds the page's length too.
            limit=None if cursor else limit,
            cursor=cursor,
        )
    print_json(page) if json else _say_page(page)


def show(
    id: ExecutionId,
    attempts: Annotated[bool, typer.Option("--attempts", help="Also each attempt, with its worker.")] = False,
    payloads: Annotated[bool, typer.Option("--payloads", help="Also the inputs and outputs of steps.")] = False,
    json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Show one execution: its status, steps, input and output.

    --attempts and --payloads need a key with the scope `read`; the daemon notes in its audit log who looked.
    """
    from stepd.cli.contact import daemon
    from stepd.cli.printing import print_json

    include = ["attempts"] * attempts + ["payloads"] * payloads
    with daemon(url, key, as_json=json) as client:
        view = client.get(id, include=include)
        events = [] if json else list(islice(client.events(id), EVENTS_MAX))
    print_json(view) if json else _say_execution(view, events)


def _say_page(page: Mapping[str, Any]) -> None:
    from stepd.cli.printing import columns, say
    from stepd.cli.rows import EXECUTION_HEAD, execution_cells
    from stepd.wording.shown import now_text, shown

    now = now_text()
    if not page["items"]:
        typer.echo("No executions.", err=True)
        return
    for row in columns(EXECUTION_HEAD, [execution_cells(item, now) for item in page["items"]]):
        say(row)
    if page["next"] is not None:
        typer.echo(f"There are more: stepd ls --cursor {shown(page['next'])}", err=True)


def _say_execution(view: Mapping[str, Any], events: list[dict[str, Any]]) -> None:
    from stepd.cli.printing import columns, say
    from stepd.cli.rows import attempt_lines, detail_rows, headline
    from stepd.cli.steps import STEP_HEAD, StepHistory, step_cells
    from stepd.wording.shown import now_text

    now, history = now_text(), StepHistory()
    for event in events:
        history.take(event)
    say(headline(view, now))
    say()
    for row in columns(STEP_HEAD, [step_cells(step, history, now) for step in view["steps"]]):
        say(row)
    for text in attempt_lines(view):
        say(text)
    say()
    for row in columns(("", ""), detail_rows(view)):
        say(row)
