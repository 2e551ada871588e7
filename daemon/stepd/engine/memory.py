"""One execution whose rows stand in memory, and the machine that runs on them: as on a store, without one."""

from __future__ import annotations

import copy
from typing import assert_never

import msgspec

from stepd.engine import commands as c
from stepd.engine.definition import Compiled
from stepd.engine.machine import begin, decide
from stepd.engine.model import NO_INDEX, Attempt, Event, Execution, Ledger, Parked, Signal, Step, output_name
from stepd.engine.work import PARKABLE, Changes, Loaded, Missing, Need, Settings, StepKey, Work


class Memory:
    """The rows of one execution. ``now`` (ms) is the time of the next command; who holds this moves it."""

    execution: Execution

    def __init__(self, definition: Compiled, settings: Settings, now: int) -> None:
        self.definition = definition
        self.settings = settings
        self.now = now
        self.steps: dict[StepKey, Step] = {}
        self.attempts: dict[str, Attempt] = {}
        self.payloads: dict[str, bytes] = {}
        self.events: list[Event] = []
        self.signals: dict[int, Signal] = {}
        self.ledger: dict[str, Ledger] = {}

    def begin(self, start: c.Start) -> c.InvalidInput | None:
        """Makes the execution; answers why not where its input doesn't fit."""
        work = begin(self.definition, self.settings, start, self.now)
        if isinstance(work, c.InvalidInput):
            return work
        self.apply(work.changes)
        return None

    def think(self, command: c.Command) -> tuple[c.Answer, Work]:
        """What a command would change, on rows that stay as they are."""
        loaded = Loaded(self.execution)
        while True:
            work = Work(self.definition, self.settings, self.now, loaded)
            try:
                return decide(work, command), work
            except Missing as missing:
                for need in missing.needs:
                    self._load(loaded, need)

    def next_due(self) -> c.Command | None:
        """What a sweeper would give now; None where nothing is due."""
        for attempt in self.attempts.values():
            if attempt.next_at is not None and attempt.next_at <= self.now:
                return c.AttemptDue(attempt.id, 1000)
        for row in self.steps.values():
            if row.timer_at is not None and row.timer_at <= self.now and row.parked == Parked.FREE:
                return c.StepDue(row.ordinal, row.index)
        if self.execution.due_at is not None and self.execution.due_at <= self.now:
            return c.ExecutionDue()
        return None

    def claimable(self) -> list[Step]:
        """The rows that a claim may take, in the order in which it would."""
        rows = [row for row in self.steps.values() if row.status == "queued" and row.parked == Parked.FREE]
        return sorted(rows, key=lambda row: (-row.priority, row.due_at or 0, row.ordinal, row.index))

    def apply(self, changes: Changes) -> None:
        """Keeps what a decision has changed."""
        for kind, before, after in changes.bulk:
            if kind == "drop":
                del self.steps[(before, after)]
                continue
            for key, row in self.steps.items():
                self.steps[key] = _bulk(row, kind, before, after)
        self.steps.update(changes.steps)
        self.attempts.update(changes.attempts)
        self.payloads.update(changes.payloads)
        self.signals.update(changes.signals)
        self.events.extend(changes.events)
        self.ledger.update({row.key: row for row in changes.ledger})
        self.execution = changes.execution

    def _load(self, loaded: Loaded, need: Need) -> None:
        match need.kind:
            case "step":
                loaded.steps[(need.ordinal, need.item)] = self.steps.get((need.ordinal, need.item))
            case "attempt":
                loaded.attempts[need.name] = self.attempts.get(need.name)
            case "payload":
                loaded.payloads[need.name] = self.payloads.get(need.name)
            case "rows":
                loaded.rows = list(self.steps)
                loaded.steps.update(self.steps)
            case "own_rows":
                self._load_own_rows(loaded)
            case "items":
                self._load_items(loaded, need.ordinal)
            case "source":
                loaded.sources[need.name] = any(signal.source == need.name for signal in self.signals.values())
            case "kept":
                loaded.kept[need.name] = self._kept(need.name)
            case "signal":
                loaded.signals[need.ordinal] = self.signals[need.ordinal]
            case "attempts":
                loaded.all_attempts = sorted(self.attempts)
                loaded.attempts.update(self.attempts)
            case "ledger":
                loaded.ledger[need.name] = self.ledger.get(need.name)
            case "success":
                self._load_success(loaded, need)
            case "unsettled":
                self._load_unsettled(loaded)
            case _:
                assert_never(need.kind)

    def _load_own_rows(self, loaded: Loaded) -> None:
        own = {key: row for key, row in self.steps.items() if row.index == NO_INDEX}
        loaded.own_rows = list(own)
        loaded.steps.update(own)

    def _load_items(self, loaded: Loaded, ordinal: int) -> None:
        loaded.items.add(ordinal)
        for key, row in self.steps.items():
            if row.ordinal == ordinal and row.index != NO_INDEX:
                loaded.steps[key] = row
                loaded.payloads[output_name(*key)] = self.payloads.get(output_name(*key))

    def _load_unsettled(self, loaded: Loaded) -> None:
        wanted = [
            row for row in self.steps.values() if row.lease_id or (row.status in PARKABLE and row.effect != "none")
        ]
        loaded.unsettled = [(row.ordinal, row.index) for row in wanted]
        loaded.steps.update({(row.ordinal, row.index): row for row in wanted})
        loaded.attempts.update({row.lease_id: self.attempts[row.lease_id] for row in wanted if row.lease_id})

    def _kept(self, name: str) -> list[Signal]:
        kept = [signal for _, signal in sorted(self.signals.items()) if signal.taken_by is None]
        return [msgspec.structs.replace(signal, payload=b"") for signal in kept if signal.name == name]

    def _load_success(self, loaded: Loaded, need: Need) -> None:
        ordinals = msgspec.json.decode(need.name)
        rows = [(row.standing_seq, key) for key, row in self.steps.items() if row.ordinal in ordinals]
        found = [(seq, key) for seq, key in rows if seq is not None and seq < need.item]
        loaded.successes[need] = key = max(found)[1] if found else None
        if key is not None:
            loaded.steps[key] = self.steps[key]


def _bulk(row: Step, kind: str, before: int, after: int) -> Step:
    row = copy.copy(row)
    if row.lease_id is None and row.status in PARKABLE:
        if kind == "park" and row.parked == before:
            row.parked = after
        elif kind == "cancel_held" and row.parked == Parked.HELD:
            row.status, row.parked, row.due_at, row.timer_at = "cancelled", int(Parked.FREE), None, None
    return row
