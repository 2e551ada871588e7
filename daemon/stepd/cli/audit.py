"""Owns `stepd audit`: who did what, to what, from where, and how it went."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from stepd.cli.exits import EXIT_CODES
from stepd.cli.options import AsJson, Key, Url, check_time

HEAD: Final = ("at", "principal", "key", "action", "target", "tenant", "from", "outcome")
PAGE_ITEMS: Final = 50
OUTCOMES: Final = ("done", "refused")


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(epilog=EXIT_CODES)(audit)


def audit(
    principal: Annotated[str | None, typer.Option(help="What this principal did.", show_default=False)] = None,
    key_id: Annotated[str | None, typer.Option(help="What was done with this key.", show_default=False)] = None,
    action: Annotated[
        str | None, typer.Option(help="Only this, such as execution.cancel or key.revoke.", show_default=False)
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="What was done to this: an execution, a workflow, a key.", show_default=False)
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="What concerns this tenant.", show_default=False)] = None,
    outcome: Annotated[str | None, typer.Option(help="done, or refused.", show_default=False)] = None,
    after: Annotated[
        str | None, typer.Option(metavar="TIME", help="After this time, like 2026-11-30T12:00:00Z.", show_default=False)
    ] = None,
    before: Annotated[str | None, typer.Option(metavar="TIME", help="Before this time.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many on one page.")] = PAGE_ITEMS,
    cursor: Annotated[
        str | None, typer.Option(help="Go on where a page ended; it holds that page's filters.", show_default=False)
    ] = None,
    json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Show who did what, newest first.

    Changes, refused attempts, and who looked at an execution's content. It needs a key with the scope admin. The calls
    of workers are not in it. With --json: {"items": [...], "next": a cursor or null}.
    """
    if outcome is not None and outcome not in OUTCOMES:
        raise typer.BadParameter(f"It must be one of: {', '.join(OUTCOMES)}.", param_hint="--outcome")
    check_time(after, "--after")
    check_time(before, "--before")
    from stepd.cli.contact import daemon
    from stepd.cli.printing import print_json

    with daemon(url, key, as_json=json) as client:
        page = client.audit(
            principal=principal,
            key_id=key_id,
            action=action,
            target=target,
            tenant=tenant,
            outcome=outcome,
            at_after=after,
            at_before=before,
            limit=limit,
            cursor=cursor,
        )
    print_json(page) if json else _say_page(page)


def _say_page(page: Mapping[str, Any]) -> None:
    from stepd.cli.printing import columns, say
    from stepd.wording.shown import shown

    if not page["items"]:
        typer.echo("No entries.", err=True)
        return
    for row in columns(HEAD, map(_cells, page["items"])):
        say(row)
    if page["next"] is not None:
        typer.echo(f"There are more: stepd audit --cursor {shown(page['next'])}", err=True)


def _cells(entry: Mapping[str, Any]) -> list[Any]:
    from stepd.cli.printing import as_text
    from stepd.wording.shown import time_text

    words = [entry[name] or "-" for name in ("principal", "key_id", "action", "target", "tenant", "origin")]
    style = "green" if entry["outcome"] == "done" else "red"
    return [time_text(entry["at"]), *words, as_text(entry["outcome"], style)]
