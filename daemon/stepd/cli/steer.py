"""Owns `stepd cancel`, `pause` and `resume`: what a person asks of a running execution."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepd.cli.exits import EXIT_CODES
from stepd.cli.options import AsJson, BudgetCost, BudgetTokens, ExecutionId, Key, Url, budget_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepd_worker import Client


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    for command in (cancel, pause, resume):
        app.command(epilog=EXIT_CODES)(command)


def cancel(
    id: ExecutionId,
    reason: Annotated[str | None, typer.Option(help="Why; bodies are told, the journal keeps it.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Don't wait for writes in flight: they become uncertain.")
    ] = False,
    json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Ask an execution to end.

    Prints its status: `cancelling` while writes in flight are waited for, then `cancelled`, or
    `reconciliation_required` where a write stands or nobody can know.
    """
    _ask(lambda client: client.cancel(id, reason=reason, force=force), as_json=json, url=url, key=key)


def pause(id: ExecutionId, json: AsJson = False, url: Url = None, key: Key = None) -> None:
    """Hand out no more steps of an execution.

    What is running goes on. Prints the execution's status.
    """
    _ask(lambda client: client.pause(id), as_json=json, url=url, key=key)


def resume(
    id: ExecutionId,
    budget_cost: BudgetCost = None,
    budget_tokens: BudgetTokens = None,
    json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """End a pause.

    Where the budget is used up it needs a greater one: the whole of what the execution may use, not what is added.
    Prints the execution's status.
    """
    budget = budget_of(budget_cost, budget_tokens)
    _ask(lambda client: client.resume(id, budget=budget), as_json=json, url=url, key=key)


def _ask(call: "Callable[[Client], dict[str, Any]]", *, as_json: bool, url: str | None, key: str | None) -> None:
    from stepd.cli.contact import daemon
    from stepd.cli.printing import print_json, say, status_text

    with daemon(url, key, as_json=as_json) as client:
        answer = call(client)
    print_json(answer) if as_json else say(status_text(answer["status"]))
