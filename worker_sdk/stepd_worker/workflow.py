"""Owns the way from decorated functions to a workflow's definition and its bodies."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar, Unpack, cast

import msgspec
from msgspec import UNSET

from stepd_protocol.definitions import Decision, Definition, Rule, Step
from stepd_protocol.leases import Serves
from stepd_protocol.names import Effect, HitPolicy, OnTimeout, is_name
from stepd_protocol.problems import FieldFault
from stepd_worker.checks import declared_faults, definition_faults
from stepd_worker.options import (
    ChildOptions,
    StepOptions,
    StepRef,
    TaskOptions,
    Template,
    WaitOptions,
    WorkflowOptions,
    cel,
    plain_numbers,
    wire_fields,
)
from stepd_worker.values import InputType, input_type

__all__ = ["Body", "Decision", "Workflow", "cel"]

F = TypeVar("F", bound=Callable[..., Any])


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


class Workflow:
    """One version of a workflow: its steps in order, and the bodies that this process holds.

    `version` left out is made from the definition by the daemon, so that changed code needs no bookkeeping. What the
    daemon would refuse raises ValueError or TypeError here: in a step, where the step is declared; in the whole, where
    `definition()` is asked for, as `Worker.register` does. What only expressions and JSON Schemas know is the daemon's.

    What declares a step returns its id, for the `needs` of others; a decorated function stands for its step too.
    """

    def __init__(self, name: str, version: str | None = None, **options: Unpack[WorkflowOptions]) -> None:
        if not is_name(name):
            raise ValueError(f"{name!r} is no name for a workflow: letters, digits and . _ : - only, 128 at most")
        self.name = name
        self.version = version
        self.bodies: dict[str, Body] = {}
        self._steps: list[Step] = []
        self._given: Mapping[str, Any] | None = None
        """The definition that it was made from, as it came: another form of a number would be another version."""
        try:
            self._fields = wire_fields(options, self._id_of)
        except (TypeError, ValueError) as fault:
            raise type(fault)(f"The workflow {name!r} is not valid: {fault}") from None

    @classmethod
    def from_definition(cls, name: str, definition: Mapping[str, Any]) -> Self:
        """A workflow from its definition, as `definition()` returns it and `show` prints it; it has no bodies yet.

        Raises ValueError where the definition is not sound.
        """
        flow = cls(name)
        built = _converted(f"The workflow {name!r}", definition, Definition)
        _raise_for(f"The workflow {name!r}", definition_faults(built))
        fields: dict[str, Any] = msgspec.to_builtins(built)
        flow.version = fields.pop("version", None)
        flow._steps, flow._fields = list(built.steps), {key: fields[key] for key in fields if key != "steps"}
        flow._given = definition
        return flow

    # --- Steps

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

    def body(self, id: str, *, begins_effect: bool = False) -> Callable[[F], F]:
        """Gives the decorated function as its body to a task that is declared already. Raises ValueError for others."""

        def give(function: F) -> F:
            step = next((one for one in self._steps if one.id == id), None)
            if step is None or step.kind not in (UNSET, "task") or isinstance(step.effect, msgspec.UnsetType):
                raise ValueError(f"The workflow {self.name!r} has no task {id!r} to give a body to")
            self.bodies[id] = _make_body(id, function, step.effect, begins_effect)
            return function

        return give

    def task(self, id: str, *, effect: Effect, **options: Unpack[TaskOptions]) -> str:
        """Declares a task whose body another worker holds."""
        return self._add({"id": id, "effect": effect, **options})

    def wait(self, id: str, *, event: str, on_timeout: OnTimeout | None = None, **options: Unpack[WaitOptions]) -> str:
        """Declares a wait for a signal of that name; its payload is the output.

        `timeout_seconds` left out waits for ever; `on_timeout` is `fail` (left out) or `skip`.
        """
        return self._add({"id": id, "kind": "wait", "event": event, **_given(on_timeout=on_timeout), **options})

    def sleep(
        self,
        id: str,
        *,
        seconds: float | Template | None = None,
        until: Template | None = None,
        **options: Unpack[StepOptions],
    ) -> str:
        """Declares a sleep, for `seconds` or `until` a time (RFC 3339); both are templates."""
        return self._add({"id": id, "kind": "sleep", **_given(seconds=seconds, until=until), **options})

    def decision(
        self,
        id: str,
        *,
        rules: Sequence[Rule | Mapping[str, Any]],
        hit_policy: HitPolicy = "first",
        default: Template = UNSET,
        **options: Unpack[StepOptions],
    ) -> str:
        """Declares a decision, which the daemon takes: `rules=[Rule(when=CEL, then=template)]`.

        `first` takes the first rule that matches, `unique` the only one, `any` one of several that agree, `collect` the
        list of all; none matched is a failure where there is no `default`.
        """
        fields = {"id": id, "kind": "decision", "rules": rules, "hit_policy": hit_policy, **options}
        return self._add(fields if default is UNSET else fields | {"default": default})

    def workflow(self, id: str, *, workflow: "str | Workflow", **options: Unpack[ChildOptions]) -> str:
        """Declares a step that is an execution of another workflow: its name, or the workflow itself."""
        name = workflow.name if isinstance(workflow, Workflow) else workflow
        return self._add({"id": id, "kind": "workflow", "workflow": name, **options})

    # --- What came of it

    @property
    def steps(self) -> tuple[Step, ...]:
        """The declared steps, in order."""
        return tuple(self._steps)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The ids of those that need a body, here or in another worker."""
        return tuple(step.id for step in self._steps if step.kind in (UNSET, "task"))

    def definition(self) -> dict[str, Any]:
        """The definition as it is registered. Raises ValueError, with every fault, where the daemon would refuse it."""
        if self._given is not None:
            return dict(self._given)
        steps = [msgspec.to_builtins(step) for step in self._steps]
        fields = self._fields | _given(version=self.version) | {"steps": steps}
        definition = _converted(f"The workflow {self.name!r}", fields, Definition)
        _raise_for(f"The workflow {self.name!r}", definition_faults(definition))
        built: dict[str, Any] = plain_numbers(msgspec.to_builtins(definition))
        return built | {"steps": [plain_numbers(step) for step in built["steps"]]}

    def serves(self, version: str) -> Serves:
        """What a worker with these bodies can run of a registered version: all steps, or those that it has."""
        some = sorted(self.bodies) if set(self.tasks) - set(self.bodies) else None
        return Serves(workflow=self.name, version=version, steps=some)

    def _add(self, options: Mapping[str, Any]) -> str:
        step_id = cast("str", options["id"])
        named = f"The step {step_id!r} of {self.name!r}"
        if any(step.id == step_id for step in self._steps):
            raise ValueError(f"The workflow {self.name!r} has two steps {step_id!r}: give one another id")
        try:
            fields = wire_fields(options, self._id_of)
        except (TypeError, ValueError) as fault:
            raise type(fault)(f"{named} is not valid: {fault}") from None
        step = _converted(named, fields, Step)
        _raise_for(named, declared_faults([*self._steps, step]))
        self._steps.append(step)
        self._given = None
        return step_id

    def _id_of(self, step: StepRef) -> str:
        if isinstance(step, str):
            return step
        found = [body.step for body in self.bodies.values() if body.function is step]
        if len(found) != 1:
            how_many = "no step" if not found else f"the steps {', '.join(found)}"
            raise ValueError(f"{getattr(step, '__name__', step)!r} is the body of {how_many} here: write an id")
        return found[0]


W = TypeVar("W", Definition, Step)


def _converted(named: str, fields: Any, type_: type[W]) -> W:
    try:
        return msgspec.convert(fields, type_)
    except msgspec.ValidationError as fault:
        raise ValueError(f"{named} is not valid: {fault}") from None


def _raise_for(named: str, faults: Sequence[FieldFault]) -> None:
    if len(faults) == 1:
        raise ValueError(f"{named} is not valid: {faults[0].path or '/'}: {faults[0].message}")
    if faults:
        lines = "".join(f"\n  {fault.path or '/'}: {fault.message}" for fault in faults)
        raise ValueError(f"{named} is not valid:{lines}")


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


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
