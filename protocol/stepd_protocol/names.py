"""Owns the closed vocabularies of the protocol and the rule for names."""

import re
from typing import Annotated, Final, Literal, TypeAlias, get_args

from msgspec import Meta

PROTOCOL_VERSION: Final = 1
NAME_LENGTH_MAX: Final = 128
NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$"
# Python's `$` also matches before a last newline. Only decoding needs the guard: a published schema leaves it out,
# since `$` means the end in JSON Schema.
NEWLINE_GUARD: Final = r"(?!\n)"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")

Name: TypeAlias = Annotated[
    str,
    Meta(
        pattern=NAME_PATTERN + NEWLINE_GUARD,
        max_length=NAME_LENGTH_MAX,
        description="A name: letters, digits and . _ : - after a first letter or digit.",
    ),
]


def is_name(text: str) -> bool:
    """Whether the whole text is a name: 1 to 128 characters, no newline at its end."""
    return _NAME.fullmatch(text) is not None


ExecutionStatus: TypeAlias = Literal[
    "scheduled",
    "queued",
    "running",
    "waiting",
    "paused",
    "cancelling",
    "failing",
    "completed",
    "failed",
    "cancelled",
    "reconciliation_required",
]
EndedStatus: TypeAlias = Literal["completed", "failed", "cancelled"]
StepStatus: TypeAlias = Literal[
    "pending",
    "queued",
    "leased",
    "running",
    "retry_wait",
    "waiting",
    "succeeded",
    "failed",
    "skipped",
    "cancelled",
    "uncertain",
]
AttemptStatus: TypeAlias = Literal[
    "leased", "running", "orphaned", "succeeded", "failed", "requeued", "lost", "cancelled"
]
Direction: TypeAlias = Literal["forward", "cancel", "compensate"]

StepKind: TypeAlias = Literal["task", "wait", "sleep", "decision", "workflow"]
Effect: TypeAlias = Literal["read_only", "idempotent_write", "non_idempotent_write"]
Delivery: TypeAlias = Literal["at_least_once", "at_most_once"]
KnownEffect: TypeAlias = Literal["none", "applied", "unknown"]
"""What is known to have happened outside, of an attempt or a step."""
ReportedEffect: TypeAlias = Literal["none", "applied", "unknown", "absent"]
"""What a worker's fail may say; `absent` speaks for every attempt under the idempotency key."""
Disposition: TypeAlias = Literal["retry_scheduled", "requeued", "step_failed", "caught", "uncertain", "held"]
OnRestart: TypeAlias = Literal["fail", "retry", "resume"]
OnFailure: TypeAlias = Literal["fail", "reconcile", "compensate"]
OnTimeout: TypeAlias = Literal["fail", "skip"]
HitPolicy: TypeAlias = Literal["first", "unique", "any", "collect"]
ManualResult: TypeAlias = Literal["allowed", "refused"]
Scope: TypeAlias = Literal["worker", "execute", "read", "write", "operate", "admin"]
SpanKind: TypeAlias = Literal["internal", "client", "server", "producer", "consumer"]
SpanStatus: TypeAlias = Literal["unset", "ok", "error"]

DaemonClass: TypeAlias = Literal[
    "timeout",
    "lost",
    "queue_timeout",
    "wait_timeout",
    "expression_failed",
    "no_match",
    "ambiguous_match",
    "repeat_limit",
    "child_failed",
    "execution_timeout",
    "finish_invalid",
    "checkpoint_mismatch",
    "server_restarted",
    "budget_exceeded",
]
"""The failure classes that only the daemon gives; a worker that sends one is refused."""

EventType: TypeAlias = Literal[
    "execution.created",
    "execution.started",
    "execution.waiting",
    "execution.paused",
    "execution.unpaused",
    "execution.cancel_requested",
    "execution.cancelling",
    "execution.failing",
    "execution.completed",
    "execution.failed",
    "execution.cancelled",
    "execution.reconciliation_required",
    "execution.resolved",
    "execution.recovered",
    "step.queued",
    "step.skipped",
    "step.succeeded",
    "step.failed",
    "step.caught",
    "step.retry_scheduled",
    "step.uncertain",
    "step.held",
    "step.cancelled",
    "step.compensating",
    "attempt.leased",
    "attempt.started",
    "attempt.orphaned",
    "attempt.late",
    "attempt.lost",
    "attempt.requeued",
    "attempt.failed",
    "attempt.stale_outcome",
    "signal.received",
    "wait.armed",
    "wait.resumed",
    "wait.timed_out",
    "timer.fired",
    "decision.made",
    "child.started",
    "child.ended",
]

EXECUTION_STATUSES: Final[tuple[ExecutionStatus, ...]] = get_args(ExecutionStatus)
ENDED_STATUSES: Final[frozenset[ExecutionStatus]] = frozenset(get_args(EndedStatus))
STEP_STATUSES: Final[tuple[StepStatus, ...]] = get_args(StepStatus)
ATTEMPT_STATUSES: Final[tuple[AttemptStatus, ...]] = get_args(AttemptStatus)
DIRECTIONS: Final[tuple[Direction, ...]] = get_args(Direction)
STEP_KINDS: Final[tuple[StepKind, ...]] = get_args(StepKind)
EFFECTS: Final[tuple[Effect, ...]] = get_args(Effect)
DELIVERIES: Final[tuple[Delivery, ...]] = get_args(Delivery)
KNOWN_EFFECTS: Final[tuple[KnownEffect, ...]] = get_args(KnownEffect)
REPORTED_EFFECTS: Final[tuple[ReportedEffect, ...]] = get_args(ReportedEffect)
DISPOSITIONS: Final[tuple[Disposition, ...]] = get_args(Disposition)
ON_RESTART: Final[tuple[OnRestart, ...]] = get_args(OnRestart)
ON_FAILURE: Final[tuple[OnFailure, ...]] = get_args(OnFailure)
ON_TIMEOUT: Final[tuple[OnTimeout, ...]] = get_args(OnTimeout)
HIT_POLICIES: Final[tuple[HitPolicy, ...]] = get_args(HitPolicy)
MANUAL_RESULTS: Final[tuple[ManualResult, ...]] = get_args(ManualResult)
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
SPAN_KINDS: Final[tuple[SpanKind, ...]] = get_args(SpanKind)
SPAN_STATUSES: Final[tuple[SpanStatus, ...]] = get_args(SpanStatus)
DAEMON_CLASSES: Final[frozenset[str]] = frozenset(get_args(DaemonClass))
EVENT_TYPES: Final[tuple[EventType, ...]] = get_args(EventType)
