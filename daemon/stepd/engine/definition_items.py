"""Reads the fields of a step that runs more than once: `foreach` with `max_parallel`, and `repeat`."""

from dataclasses import dataclass

from stepd.engine.definition_fields import Fields
from stepd.engine.definition_texts import expression, template
from stepd.engine.expressions import Expression
from stepd.engine.scope import ExpressionScope, References
from stepd.engine.templates import Template
from stepd_protocol import limits

REPEAT_FIELDS = frozenset({"until", "max", "next"})


@dataclass(frozen=True, slots=True)
class CompiledForeach:
    """A step that runs once an item of a list."""

    items: Expression
    max_parallel: int | None
    """So many items are under way at a time; None: all."""


@dataclass(frozen=True, slots=True)
class CompiledRepeat:
    """A step that runs again and again until a condition holds."""

    until: Expression
    max: int
    """Rounds."""
    next: Template | None
    """The next round's input; None: the same again."""
    references: References
    """What is read when a round has ended."""


def inner_scope(fields: Fields, scope: ExpressionScope) -> ExpressionScope:
    """What `input` and `catch` may name: under `foreach` the item and its index too."""
    if fields.given.get("foreach") is None:
        return scope
    return ExpressionScope(scope.roots | {"item", "index"}, scope.steps, scope.all_steps)


def read_foreach(fields: Fields, scope: ExpressionScope) -> CompiledForeach | None:
    """Reads `foreach` and `max_parallel`; None where it isn't given, or is faulty."""
    over = fields.take("foreach", None)
    items = None if over is None else expression(fields, "foreach", scope, "list")
    max_parallel = None
    if fields.take("max_parallel", None) is not None:
        max_parallel = fields.integer("max_parallel", 1, limits.FOREACH_ITEMS_MAX, 1)
        if over is None:
            fields.fault("max_parallel", "it bounds a foreach, and there is none")
    return None if items is None else CompiledForeach(items, max_parallel)


def read_repeat(fields: Fields, scope: ExpressionScope) -> CompiledRepeat | None:
    """Reads `repeat`; None where it isn't given, or is faulty."""
    repeat = fields.object("repeat")
    if repeat is None:
        return None
    if fields.given.get("foreach") is not None:
        fields.fault("repeat", "a step has foreach or repeat, not both")
    repeat.refuse_others(REPEAT_FIELDS)
    inner = ExpressionScope(scope.roots | {"last", "index"}, scope.steps, scope.all_steps)
    until = expression(repeat, "until", inner, "boolean") if repeat.required("until") else None
    rounds = repeat.integer("max", 1, limits.REPEAT_ROUNDS_MAX, 1) if repeat.required("max") else 1
    following = template(repeat, "next", inner) if repeat.has("next") else None
    fields.full["repeat"] = repeat.full
    if until is None:
        return None
    references = until.references if following is None else until.references | following.references
    return CompiledRepeat(until, rounds, following, references)
