"""Owns the messages of the worker's loop: claim, heartbeat, complete, fail, and the lease itself."""

from typing import Annotated, Any, TypeAlias

from msgspec import UNSET, Meta, Raw, UnsetType, field

from stepd_protocol import limits
from stepd_protocol.fields import Answer, Count, Fence, Id, Index, Payload, Request, ShortText, Time, Tokens
from stepd_protocol.names import (
    NEWLINE_GUARD,
    Delivery,
    Disposition,
    Effect,
    Name,
    ReportedEffect,
    SpanKind,
    SpanStatus,
    StepStatus,
)
from stepd_protocol.problems import ExecutionRef

SpanId: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9a-fA-F]{16}$" + NEWLINE_GUARD)]
UnixNano: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9]{1,19}$" + NEWLINE_GUARD)]
Lenient: TypeAlias = Annotated[
    Payload,
    Meta(description="Read by itself: what is bad in it is dropped and named in `warnings`, never refused."),
]


class Serves(Request, frozen=True, kw_only=True):
    """What a worker can run: a workflow, any version unless one is named, any step unless some are."""

    workflow: Name
    version: Name | None = None
    steps: Annotated[list[Name], Meta(min_length=1, max_length=limits.SERVES_STEPS_MAX)] | None = None


class ClaimRequest(Request, frozen=True, kw_only=True):
    """Asks for up to `max` leases, waiting up to `wait_seconds`."""

    worker: Name
    claim_id: Name
    serves: Annotated[list[Serves], Meta(min_length=1, max_length=limits.CLAIM_SERVES_MAX)]
    instance: Name | None = None
    """One life of a worker; the worker's name where it is left out."""
    max: Annotated[int, Meta(ge=1, le=limits.CLAIM_LEASES_MAX)] = limits.CLAIM_LEASES
    wait_seconds: Annotated[float, Meta(ge=0, le=limits.WAIT_SECONDS_MAX)] = limits.WAIT_SECONDS


class NextClaim(Request, frozen=True, kw_only=True):
    """The claim that rides on a complete or fail: as `ClaimRequest`, but it never waits."""

    worker: Name
    claim_id: Name
    serves: Annotated[list[Serves], Meta(min_length=1, max_length=limits.CLAIM_SERVES_MAX)]
    instance: Name | None = None
    max: Annotated[int, Meta(ge=1, le=limits.CLAIM_LEASES_MAX)] = limits.CLAIM_LEASES
    wait_seconds: Annotated[float, Meta(ge=0, le=0)] = 0


class Usage(Answer, frozen=True, kw_only=True):
    """Tokens of one model: five disjoint counts. Views show it too, so that its decoder passes over unknown fields."""

    model: ShortText
    input_tokens: Tokens = 0
    cache_read_tokens: Tokens = 0
    cache_write_tokens: Tokens = 0
    output_tokens: Tokens = 0
    reasoning_tokens: Tokens = 0


class Span(Request, frozen=True, kw_only=True):
    """One span of an attempt's trace; without `parent_span_id` it hangs under the lease's."""

    span_id: SpanId
    name: Annotated[str, Meta(min_length=1, max_length=limits.SHORT_TEXT_LENGTH_MAX)]
    start_unix_nano: UnixNano
    end_unix_nano: UnixNano
    parent_span_id: SpanId | None = None
    kind: SpanKind = "internal"
    status: SpanStatus = "unset"
    attributes: dict[str, Any] = field(default_factory=dict)
    usage: list[Usage] | None = None


class ErrorInfo(Answer, frozen=True, kw_only=True):
    """A failure as views and later attempts see it."""

    class_: str = field(name="class")
    message: str
    details: Raw


class LeaseExecution(Answer, frozen=True, kw_only=True):
    """The execution that a lease belongs to."""

    id: Id
    workflow: Name
    version: Name
    correlation: str | None
    tenant: str | None
    labels: dict[str, str]
    created_at: Time


class AncestorStep(Answer, frozen=True, kw_only=True):
    """An ancestor's status and output; `omitted` stands in the output's place where it did not fit."""

    status: StepStatus
    output: Payload = UNSET
    omitted: bool | UnsetType = UNSET


class Previous(Answer, frozen=True, kw_only=True):
    """What the last attempt left: its number (0 for none), last progress, error."""

    attempt: Count
    progress: Raw
    error: ErrorInfo | None


class Lease(Answer, frozen=True, kw_only=True):
    """One attempt, handed to one worker for `lease_seconds`."""

    id: Id
    fence: Fence
    attempt: Count
    max_attempts: Count
    execution: LeaseExecution
    step: Name
    index: Index | None
    input: Raw
    steps: dict[str, AncestorStep]
    state: Raw
    previous: Previous
    idempotency_key: str
    effect: Effect
    delivery: Delivery
    start_required: bool
    expires_at: Time
    lease_seconds: float
    heartbeat_seconds: float
    reclaim_seconds: float
    timeout_seconds: float | None
    """What is left of the attempt's time; null for no bound."""
    traceparent: str | None


class ClaimAnswer(Answer, frozen=True, kw_only=True):
    """The leases dealt, none when nothing came; `held_seconds` is how long the daemon held the call."""

    leases: list[Lease]
    held_seconds: float
    service: str


class Heartbeat(Request, frozen=True, kw_only=True):
    """Keeps a lease alive; `started` says that the body may now have effects outside."""

    fence: Fence
    started: bool = False
    progress: Lenient = UNSET
    usage: Lenient = UNSET
    spans: Lenient = UNSET


class CancelWish(Answer, frozen=True, kw_only=True):
    """The body is asked to stop; its true outcome is still wanted."""

    reason: str


class HeartbeatAnswer(Answer, frozen=True, kw_only=True):
    """How long the lease lasts from here, and whether the body is asked to stop."""

    expires_at: Time
    lease_seconds: float
    cancel: CancelWish | None
    warnings: list[str]


class Complete(Request, frozen=True, kw_only=True):
    """The body succeeded. `output` left out is null; `state` is a patch of top-level keys."""

    fence: Fence
    output: Payload = UNSET
    state: Payload = UNSET
    usage: Lenient = UNSET
    spans: Lenient = UNSET
    next: Lenient = UNSET
    """A `NextClaim`."""


class CompleteAnswer(Answer, frozen=True, kw_only=True):
    """The outcome was taken; `leases` are what `next` was dealt."""

    late: bool
    replayed: bool
    execution: ExecutionRef
    leases: list[Lease]
    held_seconds: float
    warnings: list[str]


class Fail(Request, frozen=True, kw_only=True):
    """The body failed with this class. `effect` left out: unknown for a write."""

    fence: Fence
    class_: Name = field(name="class")
    message: str = ""
    details: Lenient = UNSET
    retry_after: Lenient = UNSET
    """Seconds, as a number or text, or an HTTP date."""
    effect: ReportedEffect | None = None
    usage: Lenient = UNSET
    spans: Lenient = UNSET
    next: Lenient = UNSET
    """A `NextClaim`."""


class FailAnswer(Answer, frozen=True, kw_only=True):
    """What became of the step."""

    disposition: Disposition
    next_attempt_at: Time | None
    late: bool
    replayed: bool
    execution: ExecutionRef
    leases: list[Lease]
    held_seconds: float
    warnings: list[str]
