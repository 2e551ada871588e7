"""Owns `stepd simulate`: what a workflow would do, were its steps to come to this; nothing is started."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

import typer

from stepd.cli.exits import EXIT_CODES
from stepd.cli.options import AsJson, Input, Key, State, Url, Version, WorkflowName, read_json, read_object, read_pairs

HEAD: Final = ("", "step", "status", "attempts", "output")
OUTPUT_LENGTH: Final = 120
STOPPED: Final = {
    "nothing_moves": "It stands here for ever: nothing that was given moves it.",
    "bounds": "It was cut off here: it is too long to be simulated.",
}


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(epilog=EXIT_CODES)(simulate)


def simulate(
    workflow: WorkflowName,
    input: Input = None,
    state: State = None,
    version: Version = None,
    correlation: Annotated[str | None, typer.Option(help="Its correlation.", show_default=False)] = None,
    steps: Annotated[
        str | None, typer.Option(help="What steps come to, by id: JSON, @file, or -.", show_default=False)
    ] = None,
    step: Annotated[
        list[str] | None,
        typer.Option(metavar="ID=JSON", help="What one step comes to; may be repeated.", show_default=False),
    ] = None,
    signal: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=JSON", help="A signal with its payload; may be repeated.", show_default=False),
    ] = None,
    json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """See what a workflow would do; nothing is started.

    A task comes to {"output": …}, to {"fail": {"class": "card_declined"}}, or, where nothing is said of it, to nothing,
    which is a success without an output. A list has one for each attempt, or for each item or round.
    """
    given_input, given_state = read_json(input, "--input"), read_object(state, "--state")
    outcomes = {**(read_object(steps, "--steps") or {}), **dict(_named(step, "--step"))}
    signals = [{"name": name, "payload": payload} for name, payload in _named(signal, "--signal", unique=False)]
    from stepd.cli.contact import daemon
    from stepd.cli.printing import print_json, say

    with daemon(url, key, as_json=json) as client:
        answer = client.simulate(
            workflow,
            given_input,
            state=given_state,
            version=version,
            correlation=correlation,
            steps=outcomes,
            signals=signals,
        )
    if json:
        print_json(answer)
        return
    for line in _lines(answer):
        say(line)


def _named(pairs: list[str] | None, option: str, *, unique: bool = True) -> Iterator[tuple[str, Any]]:
    """`NAME=JSON` pairs. Raises BadParameter for what is none."""
    given = [read_pairs([pair], option) for pair in pairs or ()]
    if unique:
        given = [read_pairs(pairs, option)]
    for one in given:
        for name, text in one.items():
            yield name, read_json(text, option)


def _lines(answer: Mapping[str, Any]) -> Iterator[Any]:
    from stepd.cli.printing import as_text, columns, line, status_text
    from stepd.wording.shown import duration_text

    took = duration_text(answer["simulated_seconds"])
    workflow, simulated = as_text(answer["workflow"], "bold"), as_text("simulated", "dim")
    yield line(workflow, f" {answer['version']}  ", status_text(answer["status"]), f"  {took}  ", simulated)
    yield from columns(HEAD, [_cells(step) for step in answer["path"]])
    for name, said in _rows(answer):
        yield line(as_text(f"{name}  ", "bold"), said)
    if answer["stopped"]:
        yield line(as_text(STOPPED.get(answer["stopped"], answer["stopped"]), "yellow"))


def _cells(step: Mapping[str, Any]) -> list[Any]:
    from stepd.cli.printing import status_text
    from stepd.cli.steps import sign
    from stepd.wording.journal import failure_text, step_name
    from stepd.wording.shown import cut, json_for_people

    words = failure_text(step["error"]) if step["error"] else ""
    if "output" in step:
        words = json_for_people(step["output"])
    return [
        sign(step["status"]),
        step_name(step["id"], step["index"]),
        status_text(step["status"]),
        str(step["attempts"]) if step["attempts"] else "",
        cut(words, OUTPUT_LENGTH),
    ]


def _rows(answer: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    from stepd.cli.rows import PAYLOAD_LENGTH
    from stepd.wording.journal import failure_text, step_name
    from stepd.wording.shown import cut, json_for_people, shown

    for rules in answer["rules"]:
        matched = ", ".join(map(shown, rules["rule_ids"])) or "the default"
        yield "rules", f"{shown(rules['step'] or 'outcome')}: {matched} ({rules['hit_policy']})"
    for update in answer["updates"]:
        yield "update", f"{shown(update['path'])} = {cut(json_for_people(update['value']), PAYLOAD_LENGTH)}"
    if answer["error"]:
        yield "error", failure_text(answer["error"])
    if answer["standing_writes"] and answer["status"] != "completed":
        yield "writes that stand", ", ".join(step_name(one["step"], one["index"]) for one in answer["standing_writes"])
    for name in ("state", "outcome", "output"):
        if answer[name] not in (None, {}):
            yield name, cut(json_for_people(answer[name]), PAYLOAD_LENGTH)
