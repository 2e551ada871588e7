"""Owns what can be known of a definition without evaluating it: everything that the daemon would refuse but for CEL.

What is found here is refused where the step is declared, with the words of the daemon; expressions and JSON Schemas are
read by the daemon alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET

from stepd_protocol import limits
from stepd_protocol.definitions import STEP_FIELDS, Catch, Decision, Definition, Retry, Rule, Step
from stepd_protocol.names import STEP_KINDS, StepKind, is_name
from stepd_protocol.problems import FieldFault
from stepd_worker.graph import graph_faults
from stepd_worker.mentions import mention_faults
from stepd_worker.options import MARK

LIMITS: Final = limits.Limits()
_REQUIRED: Final[dict[StepKind, tuple[str, ...]]] = {
    "task": ("effect",),
    "wait": ("event",),
    "sleep": (),
    "decision": ("rules",),
    "workflow": ("workflow",),
}
_OR_ZERO: Final = ("reclaim_seconds",)


def definition_faults(definition: Definition) -> list[FieldFault]:
    """Every fault of a whole definition that can be known here, each with its JSON Pointer."""
    size = len(msgspec.json.encode(definition))
    if size > LIMITS.definition_bytes:
        return [_fault("", f"{size:,} bytes, of which a definition has at most {LIMITS.definition_bytes:,}")]
    if len(definition.steps) > LIMITS.definition_steps:
        count, most = len(definition.steps), LIMITS.definition_steps
        return [_fault("/steps", f"{count} steps, of which a definition has at most {most}")]
    return [*_all_steps(definition.steps), *_finish_faults(definition), *mention_faults(definition)]


def declared_faults(steps: Sequence[Step]) -> list[FieldFault]:
    """The faults of the last of the steps declared so far; it may name steps that are declared later."""
    last = len(steps) - 1
    own = _step_faults(steps[last], f"/steps/{last}")
    return [*own, *(fault for _, fault in graph_faults(steps, complete=False))]


def _all_steps(steps: Sequence[Step]) -> Iterator[FieldFault]:
    for place, step in enumerate(steps):
        yield from _step_faults(step, f"/steps/{place}")
    for _, fault in graph_faults(steps, complete=True):
        yield fault


def _step_faults(step: Step, at: str) -> Iterator[FieldFault]:
    kind: StepKind = "task" if step.kind is UNSET else step.kind
    given: dict[str, Any] = msgspec.to_builtins(step)
    for field in given.keys() - STEP_FIELDS[kind]:
        others = " or ".join(other for other in STEP_KINDS if field in STEP_FIELDS[other])
        yield _fault(f"{at}/{field}", f"a {kind} has no {field}, it belongs to a {others}")
    for field in _REQUIRED[kind]:
        if field not in given:
            yield _fault(f"{at}/{field}", f"{field} is missing")
    yield from _kind_faults(step, kind, given, at)
    for field in _OR_ZERO:
        yield from _seconds_or_zero(given.get(field), f"{at}/{field}")
    if isinstance(step.retry, Retry):
        yield from _seconds_or_zero(step.retry.initial_seconds, f"{at}/retry/initial_seconds")
    yield from _catch_faults(step.catch, at)
    for field in ("input", "seconds", "until", "default"):
        yield from _template_faults(given.get(field), f"{at}/{field}")


def _kind_faults(step: Step, kind: StepKind, given: Mapping[str, Any], at: str) -> Iterator[FieldFault]:
    if kind == "sleep" and ("seconds" in given) == ("until" in given):
        yield _fault(at, "a sleep has either seconds or until")
    if step.effect == "non_idempotent_write" and step.delivery == "at_least_once":
        message = "a non_idempotent_write may not be repeated, so it cannot be delivered at_least_once"
        yield _fault(f"{at}/delivery", message)
    if given.get("max_parallel") is not None and given.get("foreach") is None:
        yield _fault(f"{at}/max_parallel", "it bounds a foreach, and there is none")
    if given.get("repeat") is not None and given.get("foreach") is not None:
        yield _fault(f"{at}/repeat", "a step has foreach or repeat, not both")
    if kind == "decision" and step.rules is not UNSET:
        yield from _rule_faults(step.rules, f"{at}/rules")


def _rule_faults(rules: Sequence[Rule], at: str) -> Iterator[FieldFault]:
    if not rules:
        yield _fault(at, "a decision has one rule at least")
    seen: dict[str, int] = {}
    for place, rule in enumerate(rules):
        id_ = str(place) if rule.id is UNSET else rule.id
        if id_ in seen:
            yield _fault(f"{at}/{place}/id", f"rule {seen[id_]} has the id {id_} too")
        seen.setdefault(id_, place)
        yield from _template_faults(rule.then, f"{at}/{place}/then")


def _catch_faults(rows: Sequence[Catch] | msgspec.UnsetType, at: str) -> Iterator[FieldFault]:
    for place, row in enumerate(() if isinstance(rows, msgspec.UnsetType) else rows):
        if row.class_ != "*" and not is_name(row.class_):
            message = f"{row.class_!r} is neither the name of a failure class nor *"
            yield _fault(f"{at}/catch/{place}/class", message)
        yield from _template_faults(row.value, f"{at}/catch/{place}/value")


def _finish_faults(definition: Definition) -> Iterator[FieldFault]:
    if isinstance(definition.outcome, Decision):
        yield from _rule_faults(definition.outcome.rules, "/outcome/rules")
        yield from _template_faults(definition.outcome.default, "/outcome/default")
    if definition.updates is not UNSET:
        for place, update in enumerate(definition.updates):
            message = _pointer_fault(update.path)
            if message is not None:
                yield _fault(f"/updates/{place}/path", message)
            yield from _template_faults(update.value, f"/updates/{place}/value")
    yield from _template_faults(definition.output, "/output")


def _pointer_fault(pointer: str) -> str | None:
    """What is wrong with a pointer into the state; None for nothing."""
    if not pointer.startswith("/"):
        return f"{pointer!r} is no pointer into the state: it begins with /"
    tokens = pointer[1:].split("/")
    if any("~" in token.replace("~0", "").replace("~1", "") for token in tokens):
        return f"{pointer!r} holds a ~ that is neither ~0 nor ~1"
    if "-" in tokens:
        return f"{pointer!r} names the place behind an array's last item with -: only existing places can be set"
    if len(tokens) >= limits.JSON_DEPTH_MAX:
        return f"{pointer!r} names a place {len(tokens)} levels deep: a value has {limits.JSON_DEPTH_MAX}"
    return None


def _template_faults(value: Any, at: str) -> Iterator[FieldFault]:
    """Faults of what stands under the mark, where an expression belongs."""
    if isinstance(value, dict):
        if value.keys() == {MARK}:
            expression = value[MARK]
            if not isinstance(expression, str):
                yield _fault(f"{at}/{MARK}", f"{MARK} holds an expression, which is a text")
            elif not 1 <= len(expression) <= limits.EXPRESSION_LENGTH_MAX:
                message = f"an expression has 1 to {limits.EXPRESSION_LENGTH_MAX:,} characters, not {len(expression):,}"
                yield _fault(f"{at}/{MARK}", message)
            return
        for name, member in value.items():
            yield from _template_faults(member, f"{at}/{str(name).replace('~', '~0').replace('/', '~1')}")
    if isinstance(value, list):
        for place, item in enumerate(value):
            yield from _template_faults(item, f"{at}/{place}")


def _seconds_or_zero(value: Any, at: str) -> Iterator[FieldFault]:
    if value is not None and 0 < value < limits.SECONDS_MIN:
        least = f"0, or from {limits.SECONDS_MIN}"
        yield _fault(at, f"{value} is no number of seconds {least} to {limits.SECONDS_MAX:,}")


def _fault(path: str, message: str) -> FieldFault:
    return FieldFault(path=path, message=message)
