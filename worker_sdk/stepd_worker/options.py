"""Owns the words in which steps and workflows are declared, and the way of Python's forms of them to the wire's."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypedDict

import msgspec

from stepd_protocol.definitions import Catch, Decision, Repeat, Retry, Update
from stepd_protocol.names import Delivery, ManualResult, OnFailure, OnRestart
from stepd_worker.values import schema_of

Template: TypeAlias = Any
"""Any JSON, in which `cel("…")` stands for the value of that expression."""
Condition: TypeAlias = str | Mapping[str, str]
"""A CEL expression: its text, or `cel(text)`."""
StepRef: TypeAlias = str | Callable[..., Any]
"""A step of the same workflow: its id, or the function that is its body."""
Schema: TypeAlias = Any
"""A JSON Schema, or a type that has one."""
Caught: TypeAlias = Mapping[str, Template] | Sequence[Catch | Mapping[str, Any]]
"""`{"card_declined": value}`: a failure of that class becomes this output; `"*"` for any."""
Updates: TypeAlias = Mapping[str, Template] | Sequence[Update | Mapping[str, Any]]
"""`{"/label": value}`: JSON Pointers into the state, and what stands there at the end."""

MARK: Final = "$cel"
SCHEMAS: Final = frozenset({"input_schema", "output_schema", "payload_schema", "state_schema"})
_CONDITIONS: Final = frozenset({"when", "foreach", "until"})


class StepOptions(TypedDict, total=False):
    """What a step of any kind may say; what is left out is the daemon's default."""

    needs: StepRef | Sequence[StepRef]
    """The steps that come first; left out, the one before; `[]` for none."""
    when: Condition
    """False skips the step."""
    output_schema: Schema
    catch: Caught
    manual_result: ManualResult
    """`refused`: an operator may not invent this step's output."""


class RunOptions(StepOptions, total=False):
    """What a task, and a step that is another workflow, may say besides."""

    input: Template
    """Left out, the execution's input, or the item under `foreach`."""
    input_schema: Schema
    timeout_seconds: float | None
    """A task: of one attempt, from its claim; None for no bound. A workflow: of the step."""
    repeat: Repeat | Mapping[str, Any]
    """Runs it again, round after round, until a condition holds."""
    compensate: StepRef
    """The task that undoes this one where the workflow says `on_failure="compensate"`."""


class TaskOptions(RunOptions, total=False):
    """What a task may say besides."""

    delivery: Delivery
    retry: Retry | Mapping[str, Any]
    lease_seconds: float
    reclaim_seconds: float
    queue_timeout_seconds: float | None
    priority: int
    foreach: Condition
    """A list: the task runs once an item, and its output is the list of outputs."""
    max_parallel: int


class ChildOptions(RunOptions, total=False):
    """What a step that is an execution of another workflow may say besides."""

    version: str
    """Left out, the version that is current when it starts."""


class WaitOptions(StepOptions, total=False):
    """What a wait may say besides."""

    payload_schema: Schema
    timeout_seconds: float | None


class Budget(TypedDict, total=False):
    """What an execution may use with its children before it is paused; None for no bound."""

    cost: float | None
    """In the currency of the daemon's prices; what has no price isn't counted."""
    tokens: int | None
    """Of all five counts, priced or not."""


class WorkflowOptions(TypedDict, total=False):
    """What a definition may say besides its steps; what is left out is the daemon's default."""

    description: str
    input_schema: Schema
    state_schema: Schema
    outcome: Decision | Mapping[str, Any]
    updates: Updates
    output: Template
    timeout_seconds: float | None
    on_restart: OnRestart
    on_failure: OnFailure
    exclusive: bool
    retention_seconds: float | None
    budget: Budget | Mapping[str, Any]


def cel(expression: str) -> dict[str, str]:
    """A template that stands for the value of a CEL expression: `cel("steps.fetch.output.rows")`."""
    return {MARK: expression}


def wire_fields(given: Mapping[str, Any], id_of: Callable[[StepRef], str]) -> dict[str, Any]:
    """Options as the definition has them. Raises ValueError, TypeError where one has no such form."""
    return {name: _wire_value(name, value, id_of) for name, value in given.items()}


def plain_numbers(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The same with whole seconds as whole numbers, as one would write them: 60 and 60.0 are two versions."""
    return {name: _plain_number(name, value) for name, value in fields.items()}


def _plain_number(name: str, value: Any) -> Any:
    if name == "retry":
        return plain_numbers(value)
    is_plain = name.endswith("_seconds") or name == "factor"
    return int(value) if is_plain and isinstance(value, float) and value.is_integer() else value


def _wire_value(name: str, value: Any, id_of: Callable[[StepRef], str]) -> Any:
    if name in SCHEMAS:
        return schema_of(value)
    if name in _CONDITIONS:
        return _text(value)
    if name == "needs":
        return [id_of(value)] if isinstance(value, str) or callable(value) else [id_of(one) for one in value]
    if name == "compensate":
        return None if value is None else id_of(value)
    if name == "catch":
        return _rows(value, "class", "value", frozenset())
    if name == "updates":
        return _rows(value, "path", "value", frozenset({"value"}))
    if name == "rules":
        return [_row(rule, frozenset({"then"})) for rule in value]
    if name in ("repeat", "outcome") and value is not None:
        return wire_fields(_fields(value), id_of)
    return msgspec.to_builtins(value)


def _rows(value: Any, key: str, content: str, required: frozenset[str]) -> list[dict[str, Any]]:
    """Rows written as objects, or in short as a mapping from the one thing to the other."""
    if isinstance(value, Mapping):
        return [{key: name, content: msgspec.to_builtins(one)} for name, one in value.items()]
    return [_row(row, required) for row in value]


def _row(row: Any, required: frozenset[str]) -> dict[str, Any]:
    fields = {name: _text(value) if name in _CONDITIONS else value for name, value in _fields(row).items()}
    missing = sorted(required - fields.keys())
    if missing:
        raise ValueError(f"{missing[0]} is missing in {fields}")
    return fields


def _fields(value: Any) -> dict[str, Any]:
    """The fields of an object, be it a mapping or one of the wire's types."""
    if not isinstance(value, Mapping | msgspec.Struct):
        raise TypeError(f"{value!r} is no object")
    built: dict[str, Any] = msgspec.to_builtins(value)
    return built


def _text(value: Any) -> Any:
    """An expression's text, also where it was written as a template."""
    return value[MARK] if isinstance(value, Mapping) and value.keys() == {MARK} else value
