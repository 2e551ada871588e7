"""Owns the messages of the executions API: starts, views, lists, journal, signals, cancel."""

from typing import Annotated, Any, Final, Generic, Literal, TypeAlias, TypeVar

from msgspec import UNSET, Meta, Raw, UnsetType, field

from stepd_protocol import limits
from stepd_protocol.fields import (
    Answer,
    Cost,
    Count,
    Id,
    Index,
    Money,
    Payload,
    Priority,
    ReasonText,
    Request,
    ShortText,
    Time,
    Tokens,
)
from stepd_protocol.leases import ErrorInfo, Usage
from stepd_protocol.names import (
    EVENT_TYPES,
    AttemptStatus,
    Direction,
    Effect,
    ExecutionStatus,
    KnownEffect,
    Name,
    OnRestart,
    ReportedEffect,
    SpanKind,
    SpanStatus,
    StepStatus,
)

T = TypeVar("T")

ORDERS: Final = ("newest", "oldest")
INCLUDES: Final = ("attempts", "payloads")


class Budget(Request, frozen=True, kw_only=True):
    """What an execution may use with its children; null for no bound. Tokens are all five counts, priced or not."""

    cost: Cost | UnsetType = UNSET
    tokens: Tokens | UnsetType | None = UNSET


class StartRequest(Request, frozen=True, kw_only=True):
    """Starts an execution; what is null or left out is the definition's or none."""

    workflow: Name
    version: Name | None = None
    input: Payload = UNSET
    state: Payload = UNSET
    correlation: ShortText | None = None
    tenant: ShortText | None = None
    labels: dict[Name, ShortText] = field(default_factory=dict)
    priority: Priority = 0
    start_at: Time | None = None
    on_restart: OnRestart | None = None
    exclusive: bool | None = None
    budget: Budget | None = None
    """Takes the place of the definition's as a whole."""


class ResumeRequest(Request, frozen=True, kw_only=True):
    """Ends a pause; the bounds of the budget that are given take the place of those that stand."""

    budget: Budget | None = None


class CancelRequest(Request, frozen=True, kw_only=True):
    """Asks an execution to end; `force` does not wait for writes in flight."""

    reason: ReasonText | None = None
    force: bool = False


class SignalRequest(Request, frozen=True, kw_only=True):
    """Hands a payload to a wait of this name."""

    name: Name
    payload: Payload = UNSET


class PublishRequest(Request, frozen=True, kw_only=True):
    """A signal to every open execution with this correlation."""

    name: Name
    correlation: ShortText
    payload: Payload = UNSET


class PublishAnswer(Answer, frozen=True, kw_only=True):
    """How many executions took the signal."""

    delivered: Count


class BlockedView(Answer, frozen=True, kw_only=True):
    """Why something stands: no live worker serves it, or its child needs an operator."""

    code: Annotated[str, Meta(examples=["no_worker", "child_reconciliation"])]
    since: Time | UnsetType = UNSET
    detail: str | UnsetType = UNSET
    execution: Id | UnsetType = UNSET


class ParentView(Answer, frozen=True, kw_only=True):
    """The execution that waits for this one, and its step."""

    execution: Id
    step: Name
    index: Index | None


class UsageTotal(Answer, frozen=True, kw_only=True):
    """Tokens and money of a whole execution, with its children."""

    input_tokens: Count = 0
    cache_read_tokens: Count = 0
    cache_write_tokens: Count = 0
    output_tokens: Count = 0
    reasoning_tokens: Count = 0
    cost: Money
    currency: str | None = None
    """Null while nothing was priced."""
    unpriced_tokens: Count = 0
    """Tokens that had no price when they were reported: they are not in `cost`."""


class UsageGroup(Answer, frozen=True, kw_only=True):
    """What attempts used together that are alike in what was grouped by; only that is shown of the first ones."""

    day: str | UnsetType = UNSET
    """In UTC, such as `2026-11-30`."""
    workflow: Name | UnsetType = UNSET
    version: Name | UnsetType = UNSET
    step: Name | UnsetType = UNSET
    model: str | UnsetType = UNSET
    tenant: str | None | UnsetType = UNSET
    labels: dict[str, str | None] | UnsetType = UNSET
    """Null where an execution has no such label."""
    input_tokens: Count
    cache_read_tokens: Count
    cache_write_tokens: Count
    output_tokens: Count
    reasoning_tokens: Count
    cost: Money
    currency: str | None
    unpriced_tokens: Count
    attempts: Count


class BudgetView(Answer, frozen=True, kw_only=True):
    """What an execution may use with its children; null where there is no bound."""

    cost: Money
    tokens: Count | None


class PausedView(Answer, frozen=True, kw_only=True):
    """Why an execution is paused, and since when."""

    reason: Annotated[str, Meta(examples=["requested", "budget_exceeded"])]
    since: Time | None


class ExecutionError(Answer, frozen=True, kw_only=True):
    """Why an execution fails or failed; `cause` is the last real error behind a time-out."""

    class_: str = field(name="class")
    message: str
    step: Name | None = None
    cause: ErrorInfo | None = None


class StandingWrite(Answer, frozen=True, kw_only=True):
    """A write that succeeded, or may have, and was not undone."""

    step: Name
    index: Index | None


class SignalNotTaken(Answer, frozen=True, kw_only=True):
    """A signal that was accepted, and that no wait took before the execution ended."""

    name: Name
    at: Time
    payload: Payload = UNSET
    """Left out in lists, and in a view where those before it have 1 MiB together."""


class StaleOutcome(Answer, frozen=True, kw_only=True):
    """What a worker sent after the daemon had ended its attempt: evidence, for an operator to adopt."""

    outcome: Literal["complete", "fail"]
    at: Time
    class_: str | None = field(name="class")
    message: str | None
    effect: ReportedEffect | None
    output: Payload = UNSET
    """Shown with `include=payloads`."""


class UsageView(Usage, frozen=True, kw_only=True):
    """What an attempt used of one model, and what that cost by the prices that stood when it was first reported."""

    cost: Money
    currency: str | None = None
    unpriced_tokens: Count = 0
    prices_version: int | None = None
    """The version of the table of prices that it was priced by."""


class AttemptView(Answer, frozen=True, kw_only=True):
    """One attempt of a step and the worker that had it."""

    attempt: Count
    status: AttemptStatus
    worker: Name
    instance: Name
    leased_at: Time
    started_at: Time | None
    ended_at: Time | None
    late: bool
    effect: KnownEffect | None
    """What is known of what it did outside."""
    error: ErrorInfo | None
    progress: Raw
    usage: list[UsageView]
    stale_outcome: StaleOutcome | None


class StepView(Answer, frozen=True, kw_only=True):
    """One step; a `foreach` stands once, with its items counted by status."""

    id: Name
    index: Index | None
    status: StepStatus
    attempt: Count
    effect: Effect | None
    """What its body does outside, as the definition says; null where it has no body."""
    next_attempt_at: Time | None
    error: ErrorInfo | None
    blocked: BlockedView | None
    held: bool = False
    caught: bool = False
    items: dict[str, int] | UnsetType = UNSET
    attempts: list[AttemptView] | UnsetType = UNSET
    """Shown with `include=attempts`."""
    child: Id | UnsetType = UNSET
    """Of a `workflow` step: the execution that it waits for, or has waited for."""
    input: Payload = UNSET
    """Shown with `include=payloads`, as `output`."""
    output: Payload = UNSET


class ExecutionSummary(Answer, frozen=True, kw_only=True):
    """An execution in a list: without payloads and steps."""

    id: Id
    workflow: Name
    version: Name
    status: ExecutionStatus
    direction: Direction
    revision: Count
    error: ExecutionError | None
    correlation: str | None
    tenant: str | None
    labels: dict[str, str]
    usage: UsageTotal
    budget: BudgetView | None
    paused: PausedView | None
    standing_writes: list[StandingWrite]
    signals_not_taken: list[SignalNotTaken]
    blocked: BlockedView | None
    created_at: Time
    started_at: Time | None
    ended_at: Time | None
    parent: ParentView | UnsetType = UNSET
    """Of a child: what waits for it."""


class ExecutionView(ExecutionSummary, frozen=True, kw_only=True):
    """An execution with its payloads and steps."""

    input: Raw
    output: Raw
    outcome: Raw
    state: Raw
    steps: list[StepView]


class ListAnswer(Answer, Generic[T], frozen=True, kw_only=True):
    """One page; `next` is the cursor of the next one, null at the end."""

    items: list[T]
    next: str | None


ExecutionList: TypeAlias = ListAnswer[ExecutionSummary]
UsageList: TypeAlias = ListAnswer[UsageGroup]
StepList: TypeAlias = ListAnswer[StepView]


class Event(Answer, frozen=True, kw_only=True):
    """One entry of an execution's journal; `seq` counts from 1 without gaps."""

    seq: Annotated[int, Meta(ge=1)]
    at: Time
    type: Annotated[str, Meta(examples=list(EVENT_TYPES))]
    """One of the event types; text, so that a client reads those of a newer daemon too."""
    step: Name | None
    index: Index | None
    attempt: Count | None
    worker: Name | None
    data: Raw


class EventsAnswer(Answer, frozen=True, kw_only=True):
    """Journal entries after a `seq`; `next` is the one to ask after, null at the end."""

    items: list[Event]
    next: int | None


class SpanView(Answer, frozen=True, kw_only=True):
    """One span of an execution's trace and where it belongs."""

    span_id: str
    parent_span_id: str | None
    name: str
    kind: SpanKind
    start_unix_nano: str
    end_unix_nano: str | None
    status: SpanStatus
    attributes: dict[str, Any]
    usage: list[Usage] | None
    step: Name | None
    index: Index | None
    attempt: Count | None
    worker: Name | None
    previous_span_id: str | UnsetType = UNSET
    """The piece before it, of what is told in pieces because it lasts long."""


SpanList: TypeAlias = ListAnswer[SpanView]

PageLimit: TypeAlias = Annotated[int, Meta(ge=1, le=limits.PAGE_ITEMS_MAX)]
SpanPageLimit: TypeAlias = Annotated[int, Meta(ge=1, le=limits.PAGE_SPANS_MAX)]
