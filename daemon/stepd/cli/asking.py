"""Owns the questions of `stepd resolve`: what became of each uncertain step, and by what proof."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import typer

from stepd.cli.evidence import evidence_lines, has_late_outcome, uncertain_steps
from stepd.cli.exits import REFUSED, Ended
from stepd.cli.options import read_json
from stepd.cli.printing import say
from stepd.wording.journal import step_name
from stepd.wording.shown import json_for_people

_Json = Mapping[str, Any]

_ACTIONS: Final = {"r": "resume", "c": "close"}
_OUTCOMES: Final = {"s": "succeeded", "l": "as_reported", "a": "absent"}
_VERIFICATIONS: Final = {"n": "absent_verified", "u": "compensated_verified", "a": "accepted"}
_ACTION_TEXT: Final = "Let it go on (r), or end it (c)?"
_VERIFICATION_TEXT: Final = "None of it happened (n), it was undone outside (u), or it is accepted as it is (a)?"
_KEPT: Final = "What you say next is kept for ever. No personal documents, tokens, secrets."


@dataclass
class Answers:
    """What the operator has said."""

    revision: int
    """Of the execution that he was shown."""
    results: list[dict[str, Any]] = field(default_factory=list)
    close: str | None = None
    reference: str = ""
    reason: str = ""


def ask(view: _Json, reference: str | None, reason: str | None) -> Answers:
    """Shows what is known, asks, and shows what will be sent. Ends the program where the operator thinks again."""
    for text in evidence_lines(view):
        say(text)
    answers = Answers(view["revision"])
    if _choose(_ACTION_TEXT, _ACTIONS) == "close":
        answers.close = _choose(_VERIFICATION_TEXT, _VERIFICATIONS)
    else:
        answers.results = [_result(step) for step in uncertain_steps(view)]
    typer.echo(_KEPT)
    answers.reference = reference or _prompt("Reference, like a case number", _not_blank)
    answers.reason = reason or _prompt("Reason", _not_blank)
    _show(answers)
    if not typer.confirm("Send it?"):
        typer.echo("Nothing was done.", err=True)
        raise Ended(REFUSED)
    return answers


def _result(step: _Json) -> dict[str, Any]:
    name = step_name(step["id"], step["index"])
    late = "what its worker told too late is true (l), " if has_late_outcome(step) else ""
    outcomes = _OUTCOMES if late else {key: value for key, value in _OUTCOMES.items() if value != "as_reported"}
    outcome = _choose(f"{name}: it happened (s), {late}or surely not (a)?", outcomes)
    result = {"step": step["id"], "index": step["index"], "outcome": outcome}
    if outcome == "succeeded":
        result["output"] = _prompt(f"{name}: its output, as JSON", _json, default="null")
    return result


def _choose(text: str, choices: Mapping[str, str]) -> str:
    return str(_prompt(text, _one_of(choices)))


def _prompt(text: str, read: Callable[[str], Any], default: str | None = None) -> Any:
    return typer.prompt(text, default=default, value_proc=read)


def _one_of(choices: Mapping[str, str]) -> Callable[[str], str]:
    def read(given: str) -> str:
        letter = given.strip().lower()
        if letter in choices.values():
            return letter
        if letter not in choices:
            raise typer.BadParameter(f"Answer with {' or '.join(choices)}.")
        return choices[letter]

    return read


def _not_blank(given: str) -> str:
    if not given.strip():
        raise typer.BadParameter("It must not be blank.")
    return given


def _json(given: str) -> Any:
    return read_json(given, "the output")


def _show(answers: Answers) -> None:
    if answers.close is not None:
        say(f"The execution ends: {answers.close}.")
    for result in answers.results:
        output = f", output {json_for_people(_decoded(result['output']))}" if "output" in result else ""
        say(f"{step_name(result['step'], result['index'])}: {result['outcome']}{output}")
    if answers.close is None:
        say("The execution goes on.")
    say(f"Reference: {answers.reference}")
    say(f"Reason: {answers.reason}")


def _decoded(raw: Any) -> Any:
    import msgspec

    return msgspec.json.decode(raw)
