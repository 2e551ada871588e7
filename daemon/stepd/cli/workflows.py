"""Owns `stepd workflows`: what is registered, and which version new executions get."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from stepd.cli import completing
from stepd.cli.exits import EXIT_CODES
from stepd.cli.options import AsJson, Key, Url

HEAD: Final = ("workflow", "version", "", "open", "served", "registered")


def register(app: typer.Typer) -> None:
    """Adds the command and its own ones."""
    group = typer.Typer(invoke_without_command=True, epilog=EXIT_CODES)
    group.callback()(workflows)
    group.command(epilog=EXIT_CODES)(use)
    app.add_typer(group, name="workflows")


def workflows(context: typer.Context, json: AsJson = False, url: Url = None, key: Key = None) -> None:
    """List workflows, or choose a version."""
    if context.invoked_subcommand is not None:
        return
    from stepd.cli.contact import daemon
    from stepd.cli.printing import columns, print_json, say

    with daemon(url, key, as_json=json) as client:
        page = client.workflows()
    if json:
        print_json(page)
        return
    if not page["items"]:
        typer.echo("No workflows: a worker registers those that it holds.", err=True)
        return
    for row in columns(HEAD, [_cells(item, version) for item in page["items"] for version in item["versions"]]):
        say(row)


def use(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="The workflow's name.", show_default=False, autocompletion=completing.workflows
        ),
    ],
    version: Annotated[
        str,
        typer.Argument(
            metavar="VERSION", help="A registered version.", show_default=False, autocompletion=completing.versions
        ),
    ],
    json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Make a version the one that new executions get. Running ones keep theirs."""
    from stepd.cli.contact import daemon
    from stepd.cli.printing import print_json, say

    with daemon(url, key, as_json=json) as client:
        answer = client.use(name, version)
    print_json(answer) if json else say(f"New executions of {name} get version {version}.")


def _cells(workflow: Mapping[str, Any], version: Mapping[str, Any]) -> list[Any]:
    from stepd.cli.printing import as_text
    from stepd.wording.shown import time_text

    served = as_text("yes", "green") if version["served"] else as_text("no", "yellow")
    return [
        workflow["name"],
        version["version"],
        "current" if version["version"] == workflow["current"] else "",
        str(version["open_executions"]),
        served,
        time_text(version["registered_at"]),
    ]
