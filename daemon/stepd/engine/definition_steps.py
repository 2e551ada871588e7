"""Reads the fields of one step of a definition, of whatever kind, and compiles it."""

from dataclasses import dataclass
from typing import assert_never

from stepd.engine.decisions import CompiledDecision, read_decision
from stepd.engine.definition_checks import Skeleton
from stepd.engine.definition_fields import Fields, shown
from stepd.engine.definition_items import CompiledForeach, CompiledRepeat, inner_scope, read_foreach, read_repeat
from stepd.engine.definition_kinds import CompiledSleep, CompiledWait, read_sleep, read_wait
from stepd.engine.definition_texts import condition, template
from stepd.engine.expressions import Expression
from stepd.engine.schemas import Validator
from stepd.engine.scope import ExpressionScope, References
from stepd.engine.templates import Template
from stepd_protocol import limits
from stepd_protocol.names import (
    DELIVERIES,
    EFFECTS,
    MANUAL_RESULTS,
    Delivery,
    Effect,
    ManualResult,
    StepKind,
    is_name,
)

ANY_CLASS = "*"
RETRY_FIELDS = frozenset({"max_attempts", "initial_seconds", "factor", "max_seconds"})
CATCH_FIELDS = frozenset({"class", "value"})
FACTOR_MAX = 1_000


@dataclass(frozen=True, slots=True)
class CompiledStep:
    """One step. Times are milliseconds; None stands for the daemon's own where that is said, else for none."""

    ordinal: int
    """Its place in the definition, from 0."""
    id: str
    kind: StepKind
    needs: tuple[int, ...]
    """Ordinals, as written; the step before it where nothing was written."""
    written_needs: bool
    """Whether `needs` was written, and not empty."""
    successors: tuple[int, ...]
    """Ordinals of the steps that need it, in order."""
    ancestors: tuple[int, ...]
    """Ordinals, nearest first; at one distance the later in the definition first."""
    when: Expression | None
    """None: always."""
    input: Template | None
    """None: the execution's input; of a compensation, input and output of the success it undoes."""
    references: References
    """What is read when it becomes ready; without an `input` the execution's where `input_schema` is to judge it."""
    input_schema: Validator | None
    output_schema: Validator | None
    effect: Effect | None
    """Set on a task."""
    delivery: Delivery
    start_required: bool
    max_attempts: int
    initial_ms: int
    factor: float
    max_ms: int
    lease_ms: int | None
    """None: the daemon's."""
    reclaim_ms: int | None
    """None: the daemon's."""
    timeout_ms: int | None
    queue_timeout_ms: int | None
    priority: int
    workflow: str | None
    """Of a `workflow` step: whose execution its child is."""
    version: str | None
    """The child's; None: the one that is current when it is started."""
    catch: tuple[tuple[str, Template], ...]
    """Failure class or `*`, and what the step's output becomes; the first that fits counts."""
    manual_result: ManualResult
    compensate: int | None
    """Ordinal of the step that undoes this one."""
    undoes: int | None
    """Ordinal of the step that this one undoes: it is a compensation, and stands outside the graph."""
    foreach: CompiledForeach | None
    repeat: CompiledRepeat | None
    wait: CompiledWait | None
    """Set on a wait."""
    sleep: CompiledSleep | None
    """Set on a sleep."""
    decision: CompiledDecision | None
    """Set on a decision."""

    @property
    def has_items(self) -> bool:
        """Whether it runs once an item or a round, each with a row of its own."""
        return self.foreach is not None or self.repeat is not None

    @property
    def keeps_items(self) -> bool:
        """Whether each item of its list is kept by itself, for what may ask for it later."""
        is_asked = any("item" in value.references.roots for _, value in self.catch)
        return self.foreach is not None and (is_asked or self.compensate is not None)


@dataclass(frozen=True, slots=True)
class Own:
    """What only steps of one kind have; None in all others."""

    input: Template | None = None
    wait: CompiledWait | None = None
    sleep: CompiledSleep | None = None
    decision: CompiledDecision | None = None

    @property
    def references(self) -> References:
        """What it reads when the step becomes ready."""
        parts = (self.input, self.sleep, self.decision)
        return References().joined(part.references for part in parts if part is not None)


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and after how long a task is tried again; milliseconds."""

    max_attempts: int
    initial_ms: int
    factor: float
    max_ms: int


def read_step(skeleton: Skeleton, ordinal: int) -> CompiledStep:
    """Reads the step with every fault in it; after a fault its value is of no use."""
    outline = skeleton.outlines[ordinal]
    fields = outline.fields
    scope = skeleton.scope_of(ordinal)
    inner = inner_scope(fields, scope)
    foreach = read_foreach(fields, scope) if outline.kind == "task" else None
    repeat = read_repeat(fields, scope) if outline.kind in ("task", "workflow") else None
    when = condition(fields, "when", scope)
    own = _read_own(fields, outline.kind, scope, inner)
    input_schema = fields.schema("input_schema") if outline.kind in ("task", "workflow") else None
    effect = _read_effect(fields) if outline.kind == "task" else None
    delivery = _read_delivery(fields, effect) if outline.kind == "task" else "at_least_once"
    retry = _read_retry(fields, outline.kind)
    undoes = skeleton.undone_by(ordinal)
    if undoes is not None and own.input is None:
        fields.full["input"] = None
    is_task, is_workflow = outline.kind == "task", outline.kind == "workflow"
    return CompiledStep(
        ordinal=ordinal,
        id=outline.id or "",
        kind=outline.kind,
        needs=skeleton.graph.needs[ordinal],
        written_needs=bool(outline.needs),
        successors=skeleton.graph.successors[ordinal],
        ancestors=skeleton.ancestors_of(ordinal),
        when=when,
        input=own.input,
        references=_references(when, foreach, own, input_schema),
        input_schema=input_schema,
        output_schema=fields.schema("output_schema"),
        effect=effect,
        delivery=delivery,
        start_required=delivery == "at_most_once",
        max_attempts=retry.max_attempts,
        initial_ms=retry.initial_ms,
        factor=retry.factor,
        max_ms=retry.max_ms,
        lease_ms=fields.own_milliseconds("lease_seconds") if is_task else None,
        reclaim_ms=fields.own_milliseconds("reclaim_seconds", zero=True) if is_task else None,
        timeout_ms=_read_timeout(fields, outline.kind),
        queue_timeout_ms=fields.milliseconds_or_none("queue_timeout_seconds") if is_task else None,
        priority=fields.integer("priority", limits.PRIORITY_MIN, limits.PRIORITY_MAX, 0) if is_task else 0,
        workflow=fields.required_name("workflow") if is_workflow else None,
        version=fields.name("version") if is_workflow else None,
        catch=_read_catch(fields, inner),
        manual_result=fields.choice("manual_result", MANUAL_RESULTS, "allowed"),
        compensate=skeleton.compensation_of(ordinal),
        undoes=undoes,
        foreach=foreach,
        repeat=repeat,
        wait=own.wait,
        sleep=own.sleep,
        decision=own.decision,
    )


def _references(
    when: Expression | None, foreach: CompiledForeach | None, own: Own, input_schema: Validator | None
) -> References:
    references = own.references if when is None else own.references | when.references
    if foreach is not None:
        references |= foreach.items.references
    if own.input is None and input_schema is not None and foreach is None:
        references |= References(roots=frozenset({"input"}))
    return references


def _read_own(fields: Fields, kind: StepKind, scope: ExpressionScope, inner: ExpressionScope) -> Own:
    match kind:
        case "task":
            return Own(input=_read_input(fields, inner))
        case "workflow":
            return Own(input=_read_input(fields, inner))
        case "wait":
            return Own(wait=read_wait(fields))
        case "sleep":
            return Own(sleep=read_sleep(fields, scope))
        case "decision":
            return Own(decision=read_decision(fields, scope))
        case _:
            assert_never(kind)


def _read_input(fields: Fields, scope: ExpressionScope) -> Template | None:
    if fields.has("input"):
        return template(fields, "input", scope)
    fields.full["input"] = {"$cel": "item" if "item" in scope.roots else "input"}
    return None


def _read_effect(fields: Fields) -> Effect | None:
    if fields.has("effect"):
        return fields.choice("effect", EFFECTS, "non_idempotent_write")
    fields.fault("effect", f"effect is missing: a task says what it does to the world outside, {', '.join(EFFECTS)}")
    return None


def _read_delivery(fields: Fields, effect: Effect | None) -> Delivery:
    default: Delivery = "at_most_once" if effect == "non_idempotent_write" else "at_least_once"
    delivery = fields.choice("delivery", DELIVERIES, default)
    if effect == "non_idempotent_write" and delivery == "at_least_once":
        fields.fault("delivery", "a non_idempotent_write may not be repeated, so it cannot be delivered at_least_once")
    return delivery


def _read_retry(fields: Fields, kind: StepKind) -> Retry:
    defaults = Retry(
        limits.RETRY_MAX_ATTEMPTS,
        int(limits.RETRY_INITIAL_SECONDS * 1_000),
        limits.RETRY_FACTOR,
        int(limits.RETRY_MAX_SECONDS * 1_000),
    )
    if kind != "task":
        return defaults
    given = fields.take("retry", {})
    if not isinstance(given, dict):
        fields.fault("retry", f"{shown(given)} is no object")
        return defaults
    retry = Fields(given, fields.at("retry"), fields.faults)
    retry.refuse_others(RETRY_FIELDS)
    fields.full["retry"] = retry.full
    return Retry(
        retry.integer("max_attempts", 1, limits.ATTEMPTS_MAX, limits.RETRY_MAX_ATTEMPTS),
        retry.milliseconds("initial_seconds", int(limits.RETRY_INITIAL_SECONDS), zero=True),
        retry.number("factor", 1, FACTOR_MAX, int(limits.RETRY_FACTOR)),
        retry.milliseconds("max_seconds", int(limits.RETRY_MAX_SECONDS)),
    )


def _read_timeout(fields: Fields, kind: StepKind) -> int | None:
    match kind:
        case "task":
            return fields.milliseconds_or_none("timeout_seconds", limits.STEP_TIMEOUT_SECONDS)
        case "wait" | "workflow":
            return fields.milliseconds_or_none("timeout_seconds")
        case "sleep" | "decision":
            return None
        case _:
            assert_never(kind)


def _read_catch(fields: Fields, scope: ExpressionScope) -> tuple[tuple[str, Template], ...]:
    rows = fields.objects("catch")
    caught = tuple(_read_caught(row, scope) for row in rows)
    fields.full["catch"] = [row.full for row in rows]
    return caught


def _read_caught(row: Fields, scope: ExpressionScope) -> tuple[str, Template]:
    row.refuse_others(CATCH_FIELDS)
    class_ = row.take("class", None)
    if row.required("class") and class_ != ANY_CLASS and not (isinstance(class_, str) and is_name(class_)):
        row.fault("class", f"{shown(class_)} is neither the name of a failure class nor {ANY_CLASS}")
    return str(class_), template(row, "value", scope)
