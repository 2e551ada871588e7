"""A workflow's definition as the engine runs it: compiled once, immutable."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stepd.engine.expressions import Env, Expression, References
from stepd.engine.schemas import Validator
from stepd.engine.templates import Template
from stepd_protocol.limits import Limits
from stepd_protocol.names import Delivery, Effect, HitPolicy, ManualResult, OnFailure, OnRestart, StepKind
from stepd_protocol.problems import FieldFault


class NoMatch(Exception):
    """No rule of a decision matched, and it has no default."""


class AmbiguousMatch(Exception):
    """More rules of a decision matched than its hit policy allows."""


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """One row of a decision; a rule without `when` always matches."""

    id: str
    when: Expression | None
    then: Template


@dataclass(frozen=True, slots=True)
class CompiledDecision:
    """A table of rules; `default` is None where the definition gives none."""

    hit_policy: HitPolicy
    rules: tuple[CompiledRule, ...]
    default: Template | None
    references: References


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
    input: Template | None
    """None: the execution's input."""
    references: References
    """What `when` and `input` read."""
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
    catch: tuple[tuple[str, Template], ...]
    """Failure class or `*`, and what the step's output becomes; the first that fits counts."""
    manual_result: ManualResult


@dataclass(frozen=True, slots=True)
class Compiled:
    """One version of a workflow."""

    name: str
    version: str
    digest: str
    raw: bytes
    """As it was registered."""
    description: str | None
    on_restart: OnRestart
    on_failure: OnFailure
    exclusive: bool
    timeout_ms: int | None
    retention_ms: int | None
    """None: the daemon's."""
    input_schema: Validator | None
    state_schema: Validator | None
    steps: tuple[CompiledStep, ...]
    by_id: Mapping[str, int]
    """Ordinals."""
    outcome: CompiledDecision | None
    updates: tuple[tuple[str, Template], ...]
    output: Template | None
    finish_references: References
    """What `outcome`, `updates` and `output` read."""


def decide_rules(decision: CompiledDecision, env: Env) -> tuple[Any, tuple[str, ...]]:
    """Returns the decision's output and the ids of the rules that made it; none where the default did.

    Raises NoMatch, AmbiguousMatch, ExpressionFailed, and what `env` raises.
    """
    raise NotImplementedError


def compile_definition(name: str, raw: bytes, limits: Limits) -> Compiled | list[FieldFault]:
    """Returns the compiled definition, or every fault in it, each with its JSON Pointer. `raw` is checked JSON."""
    raise NotImplementedError
