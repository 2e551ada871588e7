"""Random lives of an execution: whatever is done to it in whatever order, the rules hold after each command."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec import UNSET, UnsetType

from stepd.engine import commands as c
from stepd.engine.budgets import is_used_up
from stepd.engine.model import ENDED, GOING, NO_INDEX, Attempt, Step
from stepd.engine.renewing import follows_items
from stepd.engine.resolutions import Resolved, Result
from tests.engine.replay import Replayed
from tests.engine.world import ACTOR, World, result

EVENTS = ("approved", "paid")
OUTCOMES = ("succeeded", "as_reported", "absent")
EFFECTS = ("read_only", "idempotent_write", "non_idempotent_write")


@st.composite
def definitions(draw: st.DrawFn) -> dict[str, Any]:
    """A small graph of steps: tasks of every effect and delivery, waits, sleeps, decisions, with all they can have."""
    count = draw(st.integers(1, 5))
    steps = [draw(tasks(number) if draw(st.integers(0, 2)) else others(number)) for number in range(count)]
    for task in [step for step in steps if "write" in step.get("effect", "")]:
        if draw(st.booleans()):
            undo = draw(single(0)) | {"id": f"undo-{task['id']}"}
            task["compensate"] = undo["id"]
            steps.append(undo)
    on_failure = draw(st.sampled_from(["fail", "reconcile", "compensate"]))
    definition: dict[str, Any] = {"steps": steps, "on_failure": on_failure}
    definition["on_restart"] = draw(st.sampled_from(["fail", "retry", "resume"]))
    if draw(st.booleans()):
        definition["timeout_seconds"] = draw(st.sampled_from([20, 200]))
    return definition


def used(tokens: int) -> c.Reported:
    """A report of so many tokens; of none, no report."""
    usage = msgspec.json.encode([{"model": "m", "output_tokens": tokens}])
    return c.Reported(usage=usage if tokens else None)


@st.composite
def tasks(draw: st.DrawFn, number: int) -> dict[str, Any]:
    """One task, which runs once or more often."""
    return {**draw(single(number)), **draw(st.one_of(st.just({}), st.just({}), foreach(), repeat()))}


@st.composite
def single(draw: st.DrawFn, number: int) -> dict[str, Any]:
    """One task that runs once; it needs any of those before it."""
    effect = draw(st.sampled_from(EFFECTS))
    task: dict[str, Any] = {"id": f"s{number}", "effect": effect, "retry": {"max_attempts": draw(st.integers(1, 3))}}
    if effect != "non_idempotent_write":
        task["delivery"] = draw(st.sampled_from(["at_least_once", "at_most_once"]))
    if number:
        task["needs"] = draw(st.lists(st.sampled_from([f"s{before}" for before in range(number)]), unique=True))
        if "s0" in task["needs"] and draw(st.booleans()):
            task["when"] = "steps.s0.output == 1"
    if draw(st.integers(0, 4)) == 0:
        task["catch"] = [{"class": "declined", "value": "caught"}]
    if draw(st.integers(0, 4)) == 0:
        task["queue_timeout_seconds"] = 15
    if draw(st.integers(0, 4)) == 0:
        task["timeout_seconds"] = 40
    return task


@st.composite
def foreach(draw: st.DrawFn) -> dict[str, Any]:
    """What makes a task run once an item."""
    parallel = draw(st.sampled_from([None, None, 1, 2]))
    found: dict[str, Any] = {"foreach": str(list(range(draw(st.integers(0, 5))))), "max_parallel": parallel}
    if draw(st.booleans()):
        found["input"] = {"$cel": "index < 2 ? item : state.k"}
    return found


@st.composite
def repeat(draw: st.DrawFn) -> dict[str, Any]:
    """What makes a task run again and again."""
    found: dict[str, Any] = {"until": "last == 1", "max": draw(st.integers(1, 3))}
    if draw(st.booleans()):
        found["next"] = {"$cel": draw(st.sampled_from(["last", "index", "last.missing"]))}
    return {"repeat": found}


@st.composite
def others(draw: st.DrawFn, number: int) -> dict[str, Any]:
    """One step that no worker does; it needs the one before it, or nothing."""
    step: dict[str, Any] = {"id": f"s{number}", "kind": draw(st.sampled_from(["wait", "wait", "sleep", "decision"]))}
    if number and draw(st.booleans()):
        step["needs"] = []
    if draw(st.integers(0, 3)) == 0:
        step["catch"] = [{"class": "*", "value": 1}]
    match step["kind"]:
        case "wait":
            step["event"] = draw(st.sampled_from(EVENTS))
            step["on_timeout"] = draw(st.sampled_from(["fail", "skip"]))
            step["payload_schema"] = draw(st.sampled_from([None, {"type": "integer"}]))
            step["timeout_seconds"] = draw(st.sampled_from([None, None, 10, 45]))
        case "sleep":
            step["seconds"] = draw(st.sampled_from([5, {"$cel": "input.n * 3"}, {"$cel": "-input.n"}]))
        case _:
            step["rules"] = [{"when": f"input.n > {draw(st.integers(0, 1))}", "then": 1}]
    return step


@st.composite
def repeated(draw: st.DrawFn) -> dict[str, Any]:
    """Two steps beside each other that run more than once."""
    steps = [{**draw(single(0)), **draw(st.one_of(foreach(), repeat()))} for _ in range(2)]
    steps[1] |= {"id": "s1", "needs": []}
    for step in steps[:]:
        if step["effect"] != "read_only" and draw(st.booleans()):
            step["compensate"] = f"undo-{step['id']}"
            steps.append({**draw(single(0)), "id": step["compensate"]})
    on_failure = draw(st.sampled_from(["fail", "reconcile", "compensate"]))
    return {"steps": steps, "on_failure": on_failure}


class Life(RuleBasedStateMachine):
    """Claims, heartbeats, outcomes, lapses, cancels, pauses, restarts, resolutions, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.world: World | None = None
        self.accepted: dict[str, int] = {}

    @property
    def live(self) -> World:
        assert self.world is not None
        return self.world

    @initialize(definition=definitions(), later=st.booleans())
    def start(self, definition: dict[str, Any], later: bool) -> None:
        self.world = World(definition, input={"n": 1}, start_at=1_005_000 if later else None, items_at_once=2)

    @rule()
    def claim(self) -> None:
        granted = self.live.claim()
        if granted is not None and is_used_up(self.live.execution):
            undone = self.live.definition.steps[granted.step.ordinal].undoes
            assert undone is not None, "a lease began although the budget is used up"

    def _attempt(self, data: st.DataObject) -> Attempt:
        return data.draw(st.sampled_from(list(self.live.attempts.values())))

    @precondition(lambda self: self.world is not None and self.world.attempts)
    @rule(data=st.data(), started=st.booleans(), stale=st.booleans(), tokens=st.sampled_from([1, 2, 0]))
    def heartbeat(self, data: st.DataObject, started: bool, stale: bool, tokens: int) -> None:
        attempt = self._attempt(data)
        before, fence = attempt.expires_at, attempt.fence - stale
        answer = self.live.heartbeat(attempt, started=started, fence=fence, reported=used(tokens))
        if isinstance(answer, c.Refused):
            assert self.live.attempts[attempt.id].expires_at == before, "a refused heartbeat moved the lease"
        else:
            assert not stale

    @precondition(lambda self: self.world is not None and self.world.attempts)
    @rule(data=st.data(), output=st.sampled_from([None, 1]), stale=st.booleans(), tokens=st.sampled_from([1, 2, 0]))
    def complete(self, data: st.DataObject, output: Any, stale: bool, tokens: int) -> None:
        attempt = self._attempt(data)
        fence, reported = attempt.fence - stale, used(tokens)
        self._note(attempt, self.live.complete(attempt, output, {"k": output}, fence=fence, reported=reported), stale)

    @precondition(lambda self: self.world is not None and self.world.attempts)
    @rule(
        data=st.data(),
        class_=st.sampled_from(["retryable", "fatal", "declined", "interrupted", "unservable", "cancelled"]),
        effect=st.sampled_from([None, "none", "applied", "unknown", "absent"]),
        tokens=st.sampled_from([1, 2, 0]),
    )
    def fail(self, data: st.DataObject, class_: str, effect: str | None, tokens: int) -> None:
        attempt = self._attempt(data)
        self._note(attempt, self.live.fail(attempt, class_, effect, reported=used(tokens)), stale=False)

    def _note(self, attempt: Attempt, answer: Any, stale: bool) -> None:
        if isinstance(answer, c.Told) and not answer.replayed:
            assert not stale, "an older fence changed something"
            self.accepted[attempt.id] = self.accepted.get(attempt.id, 0) + 1
            assert self.accepted[attempt.id] == 1, "two outcomes of one attempt were accepted"

    @rule(seconds=st.sampled_from([0.5, 2, 12, 31, 46, 130]))
    def wait(self, seconds: float) -> None:
        self.live.pass_time(int(seconds * 1000))

    @rule(name=st.sampled_from(EVENTS), payload=st.sampled_from([1, 2, "no number"]))
    def signal(self, name: str, payload: Any) -> None:
        before = self.live.execution.signals
        answer = self.live.signal(name, payload)
        assert self.live.execution.signals - before == isinstance(answer, c.Done), "accepted means kept or taken"

    @rule(chance=st.integers(0, 7), force=st.booleans())
    def cancel(self, chance: int, force: bool) -> None:
        if chance == 7:
            self.live.cancel(force=force)

    @rule(chance=st.integers(0, 3))
    def pause(self, chance: int) -> None:
        if chance == 3:
            self.live.run(c.Pause(ACTOR))

    @rule(tokens=st.sampled_from([UNSET, 5, 10, 2, 0, None]))
    def resume(self, tokens: int | None | UnsetType) -> None:
        before = self.live.execution.seq
        if isinstance(self.live.run(c.Resume(ACTOR, tokens=tokens)), c.Conflict):
            assert self.live.execution.seq == before, "a refusal changed something"

    @rule(chance=st.integers(0, 3))
    def restart(self, chance: int) -> None:
        if chance == 3:
            self.live.run(c.Recover(1000))

    @precondition(lambda self: self.world is not None and self.world.execution.status == "reconciliation_required")
    @rule(
        data=st.data(), close=st.sampled_from([None, None, None, "absent_verified", "compensated_verified", "accepted"])
    )
    def resolve(self, data: st.DataObject, close: str | None) -> None:
        before = self.live.execution.seq
        if close is not None:
            answer = self.live.close(close)
        else:
            answer = self._resume_with([data.draw(st.sampled_from(OUTCOMES)) for _ in self._untold()])
        assert isinstance(answer, Resolved) == (self.live.execution.seq > before), "a refusal changed something"

    def _untold(self) -> list[Step]:
        doubtful = [row for row in self.live.steps.values() if row.status == "uncertain"]
        return [row for row in doubtful if not follows_items(row)]

    def _resume_with(self, outcomes: list[str]) -> Any:
        told = [self._result(row, outcome) for row, outcome in zip(self._untold(), outcomes, strict=True)]
        return self.live.resume_with(*told)

    def _result(self, row: Step, outcome: str) -> Result:
        return result(row.step, outcome, [1] if self._is_list(row) else 1, index=row.index)

    def _is_list(self, row: Step) -> bool:
        return row.index == NO_INDEX and self.live.definition.steps[row.ordinal].foreach is not None

    @precondition(lambda self: self.world is not None and self.world.attempts)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        self.live.run(c.GiveBack(self._attempt(data).id))

    @invariant()
    def nothing_goes_on_beyond_its_budget(self) -> None:
        if self.world is not None and self.live.execution.status in GOING:
            assert not is_used_up(self.live.execution)

    @invariant()
    def a_pause_says_since_when(self) -> None:
        if self.world is not None:
            execution = self.live.execution
            is_paused = execution.status == "paused"
            assert (execution.paused_at is not None) == is_paused
            assert execution.pause_reason is None or is_paused

    @invariant()
    def journal_tells_the_state(self) -> None:
        if self.world is None:
            return
        told = Replayed(self.live.events, self.live.definition.by_id)
        actual = self.live.execution.status
        assert told.status == ("going" if actual in GOING or actual == "scheduled" else actual)
        assert told.steps == {step: self.live.status(step) for step in told.steps}
        for step, items in told.items.items():
            silent = "cancelled" if step in told.cancelled else "pending"
            rows = {row.index: row.status for row in self.live.items(step)}
            assert rows == {index: items.get(index, silent) for index in rows}

    def teardown(self) -> None:
        """Left alone with an honest worker and an operator who knows, an execution ends."""
        if self.world is None:
            return
        self.live.run(c.Resume(ACTOR, nano=None, tokens=None))
        for patience in reversed(range(60)):
            while granted := self.live.claim():
                self.live.heartbeat(granted.attempt, started=True)
                self.live.complete(granted.attempt, 1)
            for name in EVENTS:
                self.live.signal(name, 1)
            self.live.pass_time(60_000)
            if self.live.execution.status == "reconciliation_required":
                self._operate(patience)
            if self.live.execution.status in ENDED:
                return
        raise AssertionError(f"still {self.live.execution.status}")

    def _operate(self, patience: int) -> None:
        """Every doubtful write did happen; what can't go on, or fails again and again, is closed."""
        answer = self._resume_with(["succeeded"] * len(self._untold())) if patience > 30 else None
        if not isinstance(answer, Resolved):
            answer = self.live.close("accepted")
        assert isinstance(answer, Resolved), answer


class RepeatedLife(Life):
    """The same for steps that run more than once."""

    @initialize(definition=repeated(), later=st.just(value=False))
    def start(self, definition: dict[str, Any], later: bool) -> None:
        super().start(definition, later)


class BudgetedLife(Life):
    """The same for what is bounded by a budget, which one to three reports use up."""

    @initialize(definition=st.one_of(repeated(), definitions()), tokens=st.sampled_from([1, 2, 3]))
    def start(self, definition: dict[str, Any], tokens: int) -> None:
        self.world = World({**definition, "budget": {"tokens": tokens}}, input={"n": 1}, items_at_once=2)

    @rule(tokens=st.sampled_from([1, 2]), then=st.sampled_from(["complete", "fail", "beat"]))
    def work(self, tokens: int, then: str) -> None:
        """What is claimable is claimed, and uses something."""
        self.claim()
        for attempt in self.live.in_flight():
            self.live.heartbeat(attempt, started=True, reported=used(tokens))
            if then == "complete":
                self._note(attempt, self.live.complete(attempt, 1), stale=False)
            elif then == "fail":
                self._note(attempt, self.live.fail(attempt), stale=False)


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
TestRepeatedLife = RepeatedLife.TestCase
TestRepeatedLife.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)

TestBudgetedLife = BudgetedLife.TestCase
TestBudgetedLife.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@pytest.mark.soak
class TestRepeatedLives(RepeatedLife.TestCase):  # type: ignore[misc, valid-type]  # made by hypothesis at run time
    """Many of them."""

    settings = settings(max_examples=1_000, stateful_step_count=60, deadline=None)


@pytest.mark.soak
class TestLives(Life.TestCase):  # type: ignore[misc, valid-type]  # made by hypothesis at run time
    """Many of them."""

    settings = settings(max_examples=2_000, stateful_step_count=50, deadline=None)
