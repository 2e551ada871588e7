"""Owns `stepd resolve`: an operator says what became of an execution that needs reconciliation."""

from typing import Annotated, Any, Final, TypeAlias

import typer

from stepd.cli import completing
from stepd.cli.exits import EXIT_CODES, REFUSED, Ended
from stepd.cli.options import AsJson, InDoubt, Key, Url, read_json, read_object

VERIFICATIONS: Final = ("absent_verified", "compensated_verified", "accepted")
NEEDS_IT: Final = "reconciliation_required"
ITEMS: Final = 50
"""On one page; each comes with its attempts and payloads."""

Reference: TypeAlias = Annotated[
    str | None, typer.Option(help="Where the proof is, like a case number. No secrets.", show_default=False)
]
Reason: TypeAlias = Annotated[str | None, typer.Option(help="What you found. No secrets.", show_default=False)]
ExpectedRevision: TypeAlias = Annotated[
    int | None, typer.Option(min=0, help="Refuse where it has another revision.", show_default=False)
]
IdempotencyKey: TypeAlias = Annotated[
    str | None, typer.Option(help="The same key tells nothing twice; else one is made.", show_default=False)
]
Succeeded: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="STEP[=JSON]",
        help="It did happen, with this output (else null).",
        show_default=False,
        autocompletion=completing.steps,
    ),
]
AsReported: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="STEP",
        help="What its worker told too late is the truth.",
        show_default=False,
        autocompletion=completing.steps,
    ),
]
Absent: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="STEP",
        help="It surely did not happen: it runs again.",
        show_default=False,
        autocompletion=completing.steps,
    ),
]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(epilog=EXIT_CODES)(resolve)


def resolve(
    id: InDoubt,
    succeeded: Succeeded = None,
    as_reported: AsReported = None,
    absent: Absent = None,
    state: Annotated[
        list[str] | None,
        typer.Option(metavar="STEP=JSON", help="The state that a succeeded step left.", show_default=False),
    ] = None,
    go_on: Annotated[bool, typer.Option("--resume", help="Go on; nothing is uncertain.")] = False,
    close: Annotated[
        str | None,
        typer.Option(metavar="VERIFICATION", help="End it: " + ", ".join(VERIFICATIONS) + ".", show_default=False),
    ] = None,
    reference: Reference = None,
    reason: Reason = None,
    expected_revision: ExpectedRevision = None,
    idempotency_key: IdempotencyKey = None,
    json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Say what became of an execution in doubt.

    Without options it shows what is known of each uncertain step, and asks. STEP may be an item, like charge[3]. Prints
    the execution's status.
    """
    told = {"succeeded": succeeded, "as_reported": as_reported, "absent": absent}
    results = [_result(outcome, text) for outcome, texts in told.items() for text in texts or ()]
    _add_states(results, state or [])
    asks = not (results or close or go_on)
    _check(results, close, go_on=go_on, evidence=(reference, reason), asks=asks, as_json=json)
    from stepd.cli.contact import daemon

    with daemon(url, key, as_json=json) as client:
        if asks:
            from stepd.cli.asking import ask

            answers = ask(_view(client, id), reference, reason)
            results, close, reference, reason = answers.results, answers.close, answers.reference, answers.reason
            expected_revision = answers.revision if expected_revision is None else expected_revision
        answer = client.resolve(
            id,
            reference=reference or "",
            reason=reason or "",
            results=results,
            close=close,
            expected_revision=expected_revision,
            idempotency_key=idempotency_key,
        )
    _say(answer, as_json=json)


def _result(outcome: str, text: str) -> dict[str, Any]:
    """What one option says of a step."""
    name, mark, output = text.partition("=")
    option = f"--{outcome.replace('_', '-')}"
    if mark and outcome != "succeeded":
        raise typer.BadParameter(f"{text!r}: only --succeeded takes an output.", param_hint=option)
    result = {**_step(name, option), "outcome": outcome}
    return {**result, "output": read_json(output, option)} if mark else result


def _add_states(results: list[dict[str, Any]], states: list[str]) -> None:
    for text in states:
        name, mark, patch = text.partition("=")
        if not mark:
            raise typer.BadParameter(f"{text!r} must look like STEP=JSON.", param_hint="--state")
        step = _step(name, "--state")
        found = [one for one in results if one["outcome"] == "succeeded" and step.items() <= one.items()]
        if not found:
            raise typer.BadParameter(f"{name!r} is not told --succeeded.", param_hint="--state")
        found[0]["state"] = read_object(patch, "--state")


def _step(name: str, option: str) -> dict[str, Any]:
    """A step, or an item of it written as `step[3]`."""
    step, mark, rest = name.partition("[")
    if not mark:
        return {"step": step}
    if not rest.endswith("]") or not rest[:-1].isdecimal():
        raise typer.BadParameter(f"{name!r} must look like step or step[3].", param_hint=option)
    return {"step": step, "index": int(rest[:-1])}


def _check(
    results: list[dict[str, Any]],
    close: str | None,
    *,
    go_on: bool,
    evidence: tuple[str | None, str | None],
    asks: bool,
    as_json: bool,
) -> None:
    if close is not None and (results or go_on):
        raise typer.BadParameter("It ends the execution, so that no step is told.", param_hint="--close")
    if close is not None and close not in VERIFICATIONS:
        raise typer.BadParameter(f"{close!r} must be one of {', '.join(VERIFICATIONS)}.", param_hint="--close")
    if asks and as_json:
        raise typer.BadParameter("It asks nothing: say what happened with options.", param_hint="--json")
    if not asks and not all(text is not None and text.strip() for text in evidence):
        raise typer.BadParameter("A resolution needs both, and neither is blank.", param_hint="--reference, --reason")


def _view(client: Any, id: str) -> dict[str, Any]:
    """The execution with all that is known of it; ends the program where there is nothing to resolve."""
    view: dict[str, Any] = client.get(id, include=["attempts", "payloads"])
    if view["status"] != NEEDS_IT:
        typer.echo(f"stepd: the execution is {view['status']}; there is nothing to resolve.", err=True)
        raise Ended(REFUSED)
    steps = [one for step in view["steps"] for one in _each(client, id, step)]
    return {**view, "steps": steps}


def _each(client: Any, id: str, step: dict[str, Any]) -> list[dict[str, Any]]:
    """The step, or in its place the items or rounds of it that are uncertain."""
    if not step.get("items", {}).get("uncertain"):
        return [step]
    found: list[dict[str, Any]] = []
    page: dict[str, Any] = {"next": None}
    while True:
        page = client.items(id, step["id"], include=["attempts", "payloads"], limit=ITEMS, cursor=page["next"])
        found += [item for item in page["items"] if item["status"] == "uncertain"]
        if page["next"] is None:
            return found


def _say(answer: dict[str, Any], *, as_json: bool) -> None:
    from stepd.cli.printing import print_json, say, status_text

    print_json(answer) if as_json else say(status_text(answer["status"]))
