"""What one decision sees of an execution, and what it has changed so far."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from stepd.engine.definition import Compiled
from stepd.engine.model import (
    GRAPH_STATUS,
    NO_INDEX,
    Attempt,
    Audit,
    Event,
    Execution,
    Ledger,
    Parked,
    Signal,
    SpanRow,
    Step,
    output_name,
)
from stepd.engine.needs import Loaded, Missing, Need, StepKey
from stepd.engine.spending import UsageRow

if TYPE_CHECKING:
    from stepd.engine.pieces import Told

__all__ = ["EMPTY", "PARKABLE", "Changes", "Loaded", "Missing", "Need", "Settings", "StepKey", "Work"]

EMPTY = b"{}"
PARKABLE = frozenset({"pending", "queued", "retry_wait", "waiting"})
"""Statuses of a row without an attempt that has not ended; ``pending`` are items that wait for their turn."""


class Settings(msgspec.Struct, frozen=True):
    """The settings of the daemon that the rules depend on. All durations in milliseconds, all sizes in bytes."""

    lease_ms: int = 30_000
    heartbeat_ms: int = 10_000
    reclaim_ms: int = 15_000
    retention_ms: int = 604_800_000
    usage_retention_ms: int = 31_536_000_000
    input_bytes: int = 262_144
    output_bytes: int = 262_144
    state_bytes: int = 262_144
    ancestors_bytes: int = 1_048_576
    foreach_outputs_bytes: int = 16_777_216
    items_at_once: int = 200
    """Items and rounds made in one decision: about 20 ms."""
    piece_ms: int = 900_000
    """How long one piece of a trace's own spans may be."""


class Changes:
    """What a decision writes, all in one transaction: first the bulk changes in order, then the rows."""

    __slots__ = (
        "attempts",
        "audit",
        "bulk",
        "created",
        "dropped_spans",
        "events",
        "execution",
        "ledger",
        "payloads",
        "pieces",
        "ready",
        "signals",
        "spans",
        "steps",
        "sweep",
        "touched",
        "usage",
    )

    def __init__(self, execution: Execution) -> None:
        self.execution = execution
        self.touched = False
        """The execution's row has changed, though nothing else has."""
        self.created = False
        self.steps: dict[StepKey, Step] = {}
        self.attempts: dict[str, Attempt] = {}
        self.payloads: dict[str, bytes] = {}
        self.signals: dict[int, Signal] = {}
        """By number: received, or taken."""
        self.events: list[Event] = []
        self.audit: list[Audit] = []
        self.spans: list[SpanRow] = []
        self.usage: dict[str, list[UsageRow]] = {}
        """By attempt: what takes the place of its lines in the log of usage."""
        self.dropped_spans: list[tuple[str, str]] = []
        """By what they were kept under, and their ids."""
        self.ledger: list[Ledger] = []
        self.pieces: list[Told] = []
        """What of the trace is over; for those who follow traces, after the commit."""
        self.bulk: list[tuple[Literal["park", "cancel_held", "drop"], int, int]] = []
        """``("park", from, to)`` moves every parkable row without a lease; ``("cancel_held", …)`` ends held rows;
        ``("drop", ordinal, index)`` takes one row away.
        """
        self.ready = False
        """Whether a step became claimable."""
        self.sweep: int | None = None
        """When the sweeper is to look, where rows that are not changed here may want it."""

    @property
    def empty(self) -> bool:
        """Whether nothing at all is to be written."""
        return not (
            self.events
            or self.steps
            or self.attempts
            or self.payloads
            or self.signals
            or self.spans
            or self.dropped_spans
            or self.audit
            or self.bulk
            or self.touched
        )

    @property
    def errands(self) -> bool:
        """Whether something is to be carried between the execution and its parent or its children."""
        return self.execution.news_at is not None or any(row.errand is not None for row in self.steps.values())

    def timer(self) -> int | None:
        """The earliest time (ms) at which one of the changed rows wants the sweeper."""
        times = [] if self.sweep is None else [self.sweep]
        times += [row.timer_at for row in self.steps.values() if row.timer_at is not None]
        times += [row.next_at for row in self.attempts.values() if row.next_at is not None]
        if self.execution.due_at is not None:
            times.append(self.execution.due_at)
        return min(times, default=None)


class Work:
    """One decision at work: rows are copied on first access and written back when named by ``change_*``."""

    __slots__ = (
        "changes",
        "definition",
        "dropped",
        "execution",
        "loaded",
        "now",
        "renewed",
        "revised",
        "settings",
        "updates",
    )

    def __init__(self, definition: Compiled, settings: Settings, now: int, loaded: Loaded) -> None:
        self.definition = definition
        self.settings = settings
        self.now = now
        self.loaded = loaded
        self.execution = copy.copy(loaded.execution)
        self.changes = Changes(self.execution)
        self.revised = False
        self.updates: list[tuple[str, Any]] = []
        """What a finish has written to the state, for those who ask."""
        self.dropped: set[StepKey] = set()
        self.renewed: set[StepKey] = set()
        """Rows that will be evaluated anew, and stay."""

    # -- rows ---------------------------------------------------------------------------------------------------

    def step(self, ordinal: int, index: int = NO_INDEX) -> Step | None:
        """The step's row, or None while it is pending. Raises Missing."""
        key = (ordinal, index)
        changed = self.changes.steps.get(key)
        if changed is not None:
            return changed
        if key in self.dropped:
            return None
        if key not in self.loaded.steps:
            if self.loaded.rows is not None or (self.loaded.own_rows is not None and index == NO_INDEX):
                return None
            raise Missing(Need("step", "", ordinal, index))
        return self.loaded.steps[key]

    def some_steps(self, ordinals: Iterable[int]) -> list[Step]:
        """The rows of these steps, without pending ones; asks for all that lack at once. Raises Missing."""
        keys = [(ordinal, NO_INDEX) for ordinal in ordinals]
        if self.loaded.rows is None:
            known = self.loaded.steps.keys() | self.changes.steps.keys()
            missing = [Need("step", "", *key) for key in keys if key not in known]
            if missing:
                raise Missing(*missing)
        return [row for key in keys if (row := self.step(*key)) is not None]

    def change_step(self, ordinal: int, index: int = NO_INDEX) -> Step:
        """The step's row, to be changed. Raises Missing; KeyError where there is none."""
        row = self.step(ordinal, index)
        if row is None:
            raise KeyError((ordinal, index))
        key = (ordinal, index)
        if key not in self.changes.steps:
            row = self.changes.steps[key] = copy.copy(row)
        return row

    def add_step(self, row: Step) -> None:
        """A row for a step that is evaluated now."""
        self.changes.steps[(row.ordinal, row.index)] = row

    def drop_step(self, row: Step) -> None:
        """Takes a row away: its step is pending again, and will be evaluated anew."""
        self.changes.bulk.append(("drop", row.ordinal, row.index))
        self.changes.steps.pop((row.ordinal, row.index), None)
        self.dropped.add((row.ordinal, row.index))

    def attempt(self, attempt_id: str) -> Attempt | None:
        """The attempt, or None where there is none. Raises Missing."""
        changed = self.changes.attempts.get(attempt_id)
        if changed is not None:
            return changed
        if attempt_id not in self.loaded.attempts:
            raise Missing(Need("attempt", attempt_id))
        return self.loaded.attempts[attempt_id]

    def change_attempt(self, attempt_id: str) -> Attempt:
        """The attempt, to be changed. Raises Missing; KeyError where there is none."""
        row = self.attempt(attempt_id)
        if row is None:
            raise KeyError(attempt_id)
        if attempt_id not in self.changes.attempts:
            row = self.changes.attempts[attempt_id] = copy.copy(row)
        return row

    def payload(self, name: str) -> bytes | None:
        """A payload's bytes, or None where there is none. Raises Missing."""
        changed = self.changes.payloads.get(name)
        if changed is not None:
            return changed
        if name not in self.loaded.payloads:
            raise Missing(Need("payload", name))
        return self.loaded.payloads[name]

    def kept_signals(self, name: str) -> list[Signal]:
        """The signals of this name that no wait has taken, in the order they came, without payloads. Raises Missing."""
        if name not in self.loaded.kept:
            raise Missing(Need("kept", name))
        return [signal for signal in self.loaded.kept[name] if signal.number not in self.changes.signals]

    def take_signals(self, numbers: Sequence[int]) -> list[Signal]:
        """These kept signals, whole and to be changed; asks for all that lack at once. Raises Missing."""
        missing = [Need("signal", "", number) for number in numbers if number not in self.loaded.signals]
        if missing:
            raise Missing(*missing)
        for number in numbers:
            self.changes.signals[number] = copy.copy(self.loaded.signals[number])
        return [self.changes.signals[number] for number in numbers]

    def has_signal_of(self, source: str) -> bool:
        """Whether a signal of this event has been received. Raises Missing."""
        if source not in self.loaded.sources:
            raise Missing(Need("source", source))
        return self.loaded.sources[source]

    def unsettled(self) -> list[Step]:
        """Rows with an attempt in flight, or open with an effect that isn't ``none``, to be changed. Raises Missing."""
        if self.loaded.unsettled is None:
            raise Missing(Need("unsettled"))
        keys = dict.fromkeys(self.loaded.unsettled) | dict.fromkeys(self.changes.steps)
        rows = [self.step(*key) for key in sorted(keys)]
        return [
            self.change_step(row.ordinal, row.index)
            for row in rows
            if row is not None and (row.lease_id is not None or (row.status in PARKABLE and row.effect != "none"))
        ]

    def rows(self) -> list[Step]:
        """Every step row of the execution, to look at, also those of items. Raises Missing."""
        if self.loaded.rows is None:
            raise Missing(Need("rows"))
        keys = dict.fromkeys(self.loaded.rows) | dict.fromkeys(self.changes.steps)
        found = [self.step(*key) for key in sorted(keys)]
        return [row for row in found if row is not None]

    def own_rows(self) -> list[Step]:
        """Every step's own row, to look at; none of an item. Raises Missing."""
        known = self.loaded.rows if self.loaded.own_rows is None else self.loaded.own_rows
        if known is None:
            raise Missing(Need("own_rows"))
        keys = {key for key in (*known, *self.changes.steps) if key[1] == NO_INDEX}
        found = [self.step(*key) for key in sorted(keys)]
        return [row for row in found if row is not None]

    def items(self, ordinal: int, count: int) -> list[tuple[Step | None, bytes | None]]:
        """The rows of a step's first ``count`` items with their outputs, to look at. Raises Missing."""
        keys = [(ordinal, index) for index in range(count)]
        if ordinal not in self.loaded.items and not all(key in self.changes.steps for key in keys):
            raise Missing(Need("items", "", ordinal))
        return [(self.step(*key), self.payload(output_name(*key))) for key in keys]

    def attempts(self) -> list[Attempt]:
        """Every attempt of the execution, to look at; by id. Raises Missing."""
        if self.loaded.all_attempts is None:
            raise Missing(Need("attempts"))
        found = [self.attempt(attempt_id) for attempt_id in self.loaded.all_attempts]
        return [attempt for attempt in found if attempt is not None]

    def resolution(self, key: str) -> Ledger | None:
        """The resolution that was made with this key, if one was. Raises Missing."""
        if key not in self.loaded.ledger:
            raise Missing(Need("ledger", key))
        return self.loaded.ledger[key]

    def latest_success(self, ordinals: Sequence[int]) -> Step | None:
        """Of these steps, the row whose write succeeded last of those that stand, to look at. Raises Missing."""
        wanted, name = frozenset(ordinals), str(list(ordinals))
        best = max(
            (row for row in self.changes.steps.values() if row.standing_seq is not None and row.ordinal in wanted),
            key=_standing_seq,
            default=None,
        )
        below = self.execution.seq + 1
        while True:
            need = Need("success", name, 0, below)
            if need not in self.loaded.successes:
                raise Missing(need)
            key = self.loaded.successes[need]
            row = None if key is None else self.loaded.steps[key]
            if key is None or row is None:
                return best
            if key not in self.changes.steps and key not in self.dropped:
                return row if best is None or _standing_seq(row) > _standing_seq(best) else best
            below = _standing_seq(row)

    # -- standing -----------------------------------------------------------------------------------------------

    def mark(self, ordinal: int) -> str:
        """The step's character in the graph."""
        return self.execution.graph[ordinal]

    def set_mark(self, ordinal: int, mark: str) -> None:
        """Sets the step's character in the graph."""
        graph = self.execution.graph
        self.execution.graph = f"{graph[:ordinal]}{mark}{graph[ordinal + 1 :]}"

    def step_status(self, step_id: str) -> str:
        """The status of the step with this id, as the graph has it."""
        return GRAPH_STATUS[self.execution.graph[self.definition.by_id[step_id]]]

    def park(self, before: Parked, after: Parked) -> None:
        """Moves every open row without a lease from one kind of parking to another, also those changed here."""
        self.changes.bulk.append(("park", int(before), int(after)))
        for row in self.changes.steps.values():
            if row.parked == before and row.lease_id is None and row.status in PARKABLE:
                row.parked = int(after)

    def cancel_held(self) -> None:
        """Makes every held row ``cancelled``, also those changed here."""
        self.changes.bulk.append(("cancel_held", 0, 0))
        for row in self.changes.steps.values():
            if row.parked == Parked.HELD and row.lease_id is None and row.status in PARKABLE:
                row.status, row.parked, row.timer_at, row.due_at = "cancelled", int(Parked.FREE), None, None

    def emit(
        self,
        type_: str,
        step: str | None = None,
        index: int = NO_INDEX,
        attempt: int | None = None,
        worker: str | None = None,
        data: dict[str, object] | None = None,
    ) -> None:
        """Adds the next event of the journal."""
        self.execution.seq += 1
        self.changes.events.append(
            Event(
                seq=self.execution.seq,
                at=self.now,
                type=type_,
                step=step,
                index=None if index == NO_INDEX else index,
                attempt=attempt,
                worker=worker,
                data=msgspec.json.encode(data) if data else EMPTY,
            )
        )


def _standing_seq(row: Step) -> int:
    return row.standing_seq or 0
