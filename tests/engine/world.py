"""Drives the state machine by hand: rows in dictionaries, commands one by one, every invariant checked after each."""

from __future__ import annotations

import copy
from typing import Any

import msgspec

from stepd.engine import commands as c
from stepd.engine.definition import Compiled, compile_definition
from stepd.engine.machine import begin, decide
from stepd.engine.model import (
    ENDED,
    GOING,
    GRAPH_STATUS,
    IN_FLIGHT,
    NO_INDEX,
    Attempt,
    Event,
    Execution,
    Ledger,
    Parked,
    Signal,
    Step,
)
from stepd.engine.verdicts import is_write
from stepd.engine.work import Changes, Loaded, Missing, Need, Settings, Work
from stepd_protocol.limits import Limits

ACTOR = c.Actor("tester")
WORKER = "w"
PARKABLE = ("queued", "retry_wait", "waiting")


def compiled(definition: dict[str, Any], name: str = "flow") -> Compiled:
    """A definition compiled as a daemon would; fails the test on faults."""
    result = compile_definition(name, msgspec.json.encode(definition), Limits())
    assert isinstance(result, Compiled), result
    return result


class World:
    """One execution, its rows and its journal."""

    def __init__(self, definition: dict[str, Any], *, now: int = 1_000_000, **start: Any) -> None:
        self._begin(compiled(definition), _start(**start), now)

    @classmethod
    def of(cls, definition: Compiled, start: c.Start, now: int) -> World | c.InvalidInput:
        """The execution that a start makes of a definition, or why it doesn't."""
        world = cls.__new__(cls)
        return world._begin(definition, start, now) or world

    def _begin(self, definition: Compiled, start: c.Start, now: int) -> c.InvalidInput | None:
        self.definition = definition
        self.settings = Settings()
        self.now = now
        self.steps: dict[tuple[int, int], Step] = {}
        self.attempts: dict[str, Attempt] = {}
        self.payloads: dict[str, bytes] = {}
        self.events: list[Event] = []
        self.signals: dict[int, Signal] = {}
        self.ledger: dict[str, Ledger] = {}
        self.leases = 0
        work = begin(self.definition, self.settings, start, now)
        if isinstance(work, c.InvalidInput):
            return work
        self.execution: Execution = work.execution
        self._apply(work.changes)
        return None

    # -- commands ---------------------------------------------------------------------------------------------------

    def run(self, command: c.Command) -> Any:
        """Gives a command, as a store would: loads what is missing, applies what changed, checks everything."""
        loaded = Loaded(self.execution)
        before = (copy.copy(self.execution), dict(self.steps))
        answer, work = self._decide(loaded, command)
        assert (loaded.execution, self.steps) == before, "a decision changed the rows it was given"
        self._apply(work.changes)
        self.check()
        return answer

    def _decide(self, loaded: Loaded, command: c.Command) -> tuple[Any, Work]:
        while True:
            work = Work(self.definition, self.settings, self.now, loaded)
            try:
                return decide(work, command), work
            except Missing as missing:
                for need in missing.needs:
                    self._load(loaded, need)

    def claim(self, step: str | None = None) -> c.Granted | None:
        """Leases the first claimable step (or that one), in a claim's order."""
        rows = [row for row in self.steps.values() if row.status == "queued" and row.parked == Parked.FREE]
        rows = [row for row in rows if step is None or row.step == step]
        rows.sort(key=lambda row: (-row.priority, row.due_at or 0, row.ordinal))
        if not rows:
            return None
        self.leases += 1
        row = rows[0]
        lease = c.Lease(row.ordinal, row.index, f"lease-{self.leases}", f"{self.leases:016x}", "tester", WORKER, WORKER)
        granted = self.run(lease)
        assert granted is None or isinstance(granted, c.Granted)
        return granted

    def heartbeat(self, attempt: Attempt, *, started: bool = False, fence: int | None = None) -> Any:
        fence = attempt.fence if fence is None else fence
        return self.run(c.Heartbeat(attempt.id, attempt.principal, fence, started, c.Reported()))

    def complete(self, attempt: Attempt, output: Any = None, state: dict[str, Any] | None = None, **more: Any) -> Any:
        patch = {key: msgspec.Raw(msgspec.json.encode(value)) for key, value in (state or {}).items()}
        raw = msgspec.json.encode(output)
        digest = repr((output, state))
        fence = more.pop("fence", attempt.fence)
        return self.run(c.Complete(attempt.id, attempt.principal, fence, raw, patch, digest, c.Reported(), 1000))

    def fail(self, attempt: Attempt, class_: str = "retryable", effect: Any = None, **more: Any) -> Any:
        command = c.Fail(
            attempt_id=attempt.id,
            principal=attempt.principal,
            fence=more.get("fence", attempt.fence),
            class_=class_,
            message="it failed",
            details=None,
            effect=effect,
            retry_in_ms=more.get("retry_in_ms"),
            retry_at=more.get("retry_at"),
            digest=repr((class_, effect)),
            reported=c.Reported(),
            jitter=more.get("jitter", 1000),
        )
        return self.run(command)

    def signal(self, name: str, payload: Any = None, *, source: str | None = None) -> Any:
        return self.run(c.Signal(ACTOR, name, msgspec.json.encode(payload), source))

    def pass_time(self, ms: int) -> None:
        """Moves the clock and sweeps until nothing is due."""
        self.now += ms
        while (command := self._next_due()) is not None:
            self.run(command)

    def cancel(self, *, force: bool = False) -> Any:
        return self.run(c.Cancel(ACTOR, "enough", force))

    # -- looking ----------------------------------------------------------------------------------------------------

    def status(self, step: str) -> str:
        """A step's status by the graph."""
        return GRAPH_STATUS[self.execution.graph[self.definition.by_id[step]]]

    def output(self, step: str) -> Any:
        """A step's output."""
        return msgspec.json.decode(self.payloads[f"out:{self.definition.by_id[step]}:{NO_INDEX}"])

    def row(self, step: str) -> Step:
        """A step's row."""
        return self.steps[(self.definition.by_id[step], NO_INDEX)]

    def types(self) -> list[str]:
        """The journal's event types in order."""
        return [event.type for event in self.events]

    def in_flight(self) -> list[Attempt]:
        """The attempts that have not ended."""
        return [attempt for attempt in self.attempts.values() if attempt.status in IN_FLIGHT]

    # -- what must always hold --------------------------------------------------------------------------------------

    def check(self) -> None:
        """The invariants of a reachable state."""
        self._check_journal()
        self._check_counters()
        self._check_leases()
        self._check_writes()
        self._check_signals()
        self._check_movable()

    def _check_journal(self) -> None:
        assert [event.seq for event in self.events] == list(range(1, self.execution.seq + 1)), "a gap in the journal"
        ends = [event.seq for event in self.events if event.type.removeprefix("execution.") in ENDED]
        assert len(ends) <= 1, "two ends"
        assert not ends or ends[0] == self.execution.seq, "something follows the end"
        assert bool(ends) == (self.execution.status in ENDED)

    def _check_counters(self) -> None:
        execution, rows = self.execution, self.steps.values()
        assert execution.flight == len(self.in_flight())
        assert execution.children == sum(row.child_open for row in rows)
        assert execution.uncertain == sum(row.status == "uncertain" for row in rows)
        if execution.direction is None:
            assert execution.active == sum(row.status in ("queued", "leased", "running") for row in rows)
        for row in rows:
            mark = GRAPH_STATUS[execution.graph[row.ordinal]]
            assert row.status == mark, f"{row.step} is {row.status}, the graph says {mark}"

    def _check_leases(self) -> None:
        for row in self.steps.values():
            held = [one for one in self.in_flight() if (one.ordinal, one.index) == (row.ordinal, row.index)]
            assert [one.id for one in held] == ([row.lease_id] if row.lease_id else []), "two attempts at one step"
            won = [one for one in self.attempts.values() if one.status == "succeeded" and one.ordinal == row.ordinal]
            assert len(won) <= 1, "a step succeeded twice"
        for attempt in self.attempts.values():
            fence = self.steps[(attempt.ordinal, attempt.index)].fence
            assert fence > attempt.fence or attempt.ended_by in (None, "holder"), "ended without its holder, not fenced"
            assert (attempt.next_at is not None) == (attempt.status in IN_FLIGHT), "an attempt nobody looks after"

    def _check_writes(self) -> None:
        for row in self.steps.values():
            if is_write(self.definition.steps[row.ordinal]) and row.effect != "none":
                assert row.status not in ("failed", "cancelled"), f"a doubtful write was called {row.status}"

    def _check_signals(self) -> None:
        execution, signals = self.execution, self.signals.values()
        assert sorted(self.signals) == list(range(1, execution.signals + 1))
        kept = [signal for signal in signals if signal.taken_by is None]
        assert execution.signals_kept == len(kept)
        taken = [signal.taken_by for signal in signals if signal.taken_by is not None]
        assert len(taken) == len(set(taken)), "two signals resumed one wait"
        if execution.status not in GOING:
            return
        for row in self.steps.values():
            wait = self.definition.steps[row.ordinal].wait
            if wait is not None and row.status == "waiting":
                left = [one for one in kept if one.name == wait.event and f" {row.ordinal} " in one.fits]
                assert not left, f"{row.step} waits beside a signal that fits it"

    def _check_movable(self) -> None:
        execution = self.execution
        if execution.status in (*ENDED, "paused", "reconciliation_required"):
            assert execution.status not in ENDED or execution.flight == execution.children == 0
            return
        free = [row for row in self.steps.values() if row.parked == Parked.FREE]
        due = execution.due_at
        movable = due is not None and (execution.status == "scheduled" or due <= self.now)
        movable = (
            movable or execution.flight > 0 or execution.children > 0 or any(row.status == "queued" for row in free)
        )
        movable = movable or any(row.status == "retry_wait" and row.timer_at is not None for row in free)
        movable = movable or any(row.status == "waiting" for row in free)
        assert movable, f"nothing can move an execution that is {execution.status}"

    # -- the store's part -------------------------------------------------------------------------------------------

    def _load(self, loaded: Loaded, need: Need) -> None:
        if need.kind == "step":
            loaded.steps[(need.ordinal, need.item)] = self.steps.get((need.ordinal, need.item))
        elif need.kind == "attempt":
            loaded.attempts[need.name] = self.attempts.get(need.name)
        elif need.kind == "payload":
            loaded.payloads[need.name] = self.payloads.get(need.name)
        elif need.kind == "rows":
            loaded.rows = list(self.steps)
            loaded.steps.update(self.steps)
        elif need.kind == "source":
            loaded.sources[need.name] = any(signal.source == need.name for signal in self.signals.values())
        elif need.kind == "kept":
            loaded.kept[(need.name, need.ordinal, need.item)] = self._kept(need)
        elif need.kind == "attempts":
            loaded.all_attempts = sorted(self.attempts)
            loaded.attempts.update(self.attempts)
        elif need.kind == "ledger":
            loaded.ledger[need.name] = self.ledger.get(need.name)
        elif need.kind == "success":
            self._load_success(loaded, need)
        else:
            wanted = [
                row for row in self.steps.values() if row.lease_id or (row.status in PARKABLE and row.effect != "none")
            ]
            loaded.unsettled = [(row.ordinal, row.index) for row in wanted]
            loaded.steps.update({(row.ordinal, row.index): row for row in wanted})
            loaded.attempts.update({row.lease_id: self.attempts[row.lease_id] for row in wanted if row.lease_id})

    def _kept(self, need: Need) -> Signal | None:
        for number, signal in sorted(self.signals.items()):
            fits = signal.name == need.name and f" {need.ordinal} " in signal.fits
            if fits and signal.taken_by is None and number > need.item:
                return signal
        return None

    def _load_success(self, loaded: Loaded, need: Need) -> None:
        ordinals = msgspec.json.decode(need.name)
        rows = [(row.standing_seq, key) for key, row in self.steps.items() if row.ordinal in ordinals]
        found = [(seq, key) for seq, key in rows if seq is not None and seq < need.item]
        loaded.successes[need] = key = max(found)[1] if found else None
        if key is not None:
            loaded.steps[key] = self.steps[key]

    def _apply(self, changes: Changes) -> None:
        for kind, before, after in changes.bulk:
            if kind == "drop":
                del self.steps[(before, after)]
                continue
            for key, row in self.steps.items():
                self.steps[key] = _bulk(row, kind, before, after)
        for key, row in changes.steps.items():
            old = self.steps.get(key)
            assert old is None or row.fence >= old.fence, "a fence went back"
            self.steps[key] = row
        self.attempts.update(changes.attempts)
        self.payloads.update(changes.payloads)
        self.signals.update(changes.signals)
        self.events.extend(changes.events)
        self.ledger.update({row.key: row for row in changes.ledger})
        self.execution = changes.execution

    def _next_due(self) -> c.Command | None:
        for attempt in self.attempts.values():
            if attempt.next_at is not None and attempt.next_at <= self.now:
                return c.AttemptDue(attempt.id, 1000)
        for row in self.steps.values():
            if row.timer_at is not None and row.timer_at <= self.now and row.parked == Parked.FREE:
                return c.StepDue(row.ordinal, row.index)
        if self.execution.due_at is not None and self.execution.due_at <= self.now:
            return c.ExecutionDue()
        return None


def _bulk(row: Step, kind: str, before: int, after: int) -> Step:
    row = copy.copy(row)
    if row.lease_id is None and row.status in PARKABLE:
        if kind == "park" and row.parked == before:
            row.parked = after
        elif kind == "cancel_held" and row.parked == Parked.HELD:
            row.status, row.parked, row.due_at, row.timer_at = "cancelled", int(Parked.FREE), None, None
    return row


def _start(**start: Any) -> c.Start:
    return c.Start(
        id="execution",
        workflow="flow",
        actor=ACTOR,
        tenant=None,
        correlation=start.get("correlation"),
        labels=b"{}",
        priority=start.get("priority", 0),
        input=msgspec.json.encode(start.get("input")),
        input_hash="hash of the input",
        state=msgspec.json.encode(start.get("state", {})),
        start_at=start.get("start_at"),
        on_restart=start.get("on_restart"),
        exclusive=None,
        traceparent=None,
    )
