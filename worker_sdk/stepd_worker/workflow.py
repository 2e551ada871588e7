"""Owns the way from decorated functions to a workflow's definition and its bodies."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypedDict, TypeVar, Unpack

import msgspec

from stepd_protocol.definitions import Definition, Retry, Step
from stepd_protocol.leases import Serves
from stepd_protocol.names import Delivery, Effect, HitPolicy, ManualResult, OnFailure, OnRestart, OnTimeout, is_name
from stepd_worker.values import InputType, input_type, schema_of

F = TypeVar("F", bound=Callable[..., Any])

_SCHEMAS: Final = frozenset({"input_schema", "output_schema", "payload_schema", "state_schema"})


class StepOptions(TypedDict, total=False):
    """What a step of any kind may say; what is left out is the daemon's default."""

    needs: str | Sequence[str]
    """The steps that come first; left out, the one before."""
    when: str
    """A CEL condition; false skips the step."""
    output_schema: Any
    """A JSON Schema, or a type that has one."""
    catch: Sequence[Mapping[str, Any]]
    """`[{"class": "card_declined", "value": template}]`: that failure becomes this output."""
    manual_result: ManualResult


class TaskOptions(StepOptions, total=False):
    """What a task may say besides."""

    input: Any
    """A template; left out, the execution's input, or the item under `foreach`."""
    input_schema: Any
    delivery: Delivery
    retry: Retry
    lease_seconds: float
    reclaim_seconds: float
    timeout_seconds: float | None
    """Of one attempt, from its claim; None for no bound."""
    queue_timeout_seconds: float
    priority: int
    foreach: str
    max_parallel: int
    repeat: Mapping[str, Any]
    compensate: str


class WorkflowOptions(TypedDict, total=False):
    """What a definition may say besides its steps; what is left out is the daemon's default."""

    description: str
    input_schema: Any
    state_schema: Any
    outcome: Mapping[str, Any]
    updates: Sequence[Mapping[str, Any]]
    output: Any
    timeout_seconds: float
    on_restart: OnRestart
    on_failure: OnFailure
    exclusive: bool
    retention_seconds: float


@dataclass(frozen=True)
class Body:
    """The function behind one step, and how it is called."""

    step: str
    function: Callable[..., Any]
    is_async: bool
    takes_steps: bool
    input_type: InputType | None
    effect: Effect
    begins_effect: bool
    """It says itself when its effect begins, by `ctx.begin_effect()`."""


def cel(expression: str) -> dict[str, str]:
    """A template that stands for the value of a CEL expression: `cel("steps.fetch.output.rows")`."""
    return {"$cel": expression}


class Workflow:
    """One version of a workflow: its steps in order, and the bodies that this process holds.

    `version` left out is made from the definition by the daemon, so that changed code needs no bookkeeping. Faults that
    can be seen here raise ValueError or TypeError where the step is declared; the rest is the daemon's to refuse.
    """

    def __init__(self, name: str, version: str | None = None, **options: Unpack[WorkflowOptions]) -> None:
        if not is_name(name):
            raise ValueError(f"{name!r} is no name for a workflow: letters, digits and . _ : - only, 128 at most")
        self.name = name
        self.version = version
        self.bodies: dict[str, Body] = {}
        self._options = dict(options)
        self._steps: list[Step] = []

    def step(
        self, id: str | None = None, *, effect: Effect, begins_effect: bool = False, **options: Unpack[TaskOptions]
    ) -> Callable[[F], F]:
        """Declares a task whose body is the decorated function, `(ctx, input)` or `(ctx, input, steps)`.

        `id` left out is the function's name. `effect` is what the body does to the world outside. An input annotated
        with a msgspec Struct, dataclass, TypedDict or pydantic model is handed over as one, and gives `input_schema`
        where none is given. With `begins_effect` the body of an at-most-once step calls `ctx.begin_effect()` after its
        preparations; without, the worker says so before the body.
        """

        def declare(function: F) -> F:
            body = _make_body(id or function.__name__, function, effect, begins_effect)
            if body.input_type is not None:
                options.setdefault("input_schema", body.input_type.schema)
            self.task(body.step, effect=effect, **options)
            self.bodies[body.step] = body
            return function

        return declare

    def task(self, id: str, *, effect: Effect, **options: Unpack[TaskOptions]) -> None:
        """Declares a task whose body another worker holds."""
        self._add({"id": id, "effect": effect, **options})

    def wait(
        self,
        id: str,
        *,
        event: str,
        payload_schema: Any = None,
        timeout_seconds: float | None = None,
        on_timeout: OnTimeout = "fail",
        **options: Unpack[StepOptions],
    ) -> None:
        """Declares a wait for a signal; its payload is the output."""
        fields: dict[str, Any] = {"id": id, "kind": "wait", "event": event, "on_timeout": on_timeout, **options}
        self._add(fields | _given(payload_schema=payload_schema, timeout_seconds=timeout_seconds))

    def sleep(self, id: str, *, seconds: Any = None, until: Any = None, **options: Unpack[StepOptions]) -> None:
        """Declares a sleep, for `seconds` or `until` a time; both are templates."""
        if (seconds is None) == (until is None):
            raise ValueError(f"The sleep {id!r} needs either seconds or until")
        self._add({"id": id, "kind": "sleep", **_given(seconds=seconds, until=until), **options})

    def decision(
        self,
        id: str,
        *,
        rules: Sequence[Mapping[str, Any]],
        hit_policy: HitPolicy = "first",
        default: Any = msgspec.UNSET,
        **options: Unpack[StepOptions],
    ) -> None:
        """Declares a decision, which the daemon takes: `rules=[{"when": CEL, "then": template}]`."""
        fields = {"id": id, "kind": "decision", "rules": list(rules), "hit_policy": hit_policy, **options}
        self._add(fields if default is msgspec.UNSET else fields | {"default": default})

    def workflow(
        self,
        id: str,
        *,
        workflow: str,
        version: str | None = None,
        input: Any = msgspec.UNSET,
        timeout_seconds: float | None = None,
        repeat: Mapping[str, Any] | None = None,
        **options: Unpack[StepOptions],
    ) -> None:
        """Declares a step that is an execution of another workflow."""
        fields: dict[str, Any] = {"id": id, "kind": "workflow", "workflow": workflow, **options}
        fields |= _given(version=version, timeout_seconds=timeout_seconds, repeat=repeat)
        self._add(fields if input is msgspec.UNSET else fields | {"input": input})

    @property
    def steps(self) -> tuple[Step, ...]:
        """The declared steps, in order."""
        return tuple(self._steps)

    def definition(self) -> dict[str, Any]:
        """The definition as it is registered. Raises ValueError where it breaks the wire's own rules."""
        fields = _with_schemas(self._options) | _given(version=self.version)
        steps = [msgspec.to_builtins(step) for step in self._steps]
        try:
            definition = msgspec.convert(fields | {"steps": steps}, Definition)
        except msgspec.ValidationError as fault:
            raise ValueError(f"The workflow {self.name!r} is not valid: {fault}") from None
        built: dict[str, Any] = msgspec.to_builtins(definition)
        return built

    def serves(self, version: str) -> Serves:
        """What a worker with these bodies can run of a registered version: all steps, or those that it has."""
        tasks = {step.id for step in self._steps if step.kind in (msgspec.UNSET, "task")}
        some = sorted(self.bodies) if tasks - set(self.bodies) else None
        return Serves(workflow=self.name, version=version, steps=some)

    def _add(self, fields: Mapping[str, Any]) -> None:
        step_id = fields["id"]
        if any(step.id == step_id for step in self._steps):
            raise ValueError(f"The workflow {self.name!r} has two steps {step_id!r}: give one another id")
        needs = fields.get("needs")
        fields = _with_schemas(fields) | ({"needs": [needs]} if isinstance(needs, str) else {})
        try:
            self._steps.append(msgspec.convert(msgspec.to_builtins(fields), Step))
        except msgspec.ValidationError as fault:
            raise ValueError(f"The step {step_id!r} of {self.name!r} is not valid: {fault}") from None


def _make_body(step_id: str, function: Callable[..., Any], effect: Effect, begins_effect: bool) -> Body:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"The body {step_id!r} is a generator; a body returns its output")
    parameters = [p for p in inspect.signature(function).parameters.values() if _is_positional(p)]
    if len(parameters) not in (2, 3):
        raise TypeError(f"The body {step_id!r} must take (ctx, input) or (ctx, input, steps)")
    return Body(
        step=step_id,
        function=function,
        is_async=inspect.iscoroutinefunction(function),
        takes_steps=len(parameters) == 3,
        input_type=input_type(function, parameters[1]),
        effect=effect,
        begins_effect=begins_effect,
    )


def _is_positional(parameter: inspect.Parameter) -> bool:
    return parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)


def _with_schemas(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: schema_of(value) if name in _SCHEMAS else value for name, value in fields.items()}


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
