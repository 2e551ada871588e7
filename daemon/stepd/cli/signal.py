"""Owns `stepd signal` and `stepd publish`: what a person, or something outside, has to tell to executions that wait."""

from typing import Annotated, TypeAlias

import typer

from stepd.cli import completing
from stepd.cli.exits import EXIT_CODES
from stepd.cli.options import AsJson, ExecutionId, Key, Url, read_json

Name: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="The name of the event that is waited for.",
        show_default=False,
        autocompletion=completing.signals,
    ),
]
Payload: TypeAlias = Annotated[
    str | None,
    typer.Option(help="What the wait gets: JSON, @file, or - for standard input; else null.", show_default=False),
]
IdempotencyKey: TypeAlias = Annotated[
    str | None,
    typer.Option(help="The same key with the same rest tells nobody twice; else one is made.", show_default=False),
]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    for command in (signal, publish):
        app.command(epilog=EXIT_CODES)(command)


def signal(
    id: ExecutionId,
    name: Name,
    payload: Payload = None,
    idempotency_key: IdempotencyKey = None,
    json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Hand a payload to a wait of an execution.

    It is kept where the wait is not armed yet. Prints the execution's status.
    """
    given = read_json(payload, "--payload")
    from stepd.cli.contact import daemon
    from stepd.cli.printing import print_json, say, status_text

    with daemon(url, key, as_json=json) as client:
        answer = client.signal(id, name, given, idempotency_key=idempotency_key)
    print_json(answer) if json else say(status_text(answer["status"]))


def publish(
    name: Name,
    about: Annotated[
        str | None,
        typer.Argument(metavar="CORRELATION", help="What it is about, as executions have it.", show_default=False),
    ] = None,
    correlation: Annotated[str | None, typer.Option(help="The same, as an option.", show_default=False)] = None,
    payload: Payload = None,
    idempotency_key: IdempotencyKey = None,
    json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Hand a payload to all executions of a correlation.

    Those get it that are open and can take it, also where their wait is not armed yet. Prints how many took it or keep
    it.
    """
    if (about is None) == (correlation is None):
        raise typer.BadParameter("name one correlation, as an argument or by --correlation")
    given = read_json(payload, "--payload")
    from stepd.cli.contact import daemon
    from stepd.cli.printing import print_json, say

    with daemon(url, key, as_json=json) as client:
        answer = client.publish(name, about or correlation or "", given, idempotency_key=idempotency_key)
    count = answer["delivered"]
    print_json(answer) if json else say(f"delivered to {count} execution{'' if count == 1 else 's'}")
