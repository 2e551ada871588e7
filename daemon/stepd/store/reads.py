"""What is read from a store, and by what: the scope of a caller, filters, and the rows that come back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from stepd.engine.model import Attempt, Execution, Signal, Step


class Scope(msgspec.Struct, frozen=True):
    """What the caller may see: tenants (None: all, also null), and only what this principal started."""

    tenants: tuple[str, ...] | None = None
    started_by: str | None = None


class ExecutionFilter(msgspec.Struct, frozen=True):
    """The filters of the list, all optional; times in ms. ``before`` is the cursor: ``(created_at, id)`` exclusive."""

    workflow: str | None = None
    version: str | None = None
    statuses: tuple[str, ...] = ()
    correlation: str | None = None
    tenant: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    created_after: int | None = None
    created_before: int | None = None
    oldest_first: bool = False
    cursor: tuple[int, str] | None = None
    ids: tuple[str, ...] | None = None
    """Only these (used for ``blocked``)."""


class ExecutionRows(msgspec.Struct):
    """All that a view is made of. ``attempts`` and payloads beyond input, state, output and outcome on request."""

    execution: Execution
    steps: list[Step]
    attempts: list[Attempt]
    payloads: dict[str, bytes]
    signals: list[Signal] = []
    """Of an ended execution those that no wait took; their payloads as far as ``signals.PAYLOADS_BYTES`` goes."""
    standing_items: list[tuple[int, int]] = []
    """Items whose write stands: ordinal and index."""


class ItemsPage(msgspec.Struct, frozen=True):
    """Which items of which step."""

    ordinal: int
    after: int
    """Those with a greater index; -1 for the first page."""
    limit: int


class VersionRow(msgspec.Struct):
    """One registered version of a workflow."""

    workflow: str
    version: str
    digest: str
    definition: bytes
    registered_at: int
    number: int
    """Order of registration over the store."""


class WorkflowRow(msgspec.Struct):
    """A workflow with its versions (oldest first), the current one, and how many open executions stand on each."""

    name: str
    current: str
    versions: list[VersionRow]
    open_executions: dict[str, int]


class Due(msgspec.Struct, frozen=True):
    """Something the sweeper must look at: an attempt, a step, or the execution itself."""

    execution_id: str
    attempt_id: str | None = None
    ordinal: int | None = None
    index: int | None = None
    at: int = 0
    """Since when it is due (ms)."""


class Errand(msgspec.Struct, frozen=True):
    """What is to be carried: from a step to its child (``start``, ``cancel``, ``force``), or a child's news."""

    execution_id: str
    """Whose step, or which child."""
    kind: Literal["start", "cancel", "force", "tell"]
    ordinal: int = 0
    index: int = 0
    child_id: str = ""


class QueueLine(msgspec.Struct, frozen=True):
    """How many steps of one kind stand claimable, and since when the oldest does."""

    workflow: str
    version: str
    step: str
    tenant: str | None
    count: int
    oldest_at: int


SpanKey: TypeAlias = tuple[str, str]
"""Attempt and span: the empty text for an execution's own, and for an attempt itself."""


class SpanLine(msgspec.Struct, frozen=True):
    """A line of a trace: an attempt (``span_id`` is empty then), or a span that is kept."""

    attempt_id: str
    """Of what is kept under no attempt: whose it is, see ``engine.pieces``."""
    span_id: str
    attempt: Attempt | None
    body: bytes = b""

    @property
    def key(self) -> SpanKey:
        """Where it stands in the order."""
        return self.attempt_id, self.span_id


def span_lines(
    attempts: Sequence[Attempt], known: Sequence[Attempt], kept: Iterable[tuple[str, str, bytes]], limit: int
) -> list[SpanLine]:
    """Puts attempts and kept spans in one order. ``known``: the attempt that the page before ended with."""
    by_id = {attempt.id: attempt for attempt in (*attempts, *known)}
    lines = [SpanLine(attempt.id, "", attempt) for attempt in attempts]
    lines += [SpanLine(attempt_id, span_id, by_id.get(attempt_id), body) for attempt_id, span_id, body in kept]
    return sorted(lines, key=lambda line: line.key)[:limit]


class Traced(msgspec.Struct, frozen=True):
    """What is known of some spans and traces."""

    attempts: dict[str, Attempt]
    """By id: those that bear one of the span ids, and those under which one of them is kept."""
    kept: list[tuple[str, str, str]]
    """Execution, attempt (or whose it is, where under none) and id of each kept span with one of the ids."""
    executions: dict[str, Execution]
    """By id, those in scope: of these attempts and kept spans, and those below."""
    of_trace: dict[str, list[str]]
    """Of each trace id the execution whose own trace it is, else up to two that somebody started in it: not one of
    another's children."""


BEHIND: Final = "~"
"""Follows all that keys are made of."""
TRACE_LOOK: Final = 100
"""So many executions of a caller's trace are looked through for those that are no children."""


def own_execution(trace_id: str) -> str:
    """The id of the execution whose own trace this is, if there is one."""
    return f"{trace_id[:8]}-{trace_id[8:12]}-{trace_id[12:16]}-{trace_id[16:20]}-{trace_id[20:]}"
