"""Owns the look at which steps an expression mentions: only that, for CEL itself is the daemon's."""

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from stepd_protocol.definitions import Definition, Step
from stepd_protocol.problems import FieldFault
from stepd_worker.graph import ancestors, resolved_needs, undoers
from stepd_worker.options import MARK

_TOKEN: Final = re.compile(
    r"""(?<![\w.])steps\s*(?:\.\s*(?P<plain>[A-Za-z_]\w*)|\[\s*(?:"(?P<double>[^"\\]*)"|'(?P<single>[^'\\]*)')\s*\])
    |\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|//[^\n]*""",
    re.VERBOSE | re.DOTALL,
)
_OWN_VARIABLE: Final = re.compile(r"\(\s*steps\s*,")
_TEMPLATES: Final = ("input", "catch", "seconds", "until", "default")


def mentioned(expression: str) -> list[str]:
    """The ids of the steps that an expression names; none where it has a variable `steps` of its own."""
    if _OWN_VARIABLE.search(expression):
        return []
    found = (token["plain"] or token["double"] or token["single"] for token in _TOKEN.finditer(expression))
    return [step for step in found if step is not None]


def mention_faults(definition: Definition) -> Iterator[FieldFault]:
    """A fault for each mention of a step that is not there, or does not come before."""
    steps = definition.steps
    needs, outside, ids = resolved_needs(steps), undoers(steps), {step.id for step in steps}
    for place, step in enumerate(steps):
        if step.id not in outside:
            known = ancestors(needs, step.id)
            for at, expression in _expressions_of(step, f"/steps/{place}"):
                yield from _faults(expression, at, known, ids)
    built: dict[str, Any] = msgspec.to_builtins(definition)
    outcome = built.get("outcome") or {}
    finish = [
        *_of_rules(outcome.get("rules"), "/outcome/rules"),
        *_in_template(outcome.get("default"), "/outcome/default"),
        *_in_template(built.get("updates"), "/updates"),
        *_in_template(built.get("output"), "/output"),
    ]
    for at, expression in finish:
        yield from _faults(expression, at, ids - outside.keys(), ids)


def _faults(expression: str, at: str, known: set[str], ids: set[str]) -> Iterator[FieldFault]:
    for step in dict.fromkeys(mentioned(expression)):
        if step not in ids:
            yield FieldFault(path=at, message=f'there is no step "{step}"')
        elif step not in known:
            message = f'step "{step}" does not come before this one: its result is not known here'
            yield FieldFault(path=at, message=message)


def _expressions_of(step: Step, at: str) -> Iterator[tuple[str, str]]:
    built: dict[str, Any] = msgspec.to_builtins(step)
    repeat = built.get("repeat") or {}
    conditions = {"when": built.get("when"), "foreach": built.get("foreach"), "repeat/until": repeat.get("until")}
    yield from ((f"{at}/{field}", text) for field, text in conditions.items() if text is not None)
    yield from _in_template(repeat.get("next"), f"{at}/repeat/next")
    yield from _of_rules(built.get("rules"), f"{at}/rules")
    for field in _TEMPLATES:
        yield from _in_template(built.get(field), f"{at}/{field}")


def _of_rules(rules: Any, at: str) -> Iterator[tuple[str, str]]:
    for place, rule in enumerate(rules or []):
        if "when" in rule:
            yield f"{at}/{place}/when", rule["when"]
        yield from _in_template(rule["then"], f"{at}/{place}/then")


def _in_template(value: Any, at: str) -> Iterator[tuple[str, str]]:
    """Each expression of a template, with its pointer."""
    if isinstance(value, dict):
        if value.keys() == {MARK} and isinstance(value[MARK], str):
            yield f"{at}/{MARK}", value[MARK]
        for name, member in value.items():
            yield from _in_template(member, f"{at}/{name}")
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _in_template(item, f"{at}/{place}")
