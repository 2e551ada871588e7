"""Owns the picture of a workflow: its steps as a Mermaid flowchart, which most places that show Markdown can draw."""

from collections.abc import Iterator
from typing import Any, Final

from msgspec import UNSET

from stepd_protocol.definitions import Repeat, Retry, Step
from stepd_worker.graph import resolved_needs, undoers
from stepd_worker.workflow import Workflow

_SHAPES: Final = {
    "task": ("[", "]"),
    "wait": ("([", "])"),
    "sleep": ("([", "])"),
    "decision": ("{", "}"),
    "workflow": ("[[", "]]"),
}
"""How each kind is drawn."""
CONDITION_LENGTH_MAX: Final = 60


def mermaid(workflow: Workflow) -> str:
    """The workflow as Mermaid text: an arrow for each need, with the condition of the step where it has one."""
    return "\n".join(["flowchart TD", *(f"    {line}" for line in _lines(workflow))])


def _lines(workflow: Workflow) -> Iterator[str]:
    steps = workflow.steps
    names = {step.id: f"s{place}" for place, step in enumerate(steps)}
    needs, outside = resolved_needs(steps), undoers(steps)
    for step in steps:
        yield f"{names[step.id]}{_node(step)}"
    for step in steps:
        condition = "" if step.when is UNSET else f'|"{_text(f"when {step.when}")}"|'
        for one in needs[step.id]:
            yield f"{names[one]} -->{condition} {names[step.id]}"
        if not needs[step.id] and condition:
            yield f'start(("start")) -->{condition} {names[step.id]}'
        if isinstance(step.repeat, Repeat):
            yield f'{names[step.id]} -->|"{_text(f"until {step.repeat.until}")}"| {names[step.id]}'
    for undo, undone in outside.items():
        for one in undone:
            if undo in names:
                yield f'{names[one]} -. "undone by" .-> {names[undo]}'
    if outside:
        yield f"class {','.join(names[step] for step in outside if step in names)} compensation"
        yield "classDef compensation stroke-dasharray: 4"


def _node(step: Step) -> str:
    kind = "task" if step.kind is UNSET else step.kind
    opening, closing = _SHAPES[kind]
    return f'{opening}"{"<br/>".join([_text(step.id), *map(_text, _details(step, kind))])}"{closing}'


def _details(step: Step, kind: str) -> Iterator[str]:
    if kind == "task":
        yield str(step.effect)
    elif kind == "wait":
        yield f"waits for {step.event}"
    elif kind == "sleep":
        yield f"sleeps {_shown(step.seconds, 's')}" if step.until is UNSET else f"sleeps until {_shown(step.until)}"
    elif kind == "workflow":
        yield f"runs {step.workflow}"
    elif kind == "decision":
        yield "first" if step.hit_policy is UNSET else step.hit_policy
    if isinstance(step.foreach, str):
        beside = f", {step.max_parallel} at once" if isinstance(step.max_parallel, int) else ""
        yield f"for each of {step.foreach}{beside}"
    if isinstance(step.retry, Retry):
        yield f"{step.retry.max_attempts} attempts at most"
    if isinstance(step.timeout_seconds, float | int):
        yield f"{step.timeout_seconds:g} s at most"


def _shown(template: Any, unit: str = "") -> str:
    if isinstance(template, dict):
        return str(template.get("$cel", template))
    return f"{template} {unit}".strip()


def _text(text: str) -> str:
    """Text as it may stand between quotes there."""
    text = text if len(text) <= CONDITION_LENGTH_MAX else f"{text[: CONDITION_LENGTH_MAX - 1]}…"
    for character, entity in {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "\n": " "}.items():
        text = text.replace(character, entity)
    return text
