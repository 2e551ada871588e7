"""The rows of one execution, as the stores keep them and the engine changes them.

Field order is column order: a store reads a row with ``Execution(*row)`` and writes it with ``structs.astuple``.
Times are integer milliseconds since the epoch, UTC; JSON is kept as the bytes that came.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

NO_INDEX = -1
"""``index`` of a step that isn't repeated."""


class Parked(IntEnum):
    """Why no claim and no timer touches a step row. Claims and timers take rows with ``FREE`` only."""

    FREE = 0
    PAUSED = 1
    HELD = 2
    ITEMS = 3
    """The row of a step that has items or rounds: those are claimed, each in a row of its own."""


class Execution(msgspec.Struct):
    """One execution: its standing, its graph and its counters; payloads stand elsewhere."""

    id: str
    workflow: str
    version: str
    tenant: str | None
    correlation: str | None
    labels: bytes
    principal: str
    priority: int
    traceparent: str | None
    on_restart: str
    exclusive_key: str | None
    """Set while an exclusive execution is open; unique over the store."""
    status: str
    direction: str | None
    """``forward`` or ``cancel`` from the moment the ending began, ``compensate`` while compensations run."""
    graph: str
    """One character a step, by ordinal: see ``GRAPH_STATUS``."""
    revision: int
    seq: int
    """The last event's number."""
    active: int
    """Step rows that are queued, leased or running and not held."""
    flight: int
    """Attempts that have not ended."""
    uncertain: int
    cancel_requested: bool
    cancel_reason: str | None
    forced: bool
    mismatch: bool
    """A checkpoint did not match: the ending stops in ``reconciliation_required``."""
    error: bytes | None
    """``{class, message, step, cause}``."""
    input_hash: str
    created_at: int
    start_at: int | None
    started_at: int | None
    ended_at: int | None
    deadline_at: int | None
    """When the execution's time-out acts."""
    due_at: int | None
    """When the sweeper must look at this execution: its start, or its time-out."""
    remove_at: int | None
    """When retention takes it; set at its end."""
    input_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    output_tokens: int
    reasoning_tokens: int
    parent_id: str | None = None
    """The execution whose ``workflow`` step waits for this one, with that step's id and index."""
    parent_step: str | None = None
    parent_index: int | None = None
    depth: int = 0
    """How many executions stand above it."""
    children: int = 0
    """Children that its steps wait for."""
    blocked_child: str | None = None
    """One of its children that needs reconciliation."""
    news_at: int | None = None
    """Since when there is something that its parent has to be told."""
    standing: str = ""
    """One character a step, by ordinal: ``w`` where a write of it succeeded and was not undone. Empty where none has
    been noted: see ``standing.stands``."""
    leave_standing: bool = False
    """An operator lets writes without a compensation stand."""
    signals: int = 0
    """Signals received so far: the last one's number."""
    signals_kept: int = 0
    """Signals that no wait has taken yet."""
    leaves_writes: bool = False
    """It has ended, and a write of it or of its children stands. Kept for its parent."""
    cost_nano: int = 0
    """What its own attempts cost, in nano-units (10⁻⁹) of ``currency``, as far as their tokens have a price."""
    currency: str | None = None
    unpriced_tokens: int = 0
    """Tokens of its own attempts that had no price."""
    below: bytes | None = None
    """What its children have used, all the way down, as JSON; None where that is nothing."""
    budget_nano: int | None = None
    """What it may cost with its children, in nano-units."""
    budget_tokens: int | None = None
    pause_reason: str | None = None
    """Why it is paused, where no operator asked for it."""
    usage_seq: int = 0
    """Of a child: counts the changes of what it has used, so that its parent knows older news from newer."""
    piece_at: int | None = None
    """When the piece of its trace began that is not over; None while that is the first."""
    piece_before: int | None = None
    """When the piece before that one began."""
    paused_at: int | None = None
    """Since when it is paused."""


class Step(msgspec.Struct):
    """One step that has been evaluated (a pending one has no row), or one item of a repeated step."""

    execution_id: str
    ordinal: int
    index: int
    """``NO_INDEX`` unless the step is repeated."""
    step: str
    workflow: str
    version: str
    tenant: str | None
    status: str
    parked: int
    priority: int
    due_at: int | None
    """Since when it is claimable (``queued``), when its next attempt is due (``retry_wait``), when a sleep ends."""
    execution_created_at: int
    timer_at: int | None
    """When the sweeper must look at this row: a retry, a sleep or a wait's time-out that falls due, or a stand in the
    queue that ends."""
    fence: int
    spent: int
    """Attempts spent since its last fresh budget."""
    last_attempt: int
    """The number of the last attempt that began, 0 for none."""
    interruptions: int
    """Interrupted attempts in a row."""
    effect: str
    """The worst that any attempt since its last fresh budget left: ``none``, ``unknown``, ``applied``."""
    caught: bool
    lease_id: str | None
    """The attempt in flight."""
    own_input: bool
    """Whether its input is stored beside it; else it is the execution's."""
    input_hash: str | None
    declared_effect: str
    idempotency_key: str
    checkpoint: str | None
    """Written when it succeeds: see ``checkpoint_of``."""
    error: bytes | None
    shunned: bytes | None
    """Instances that said ``unservable``: ``[[principal, instance, until], …]``."""
    has_previous: bool
    queued_at: int | None
    """Since when it stands in the queue; of a wait, since when it is armed."""
    child_id: str | None = None
    """The execution that the step waits for, or has waited for."""
    child_open: bool = False
    """The child is to be started, or has not ended as far as is known here."""
    child_seq: int = 0
    """The child's event up to which it is known here."""
    child_blocked_at: int | None = None
    """Since when the child has needed reconciliation."""
    errand: str | None = None
    """What is to be carried to the child: ``start``, ``cancel`` or ``force``."""
    standing_seq: int | None = None
    """The event at which its write succeeded; None where none stands."""
    fresh_fence: int = 0
    """The fence at its last fresh budget: attempts up to it left nothing behind that still counts."""
    items: bytes | None = None
    """Of a step that has items or rounds: how far they are, a tally as JSON."""
    child_usage: bytes | None = None
    """What its child has used, as far as is known here: the child's ``usage_seq`` and the sums, as JSON."""


class Attempt(msgspec.Struct):
    """One attempt, which is one lease."""

    id: str
    execution_id: str
    ordinal: int
    index: int
    number: int
    fence: int
    status: str
    begun: bool
    """A heartbeat with ``started`` got 200."""
    named: bool
    """A later call named this lease, or was answered with it."""
    principal: str
    worker: str
    instance: str
    lease_ms: int
    reclaim_ms: int
    leased_at: int
    expires_at: int
    reclaim_at: int
    timeout_at: int | None
    next_at: int | None
    """When the sweeper must look at this attempt; none once it has ended."""
    ended_at: int | None
    ended_by: str | None
    """``holder``, ``ending`` or ``daemon``."""
    effect: str
    error: bytes | None
    outcome: str | None
    """``complete`` or ``fail``, when its holder settled it."""
    outcome_digest: str | None
    answer: bytes | None
    """What the settling call was answered, for an outcome that is said again."""
    stale: bool
    """A ``stale_outcome`` is kept with it."""
    has_progress: bool
    usage: bytes | None
    usage_given: bool
    """The usage was given outright, and replaces the sum over its spans."""
    span_id: str
    piece_at: int | None = None
    """When the piece of its trace began that is not over; None while that is the first."""
    piece_before: int | None = None
    """When the piece before that one began."""


class Event(msgspec.Struct):
    """One line of the journal."""

    seq: int
    at: int
    type: str
    step: str | None
    index: int | None
    attempt: int | None
    worker: str | None
    data: bytes


class Signal(msgspec.Struct):
    """A signal that an execution has accepted."""

    execution_id: str
    number: int
    """Counts the execution's signals from 1, in the order they came."""
    name: str
    source: str | None
    """Of one that came by an event: which; unique in an execution."""
    received_at: int
    taken_by: int | None
    """Ordinal of the wait that it resumed; None while it is kept."""
    fits: str
    """Ordinals of the waits that its payload fits, of those that were not over when it came: `` 3 5 ``."""
    payload: bytes
    """Empty once it is taken: it is the wait's output then."""


class Audit(msgspec.Struct):
    """Who did what to what, from where, with which outcome; the store numbers the rows."""

    at: int
    principal: str
    key_id: str | None
    action: str
    object: str
    tenant: str | None
    remote: str | None
    outcome: str


class Ledger(msgspec.Struct):
    """One resolution: what an operator said of an execution, and what he was answered. Never changed, never removed."""

    id: str
    execution_id: str
    at: int
    operator: str
    """The principal."""
    key: str
    """The call's ``Idempotency-Key``."""
    command_hash: str
    command: bytes
    answer: bytes
    tenant: str | None


class SpanRow(msgspec.Struct):
    """A span a worker sent for an attempt, or a piece of the trace's own spans."""

    attempt_id: str
    span_id: str
    body: bytes
    fresh: bool = True
    """It is to be told to those who follow traces: not sent before, and not told by others already."""


class Idempotency(msgspec.Struct):
    """The first answer to a call that bore an ``Idempotency-Key``."""

    principal: str
    target: str
    """Method and path."""
    key: str
    body_hash: str
    status: int
    location: str | None
    body: bytes
    created_at: int


GRAPH_STATUS = {
    "p": "pending",
    "o": "pending",
    "q": "queued",
    "l": "leased",
    "r": "running",
    "w": "retry_wait",
    "W": "waiting",
    "s": "succeeded",
    "C": "succeeded",
    "k": "skipped",
    "f": "failed",
    "c": "cancelled",
    "u": "uncertain",
}
"""The graph's characters; ``C`` is a step whose failure was caught, ``o`` a compensation that was not called yet."""

CAUGHT = "C"
OUTSIDE = "o"
STATUS_GRAPH = {status: mark for mark, status in GRAPH_STATUS.items() if mark not in (CAUGHT, OUTSIDE)}

OPEN_MARKS = frozenset("pqlrwW")
DONE_MARKS = frozenset("sCk")
GRAPH_DONE = "sCko"
"""What is left in the graph when nothing has to be done any more."""
ENDED = frozenset({"completed", "failed", "cancelled"})
ENDING = frozenset({"cancelling", "failing"})
GOING = frozenset({"queued", "running", "waiting"})
IN_FLIGHT = frozenset({"leased", "running", "orphaned"})


def input_name(ordinal: int, index: int) -> str:
    """The payload that holds a step's own input; the list, where it runs once an item."""
    return f"in:{ordinal}:{index}"


def output_name(ordinal: int, index: int) -> str:
    """The payload that holds a step's output, its checkpoint."""
    return f"out:{ordinal}:{index}"


def outputs_span(ordinal: int) -> tuple[str, str]:
    """Between which names, the second excluded, the outputs of a step's items stand: a semicolon follows a colon."""
    return f"out:{ordinal}:", f"out:{ordinal};"


def item_name(ordinal: int, index: int) -> str:
    """The payload that holds an item of a ``foreach`` list, where the step's input is something else."""
    return f"item:{ordinal}:{index}"


def state_name(ordinal: int) -> str:
    """The payload that holds the state as it stood when a ``foreach`` became ready, until all its items are made."""
    return f"state:{ordinal}"


def previous_name(ordinal: int, index: int) -> str:
    """The payload that tells the next attempt of the last one: ``{attempt, progress, error}``."""
    return f"prev:{ordinal}:{index}"


def progress_name(attempt_id: str) -> str:
    """The payload with an attempt's last progress."""
    return f"prog:{attempt_id}"


def stale_name(attempt_id: str) -> str:
    """The payload with an outcome that came too late to count."""
    return f"late:{attempt_id}"


def checkpoint_of(input_hash: str | None, idempotency_key: str, effect: str) -> str:
    """What a step's output was made for: it counts only while this matches the stored step."""
    return f"{input_hash or ''} {effect} {idempotency_key}"
