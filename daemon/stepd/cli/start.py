"""Owns `stepd start`: a new execution, and on demand the watch over it."""

from typing import Annotated

import typer

from stepd.cli.exits import ENDING_EXIT_CODES
from stepd.cli.options import (
    AsJson,
    BudgetCost,
    BudgetTokens,
    Input,
    Key,
    State,
    Url,
    Version,
    WorkflowName,
    budget_of,
    check_time,
    read_json,
    read_object,
    read_pairs,
)


def register(app: typer.Typer) -> None:
    """Adds the command."""
    codes = ENDING_EXIT_CODES.replace("the execution completed", "started; with --wait: completed")
    app.command(epilog=codes)(start)


def start(
    workflow: WorkflowName,
    input: Input = None,
    state: State = None,
    version: Version = None,
    correlation: Annotated[str | None, typer.Option(help="A text to find it by.", show_default=False)] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A label; may be repeated.", show_default=False)
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="The tenant it belongs to.", show_default=False)] = None,
    priority: Annotated[
        int | None, typer.Option(min=-100, max=100, help="Higher goes first.", show_default=False)
    ] = None,
    start_at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Not before this time, like 2026-11-30T12:00:00Z.", show_default=False),
    ] = None,
    budget_cost: BudgetCost = None,
    budget_tokens: BudgetTokens = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option(help="The same key with the same rest starts nothing new; else one is made.", show_default=False),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Watch it to its end.")] = False,
    json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Start an execution and print its id.

    It is durable when the id is printed. With --wait it is shown until it has ended or needs reconciliation, and the
    exit code says how.
    """
    given_input, given_state = read_json(input, "--input"), read_object(state, "--state")
    labels = read_pairs(label, "--label")
    check_time(start_at, "--start-at")
    from stepd.cli.contact import daemon
    from stepd.cli.printing import print_json, say

    with daemon(url, key, as_json=json) as client:
        view = client.start(
            workflow,
            given_input,
            state=given_state,
            version=version,
            correlation=correlation,
            tenant=tenant,
            labels=labels or None,
            priority=priority,
            start_at=start_at,
            budget=budget_of(budget_cost, budget_tokens),
            idempotency_key=idempotency_key,
        )
        if not (json and wait):
            print_json(view) if json else say(view["id"])
        if wait:
            from stepd.cli.watch import show_until_settled

            show_until_settled(client, view["id"], as_json=json)
