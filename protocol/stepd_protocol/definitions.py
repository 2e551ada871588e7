"""Owns the wire form of a workflow's definition and of the answer to its registration."""

from typing import Annotated, Any, Final, TypeAlias

from msgspec import UNSET, Meta, UnsetType, field

from stepd_protocol import limits
from stepd_protocol.fields import (
    Answer,
    JsonSchema,
    Priority,
    Request,
    Seconds,
    SecondsOrZero,
    Time,
    Tokens,
)
from stepd_protocol.limits import Limits
from stepd_protocol.names import (
    Delivery,
    Effect,
    HitPolicy,
    ManualResult,
    Name,
    OnFailure,
    OnRestart,
    OnTimeout,
    StepKind,
)

Expression: TypeAlias = Annotated[str, Meta(min_length=1, max_length=limits.EXPRESSION_LENGTH_MAX, description="CEL.")]
Template: TypeAlias = Annotated[
    Any, Meta(description='Any JSON; an object {"$cel": "…"} stands for that expression\'s value.')
]
FailureClass: TypeAlias = Annotated[str, Meta(min_length=1, max_length=128)]
"""A class by name, or `*` for any."""


class Retry(Request, frozen=True, kw_only=True):
    """How often and after how long a task is tried again."""

    max_attempts: Annotated[int, Meta(ge=1, le=limits.ATTEMPTS_MAX)] = limits.RETRY_MAX_ATTEMPTS
    initial_seconds: SecondsOrZero = limits.RETRY_INITIAL_SECONDS
    factor: Annotated[float, Meta(ge=1, le=1_000)] = limits.RETRY_FACTOR
    max_seconds: Seconds = limits.RETRY_MAX_SECONDS


class Catch(Request, frozen=True, kw_only=True):
    """A failure of this class becomes this output."""

    class_: FailureClass = field(name="class")
    value: Template = None


class Repeat(Request, frozen=True, kw_only=True):
    """Runs a step again, round after round, until a condition holds."""

    until: Expression
    max: Annotated[int, Meta(ge=1, le=limits.REPEAT_ROUNDS_MAX)]
    next: Template | UnsetType = UNSET


class Rule(Request, frozen=True, kw_only=True):
    """One row of a decision: what holds when `when` does. The id left out is the row's place."""

    then: Template = None
    id: Name | UnsetType = UNSET
    when: Expression | UnsetType = UNSET


class Decision(Request, frozen=True, kw_only=True):
    """A table of rules; as the definition's `outcome` it has no id."""

    rules: list[Rule]
    hit_policy: HitPolicy | UnsetType = UNSET
    default: Template | UnsetType = UNSET


class Update(Request, frozen=True, kw_only=True):
    """One change of the state when the execution ends well; `path` is a JSON Pointer."""

    path: str
    value: Template = None


class Step(Request, frozen=True, kw_only=True):
    """One step of any kind; `STEP_FIELDS` says which fields belong to which kind.

    One type and not one a kind: `kind` may be left out, and then it is `task`.
    """

    id: Name
    kind: StepKind | UnsetType = UNSET
    # Every kind
    needs: list[Name] | UnsetType = UNSET
    when: Expression | UnsetType = UNSET
    output_schema: JsonSchema | UnsetType | None = UNSET
    catch: list[Catch] | UnsetType = UNSET
    manual_result: ManualResult | UnsetType = UNSET
    # task and workflow
    input: Template | UnsetType = UNSET
    input_schema: JsonSchema | UnsetType | None = UNSET
    timeout_seconds: Seconds | UnsetType | None = UNSET
    """A task: of one attempt, from its claim. A wait or workflow: of the step."""
    repeat: Repeat | UnsetType | None = UNSET
    compensate: Name | UnsetType | None = UNSET
    # task
    effect: Effect | UnsetType = UNSET
    delivery: Delivery | UnsetType = UNSET
    retry: Retry | UnsetType = UNSET
    lease_seconds: Seconds | UnsetType = UNSET
    reclaim_seconds: SecondsOrZero | UnsetType = UNSET
    queue_timeout_seconds: Seconds | UnsetType | None = UNSET
    priority: Priority | UnsetType = UNSET
    foreach: Expression | UnsetType | None = UNSET
    max_parallel: Annotated[int, Meta(ge=1, le=limits.FOREACH_ITEMS_MAX)] | UnsetType | None = UNSET
    # wait
    event: Name | UnsetType = UNSET
    payload_schema: JsonSchema | UnsetType | None = UNSET
    on_timeout: OnTimeout | UnsetType = UNSET
    # sleep
    seconds: Template | UnsetType = UNSET
    until: Template | UnsetType = UNSET
    # workflow
    workflow: Name | UnsetType = UNSET
    version: Name | UnsetType | None = UNSET
    # decision
    hit_policy: HitPolicy | UnsetType = UNSET
    rules: list[Rule] | UnsetType = UNSET
    default: Template | UnsetType = UNSET


class Budget(Request, frozen=True, kw_only=True):
    """What an execution may use with its children; null for no bound. Tokens are all five counts, priced or not."""

    cost: Annotated[float, Meta(ge=0, le=limits.BUDGET_COST_MAX)] | UnsetType | None = UNSET
    tokens: Tokens | UnsetType | None = UNSET


class Definition(Request, frozen=True, kw_only=True):
    """One version of a workflow, the body of `PUT /v1/workflows/{name}`."""

    steps: Annotated[list[Step], Meta(min_length=1)]
    version: Name | UnsetType | None = UNSET
    description: str | UnsetType | None = UNSET
    input_schema: JsonSchema | UnsetType | None = UNSET
    state_schema: JsonSchema | UnsetType | None = UNSET
    outcome: Decision | UnsetType | None = UNSET
    updates: list[Update] | UnsetType = UNSET
    output: Template | UnsetType = UNSET
    timeout_seconds: Seconds | UnsetType | None = UNSET
    on_restart: OnRestart | UnsetType = UNSET
    on_failure: OnFailure | UnsetType = UNSET
    exclusive: bool | UnsetType = UNSET
    retention_seconds: Seconds | UnsetType | None = UNSET
    budget: Budget | UnsetType | None = UNSET


_EVERY_KIND: Final = frozenset({"id", "kind", "needs", "when", "output_schema", "catch", "manual_result"})

STEP_FIELDS: Final[dict[StepKind, frozenset[str]]] = {
    "task": _EVERY_KIND
    | {
        "input",
        "input_schema",
        "effect",
        "delivery",
        "retry",
        "lease_seconds",
        "reclaim_seconds",
        "timeout_seconds",
        "queue_timeout_seconds",
        "priority",
        "foreach",
        "max_parallel",
        "repeat",
        "compensate",
    },
    "wait": _EVERY_KIND | {"event", "payload_schema", "timeout_seconds", "on_timeout"},
    "sleep": _EVERY_KIND | {"seconds", "until"},
    "decision": _EVERY_KIND | {"hit_policy", "rules", "default"},
    "workflow": _EVERY_KIND
    | {"workflow", "version", "input", "input_schema", "timeout_seconds", "repeat", "compensate"},
}
"""The fields that a step of each kind may have."""


class ProtocolInfo(Answer, frozen=True, kw_only=True):
    """What a worker must know to keep the protocol with this daemon; seconds."""

    version: int
    wait_seconds_max: float
    lease_seconds: float
    heartbeat_seconds: float
    reclaim_seconds: float
    limits: Limits


class RegisteredWorkflow(Answer, frozen=True, kw_only=True):
    """The answer to a registration: 201 for a new version, 200 for the same again."""

    name: Name
    version: Name
    digest: str
    registered_at: Time
    current: bool
    protocol: ProtocolInfo
    service: str


class CurrentRequest(Request, frozen=True, kw_only=True):
    """Makes a version the one that new executions get."""

    version: Name
