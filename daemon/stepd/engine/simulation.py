"""The machine run on given outcomes instead of workers: what a definition would do, without a store, in no time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from stepd.engine import commands as c
from stepd.engine.definition import Compiled
from stepd.engine.memory import Memory
from stepd.engine.model import ENDED, GRAPH_STATUS, NO_INDEX, Parked, Step
from stepd.engine.work import Changes, Settings, StepKey

SETTLED = ENDED | {"reconciliation_required"}
PRINCIPAL = "simulation"
JITTER = 1000
COMMANDS_MAX = 20_000
PAYLOAD_BYTES_MAX = 32 * 1024 * 1024
LOST = "lost"
"""The class of an attempt that nobody settles."""


class Failure(msgspec.Struct, frozen=True):
    """How an attempt fails."""

    class_: str
    message: str
    effect: Literal["none", "applied", "unknown", "absent"] | None
    details: bytes | None


class Outcome(msgspec.Struct, frozen=True):
    """What an attempt comes to; a failure, where there is one."""

    output: bytes = b"null"
    state: dict[str, msgspec.Raw] = {}
    fail: Failure | None = None


NOTHING = Outcome()
"""What a step comes to that does nothing."""
Outcomes: TypeAlias = "Outcome | Sequence[Outcome | Sequence[Outcome]]"


class Simulation(Memory):
    """One execution that is moved on by what its steps are said to come to, the daemon's clock being its own."""

    def __init__(self, definition: Compiled, settings: Settings, now: int, outcomes: Mapping[str, Outcomes]) -> None:
        super().__init__(definition, settings, now)
        self.updates: list[tuple[str, object]] = []
        """What was written to the state at the end."""
        self._outcomes = outcomes
        self.begun: dict[StepKey, int] = {}
        """How many attempts of each row began."""
        self._commands = self._bytes = self._leases = 0

    @property
    def settled(self) -> bool:
        """Whether nothing happens any more without an operator."""
        return self.execution.status in SETTLED

    @property
    def exhausted(self) -> bool:
        """Whether it has become too long, or too large."""
        return self._commands > COMMANDS_MAX or self._bytes > PAYLOAD_BYTES_MAX

    def status_of(self, step: str) -> str:
        """A step's status by the graph."""
        return GRAPH_STATUS[self.execution.graph[self.definition.by_id[step]]]

    def go_on(self) -> bool:
        """Does the next thing; False where there is none, now or later."""
        if self.settled:
            return False
        if (child := self._child_to_begin()) is not None:
            self._run_child(child)
        elif claimable := self.claimable():
            self._run_attempt(claimable[0])
        elif (due := self.next_due()) is not None:
            self.give(due)
        elif (later := self._next_time()) is not None:
            self.now = later
        else:
            return False
        return True

    def give(self, command: c.Command) -> c.Answer:
        """Gives a command, and keeps what it changed."""
        self._commands += 1
        answer, work = self.think(command)
        self.apply(work.changes)
        if self.execution.status == "completed":
            self.updates = work.updates
        return answer

    def apply(self, changes: Changes) -> None:
        super().apply(changes)
        self._bytes += sum(map(len, changes.payloads.values()))

    # -- attempts -------------------------------------------------------------------------------------------------

    def _run_attempt(self, row: Step) -> None:
        self._leases += 1
        number = f"{self._leases:016x}"
        lease = c.Lease(row.ordinal, row.index, number, number, PRINCIPAL, PRINCIPAL, PRINCIPAL)
        granted = self.give(lease)
        if not isinstance(granted, c.Granted):
            return
        outcome = self._outcome(row)
        attempt = granted.attempt
        if attempt.status == "leased":
            self.give(c.Heartbeat(attempt.id, PRINCIPAL, attempt.fence, True, c.Reported()))
        if outcome.fail is None:
            self.give(
                c.Complete(
                    attempt_id=attempt.id,
                    principal=PRINCIPAL,
                    fence=attempt.fence,
                    output=outcome.output,
                    state=outcome.state,
                    digest="",
                    reported=c.Reported(),
                    jitter=JITTER,
                )
            )
        elif outcome.fail.class_ != LOST:
            self.give(_fail(attempt.id, attempt.fence, outcome.fail))

    def _outcome(self, row: Step) -> Outcome:
        """What the attempt that begins now comes to."""
        key = (row.ordinal, row.index)
        attempt = self.begun.get(key, 0)
        self.begun[key] = attempt + 1
        given = self._outcomes.get(row.step, NOTHING)
        if not isinstance(given, Outcome) and row.index != NO_INDEX:
            given = given[min(row.index, len(given) - 1)]
        if isinstance(given, Outcome):
            return given
        one = given[min(attempt, len(given) - 1)]
        return one if isinstance(one, Outcome) else one[-1]

    # -- children -------------------------------------------------------------------------------------------------

    def _child_to_begin(self) -> Step | None:
        return next((row for row in self.steps.values() if row.errand == "start"), None)

    def _run_child(self, row: Step) -> None:
        compiled, child_id = self.definition.steps[row.ordinal], row.child_id or ""
        outcome = self._outcome(row)
        version = compiled.version or "current"
        self.give(c.ChildBegun(row.ordinal, row.index, child_id, compiled.workflow or "", version))
        failure = outcome.fail
        news = c.ChildNews(
            step=row.step,
            index=row.index,
            child_id=child_id,
            seq=1,
            status="completed" if failure is None else "failed",
            at=self.now,
            output=outcome.output,
            error=None if failure is None else c.error_json(failure.class_, failure.message, step=None, cause=None),
            writes=failure is not None and failure.effect == "applied",
        )
        self.give(news)

    # -- time -----------------------------------------------------------------------------------------------------

    def _next_time(self) -> int | None:
        """When something falls due next."""
        times = [attempt.next_at for attempt in self.attempts.values() if attempt.next_at is not None]
        times += [row.timer_at for row in self.steps.values() if row.timer_at is not None and row.parked == Parked.FREE]
        if self.execution.due_at is not None:
            times.append(self.execution.due_at)
        return min(times, default=None)


def _fail(attempt_id: str, fence: int, failure: Failure) -> c.Fail:
    return c.Fail(
        attempt_id=attempt_id,
        principal=PRINCIPAL,
        fence=fence,
        class_=failure.class_,
        message=failure.message,
        details=failure.details,
        effect=failure.effect,
        retry_in_ms=None,
        retry_at=None,
        digest="",
        reported=c.Reported(),
        jitter=JITTER,
    )
