"""The commands that can be given to an execution, and what its machine answers."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from stepd.engine.definition_budget import Budget
from stepd.engine.landings import Landed, Landing
from stepd.engine.model import Attempt, Execution, Step
from stepd.engine.pricing import PriceTable
from stepd.engine.resolutions import Close, Judgement, ResumeWith
from stepd.engine.spending import NOTHING, Spent


class Actor(msgspec.Struct, frozen=True):
    """Who gives a command: for the audit row that is written with it."""

    principal: str
    key_id: str | None = None
    remote: str | None = None


class SpanReport(msgspec.Struct, frozen=True):
    """One span as a worker sent it; ``usage`` is what itself used: a JSON list of usages, or None."""

    span_id: str
    parent_span_id: str | None
    body: bytes
    usage: bytes | None


class Reported(msgspec.Struct, frozen=True):
    """What a worker call carried beside its outcome, already read leniently. ``usage``: a JSON list of usages."""

    progress: bytes | None = None
    usage: bytes | None = None
    spans: tuple[SpanReport, ...] = ()
    prices: PriceTable | None = None
    """The prices of now, by which usage is priced that is reported here first."""


class Parent(msgspec.Struct, frozen=True):
    """The execution that starts a child, and the step of it that waits for the child."""

    execution_id: str
    step: str
    index: int
    depth: int
    """Of the child: how many executions stand above it."""


class Start(msgspec.Struct, frozen=True):
    """A new execution. Every id and time it needs that isn't the store's clock is given."""

    id: str
    workflow: str
    actor: Actor
    tenant: str | None
    correlation: str | None
    labels: bytes
    priority: int
    input: bytes
    input_hash: str
    state: bytes
    start_at: int | None
    on_restart: str | None
    exclusive: bool | None
    traceparent: str | None
    parent: Parent | None = None
    budget: Budget | None = None
    """What it may use, in place of what its definition says; None for that."""


class Lease(msgspec.Struct, frozen=True):
    """Lease one queued step to a claim."""

    ordinal: int
    index: int
    attempt_id: str
    span_id: str
    principal: str
    worker: str
    instance: str


class Renew(msgspec.Struct, frozen=True):
    """A claim was sent again: renew this lease as by a heartbeat, if it is alive."""

    attempt_id: str


class GiveBack(msgspec.Struct, frozen=True):
    """A claim's answer could not be delivered: take the lease back unspent, unless a call has named it since."""

    attempt_id: str


class Heartbeat(msgspec.Struct, frozen=True):
    """The holder is at work."""

    attempt_id: str
    principal: str
    fence: int
    started: bool
    reported: Reported


class Complete(msgspec.Struct, frozen=True):
    """The holder's body succeeded."""

    attempt_id: str
    principal: str
    fence: int
    output: bytes
    state: dict[str, msgspec.Raw]
    digest: str
    reported: Reported
    jitter: int
    """Thousandths, 800 to 1200: the jitter of a retry, should one follow."""


class Fail(msgspec.Struct, frozen=True):
    """The holder's body failed."""

    attempt_id: str
    principal: str
    fence: int
    class_: str
    message: str
    details: bytes | None
    effect: Literal["none", "applied", "unknown", "absent"] | None
    retry_in_ms: int | None
    retry_at: int | None
    """An HTTP date, as milliseconds since the epoch."""
    digest: str
    reported: Reported
    jitter: int


class AttemptDue(msgspec.Struct, frozen=True):
    """The sweeper found an attempt whose lease, take-back or time-out is due."""

    attempt_id: str
    jitter: int


class StepDue(msgspec.Struct, frozen=True):
    """The sweeper found a step whose retry or stand in the queue is due."""

    ordinal: int
    index: int


class ExecutionDue(msgspec.Struct, frozen=True):
    """The sweeper found an execution whose start or time-out is due."""


class Cancel(msgspec.Struct, frozen=True):
    """Somebody wants the execution to end; without an actor it is its parent, which is ending."""

    actor: Actor | None
    reason: str | None
    force: bool


class Pause(msgspec.Struct, frozen=True):
    """Hand out nothing more."""

    actor: Actor


class Resume(msgspec.Struct, frozen=True):
    """End a pause, and change the bounds of the budget that are given."""

    actor: Actor
    nano: int | None | UnsetType = UNSET
    """None: without a bound."""
    tokens: int | None | UnsetType = UNSET


class Signal(msgspec.Struct, frozen=True):
    """Somebody, or an event, hands a payload to a wait of this name."""

    actor: Actor
    name: str
    payload: bytes
    source: str | None = None
    """The event that it comes by, for an execution to take it once."""


class Resolve(msgspec.Struct, frozen=True):
    """An operator says what becomes of an execution that needs reconciliation."""

    actor: Actor
    resolution_id: str
    key: str
    """The call's ``Idempotency-Key``: one command by one operator, for ever."""
    digest: str
    body: bytes
    """The call's body, for the ledger; ``digest`` is of its canonical form."""
    resolution: ResumeWith | Close
    reference: str
    reason: str
    expected_revision: int | None


class Recover(msgspec.Struct, frozen=True):
    """A daemon started alone and judges what it found open."""

    jitter: int


class ChildBegun(msgspec.Struct, frozen=True):
    """To a parent: the child that a step waits for has been started, on this version."""

    ordinal: int
    index: int
    child_id: str
    workflow: str
    version: str


class ChildRefused(msgspec.Struct, frozen=True):
    """To a parent: the child that a step waits for can't be started, and why."""

    ordinal: int
    index: int
    child_id: str
    message: str


class ChildNews(msgspec.Struct, frozen=True):
    """To a parent: how the child stands after its event ``seq``."""

    step: str
    index: int
    child_id: str
    seq: int
    status: str
    at: int
    output: bytes | None
    """Of a completed one."""
    error: bytes | None
    """``{class, message, step, cause}``."""
    writes: bool
    """It has ended, and a write stands in it or below."""
    usage_seq: int = 0
    """Counts the changes of ``usage``."""
    usage: Spent = NOTHING
    """What it has used, with its own children."""


class ErrandDone(msgspec.Struct, frozen=True):
    """To a parent: what a step had to tell its child was told."""

    ordinal: int
    index: int
    child_id: str
    errand: str


class NewsTaken(msgspec.Struct, frozen=True):
    """To a child: its parent has heard how it stood after its event ``seq``, and after this change of its usage."""

    seq: int
    usage_seq: int = 0


Command: TypeAlias = (
    Lease
    | Renew
    | GiveBack
    | Heartbeat
    | Complete
    | Fail
    | AttemptDue
    | StepDue
    | ExecutionDue
    | Cancel
    | Pause
    | Resume
    | Signal
    | Resolve
    | Recover
    | ChildBegun
    | ChildRefused
    | ChildNews
    | ErrandDone
    | NewsTaken
    | Landing
)


# -- answers ------------------------------------------------------------------------------------------------------


class NotFound(msgspec.Struct, frozen=True):
    """There is no such thing, or it is somebody else's."""


class InvalidInput(msgspec.Struct, frozen=True):
    """A start's input, or a signal's payload, doesn't fit: ``(JSON Pointer into the request, message)`` each."""

    faults: tuple[tuple[str, str], ...]


class Done(msgspec.Struct, frozen=True):
    """The command was carried out (or had nothing to do); ``status`` is the execution's afterwards."""

    status: str


class Refused(msgspec.Struct, frozen=True):
    """A worker call refused with one of the four reasons."""

    reason: Literal["already_settled", "execution_ended", "lease_lost", "lease_expired"]
    execution_id: str
    execution_status: str
    settled_outcome: str | None = None
    settled_at: int | None = None
    reclaim_ms: int | None = None
    step: str | None = None
    """With ``attempt`` and ``traceparent``: what was refused, for the log."""
    attempt: Attempt | None = None
    traceparent: str | None = None


class Conflict(msgspec.Struct, frozen=True):
    """A call of the management API that doesn't fit how the execution stands. ``code`` is the problem's; ``why`` says
    what the status alone doesn't tell.
    """

    code: Literal["already_ended", "not_signalable", "not_pausable", "not_resolvable", "occupied"]
    status: str
    execution_id: str
    why: str | None = None


class TooMany(msgspec.Struct, frozen=True):
    """A signal that nobody waits for yet, where as many are kept already as may be."""

    kept: int


class Alive(msgspec.Struct, frozen=True):
    """A heartbeat's answer. ``cancel`` is the reason when the body is asked to stop."""

    expires_at: int
    lease_ms: int
    cancel: str | None


class Told(msgspec.Struct, frozen=True):
    """What a settling call is answered; kept with the attempt for an outcome that is said again."""

    execution_id: str
    execution_status: str
    late: bool
    replayed: bool = False
    disposition: str | None = None
    """Of a fail."""
    next_attempt_at: int | None = None
    settled_at: int = 0
    faults: tuple[tuple[str, str], ...] = ()
    """Of a complete that settled as ``invalid_output``: JSON Pointer into the call and message each; it is 422."""


class Granted(msgspec.Struct, frozen=True):
    """A lease, with the rows from which its wire form is made; ``payloads`` holds input, state, outputs, previous."""

    execution: Execution
    step: Step
    attempt: Attempt
    payloads: dict[str, bytes | None]
    max_attempts: int


Answer: TypeAlias = (
    NotFound | Done | Refused | Conflict | InvalidInput | TooMany | Alive | Told | Granted | Judgement | Landed | None
)


def error_json(class_: str, message: str, details: bytes | None = None, **more: Any) -> bytes:
    """``{class, message, details}`` as it stands in rows and views, with further members where given."""
    raw = msgspec.Raw(details) if details is not None else None
    return msgspec.json.encode({"class": class_, "message": message, "details": raw, **more})
