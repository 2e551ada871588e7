"""Owns `stepd usage`: sums of tokens and money over what attempts have used."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from stepd.cli.exits import EXIT_CODES
from stepd.cli.options import AsJson, Key, Url, check_time, read_pairs

if TYPE_CHECKING:
    from stepd_worker import Client

LABEL: Final = "label:"
COUNTS: Final = ("input", "cache_read", "cache_write", "output", "reasoning", "unpriced")
PAGE_ITEMS: Final = 200


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(epilog=EXIT_CODES)(usage)


def usage(
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="day, workflow, version, step, model, tenant or label:KEY; may be repeated.", show_default=False
        ),
    ] = None,
    workflow: Annotated[str | None, typer.Option(help="Only this workflow.", show_default=False)] = None,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant.", show_default=False)] = None,
    model: Annotated[str | None, typer.Option(help="Only this model.", show_default=False)] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Only with this label; may be repeated.", show_default=False),
    ] = None,
    after: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only what was reported from then on.", show_default=False)
    ] = None,
    before: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only what was reported before then.", show_default=False)
    ] = None,
    json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Sum tokens and money; children count for themselves.

    With --json: {"items": [...], "next": null}.
    """
    filters = {
        "workflow": workflow,
        "tenant": tenant,
        "model": model,
        "labels": read_pairs(label, "--label"),
        "after": check_time(after, "--after"),
        "before": check_time(before, "--before"),
    }
    from stepd.cli.contact import daemon
    from stepd.cli.printing import columns, print_json, say

    groups = by or []
    with daemon(url, key, as_json=json) as client:
        found = list(_groups(client, groups, filters))
    if json:
        print_json({"items": found, "next": None})
        return
    head = [*groups, "attempts", *(count.replace("_", " ") for count in COUNTS), "cost"]
    for row in columns(head, [_cells(groups, one) for one in found]):
        say(row)


def _groups(client: "Client", groups: Sequence[str], filters: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """All sums, over all pages."""
    cursor = None
    while True:
        if cursor is None:
            page = client.usage(groups, limit=PAGE_ITEMS, **filters)
        else:
            page = client.usage(limit=PAGE_ITEMS, cursor=cursor)
        yield from page["items"]
        cursor = page["next"]
        if cursor is None:
            return


def _cells(groups: Sequence[str], one: Mapping[str, Any]) -> list[str]:
    from stepd.wording.shown import amount_text

    names = [_group(name, one) for name in groups]
    counts = [str(one[f"{count}_tokens"]) for count in COUNTS]
    cost = "-" if one["cost"] is None else amount_text(one["cost"], one["currency"])
    return [*names, str(one["attempts"]), *counts, cost]


def _group(name: str, one: Mapping[str, Any]) -> str:
    value = one["labels"].get(name.removeprefix(LABEL)) if name.startswith(LABEL) else one[name]
    return "-" if value is None else str(value)
