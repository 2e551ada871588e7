"""Drives the state machine by hand: rows in dictionaries, commands one by one, every invariant checked after each."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import msgspec

from stepd.engine import commands as c
from stepd.engine.definition import Compiled, CompiledStep, compile_definition
from stepd.engine.memory import Memory
from stepd.engine.model import (
    ENDED,
    GOING,
    GRAPH_STATUS,
    IN_FLIGHT,
    NO_INDEX,
    Attempt,
    Parked,
    Step,
)
from stepd.engine.resolutions import Close, Result, ResumeWith
from stepd.engine.tally import OPEN, tally_of
from stepd.engine.verdicts import is_write
from stepd.engine.work import Changes, Settings
from stepd_protocol.limits import Limits

ACTOR = c.Actor("tester")
WORKER = "w"
NOTHING_REPORTED = c.Reported()
VERIFICATIONS = ("absent_verified", "compensated_verified", "accepted")
"""An operator's word may call a doubtful write failed."""


def compiled(definition: dict[str, Any], name: str = "flow") -> Compiled:
    """A definition compiled as a daemon would; fails the test on faults."""
    result = compile_definition(name, msgspec.json.encode(definition), Limits())
    assert isinstance(result, Compiled), result
    return result


def result(step: str, outcome: Any, output: Any = None, *, index: int = NO_INDEX, state: Any = None) -> Result:
    """What an operator says of a step."""
    given = outcome == "succeeded"
    return Result(
        step,
        index,
        outcome,
        msgspec.json.encode(output) if given else None,
        None if state is None else msgspec.json.encode(state),
    )


class World(Memory):
    """One execution, its rows and its journal."""

    resolutions = 0
    """Resolutions that were given to it."""

    def __init__(
        self, definition: dict[str, Any], *, now: int = 1_000_000, items_at_once: int = 200, **start: Any
    ) -> None:
        super().__init__(compiled(definition), Settings(items_at_once=items_at_once), now)
        assert self.begin(_start(**start)) is None

    @classmethod
    def of(cls, definition: Compiled, start: c.Start, now: int) -> World | c.InvalidInput:
        """The execution that a start makes of a definition, or why it doesn't."""
        world = cls.__new__(cls)
        Memory.__init__(world, definition, Settings(), now)
        return world.begin(start) or world

    # -- commands ---------------------------------------------------------------------------------------------------

    def run(self, command: c.Command) -> Any:
        """Gives a command, as a store would: loads what is missing, applies what changed, checks everything."""
        before = (copy.copy(self.execution), dict(self.steps))
        answer, work = self.think(command)
        assert (work.loaded.execution, self.steps) == before, "a decision changed the rows it was given"
        self.apply(work.changes)
        self.check()
        return answer

    def apply(self, changes: Changes) -> None:
        for key, row in changes.steps.items():
            old = None if ("drop", *key) in changes.bulk else self.steps.get(key)
            assert old is None or row.fence >= old.fence, "a fence went back"
        super().apply(changes)

    def claim(self, step: str | None = None) -> c.Granted | None:
        """Leases the first claimable step (or that one), in a claim's order."""
        rows = [row for row in self.claimable() if step is None or row.step == step]
        if not rows:
            return None
        row, number = rows[0], len(self.attempts) + 1
        lease = c.Lease(row.ordinal, row.index, f"lease-{number}", f"{number:016x}", "tester", WORKER, WORKER)
        granted = self.run(lease)
        assert granted is None or isinstance(granted, c.Granted)
        return granted

    def heartbeat(
        self,
        attempt: Attempt,
        *,
        started: bool = False,
        fence: int | None = None,
        reported: c.Reported = NOTHING_REPORTED,
    ) -> Any:
        fence = attempt.fence if fence is None else fence
        return self.run(c.Heartbeat(attempt.id, attempt.principal, fence, started, reported))

    def complete(self, attempt: Attempt, output: Any = None, state: dict[str, Any] | None = None, **more: Any) -> Any:
        patch = {key: msgspec.Raw(msgspec.json.encode(value)) for key, value in (state or {}).items()}
        raw = msgspec.json.encode(output)
        digest = repr((output, state))
        fence, reported = more.pop("fence", attempt.fence), more.pop("reported", NOTHING_REPORTED)
        return self.run(c.Complete(attempt.id, attempt.principal, fence, raw, patch, digest, reported, 1000))

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
            reported=more.get("reported", NOTHING_REPORTED),
            jitter=more.get("jitter", 1000),
        )
        return self.run(command)

    def signal(self, name: str, payload: Any = None, *, source: str | None = None) -> Any:
        return self.run(c.Signal(ACTOR, name, msgspec.json.encode(payload), source))

    def pass_time(self, ms: int) -> None:
        """Moves the clock and sweeps until nothing is due."""
        self.now += ms
        while (command := self.next_due()) is not None:
            self.run(command)

    def cancel(self, *, force: bool = False) -> Any:
        return self.run(c.Cancel(ACTOR, "enough", force))

    def resume_with(self, *results: Result, key: str | None = None, **more: Any) -> Any:
        """Resolves: the execution goes on with these results."""
        return self.resolve(ResumeWith(results), key, **more)

    def close(self, verification: Any = "accepted", key: str | None = None, **more: Any) -> Any:
        """Resolves: the execution ends."""
        return self.resolve(Close(verification), key, **more)

    def resolve(self, resolution: ResumeWith | Close, key: str | None = None, **more: Any) -> Any:
        """Gives a resolution as an operator would; a call of its own unless it has another's key."""
        self.resolutions += 1
        command = c.Resolve(
            actor=c.Actor(more.get("operator", "operator")),
            resolution_id=f"resolution-{self.resolutions}",
            key=key or f"key-{self.resolutions}",
            digest=repr(resolution),
            body=b"{}",
            resolution=resolution,
            reference="case 4711",
            reason="seen in the provider's ledger",
            expected_revision=more.get("expected_revision"),
        )
        return self.run(command)

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

    def items(self, step: str) -> list[Step]:
        """The rows of a step's items, in order."""
        ordinal = self.definition.by_id[step]
        return [row for key, row in sorted(self.steps.items()) if key[0] == ordinal and key[1] != NO_INDEX]

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
            if row.index == NO_INDEX:
                assert row.status == mark, f"{row.step} is {row.status}, the graph says {mark}"
        for compiled in self.definition.steps:
            if compiled.has_items:
                self._check_items(compiled)

    def _check_items(self, compiled: CompiledStep) -> None:
        whole, items = self.steps.get((compiled.ordinal, NO_INDEX)), self.items(compiled.id)
        if whole is None or whole.items is None:
            assert not items
            return
        tally = tally_of(whole)
        found = Counter(row.status for row in items)
        unmade = "pending" if tally.left else "cancelled"
        found[unmade] += tally.total - tally.made
        assert +found == Counter(tally.counts), f"{compiled.id} counts {tally.counts}"
        assert [row.index for row in items] == list(range(tally.made))
        assert whole.parked == Parked.ITEMS or whole.status not in OPEN
        worst = "uncertain" if found["uncertain"] else "failed" if found["failed"] else None
        assert worst is None or whole.status == worst, f"{compiled.id} is {whole.status} with an item {worst}"
        if compiled.foreach is not None and compiled.foreach.max_parallel is not None:
            assert tally.under_way <= compiled.foreach.max_parallel
        if compiled.repeat is not None:
            assert sum(row.status != "succeeded" for row in items) <= 1, "a round began before the one before it ended"

    def _check_leases(self) -> None:
        for row in self.steps.values():
            held = [one for one in self.in_flight() if _is_of(one, row)]
            assert [one.id for one in held] == ([row.lease_id] if row.lease_id else []), "two attempts at one step"
            won = [one for one in self.attempts.values() if _is_of(one, row) and one.status == "succeeded"]
            assert len(won) <= 1, "a step succeeded twice"
        for attempt in self.attempts.values():
            fence = self.steps[(attempt.ordinal, attempt.index)].fence
            assert fence > attempt.fence or attempt.ended_by in (None, "holder"), "ended without its holder, not fenced"
            assert (attempt.next_at is not None) == (attempt.status in IN_FLIGHT), "an attempt nobody looks after"

    def _check_writes(self) -> None:
        for row in self.steps.values():
            closed = row.error is not None and msgspec.json.decode(row.error)["class"] in VERIFICATIONS
            if is_write(self.definition.steps[row.ordinal]) and row.effect != "none" and not closed:
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


def _is_of(attempt: Attempt, row: Step) -> bool:
    return (attempt.ordinal, attempt.index) == (row.ordinal, row.index)


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
