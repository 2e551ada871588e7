"""Random lives of a parent and those below it, whose errands are carried late, twice or in any order."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from stepd.engine import commands as c
from stepd.engine.budgets import is_used_up
from stepd.engine.model import ENDED, GOING, Step
from stepd.engine.pricing import Price, PriceTable
from stepd.engine.reports import read_lines
from stepd.engine.resolutions import Resolved
from stepd.engine.spending import whole
from tests.engine.family import Family
from tests.engine.replay import Replayed
from tests.engine.world import ACTOR, World, result

PRICES = PriceTable(1, "USD", [Price("m", 0, (1_000_000, None, None, None, None))])
EFFECTS = ("read_only", "idempotent_write", "non_idempotent_write")


@st.composite
def definitions(draw: st.DrawFn, below: str | None) -> dict[str, Any]:
    """Two or three steps, of which some have children of the workflow below."""
    steps = [draw(steps_of(number, below)) for number in range(draw(st.integers(2, 3)))]
    for step in [step for step in steps if step.get("effect") != "read_only"]:
        if draw(st.booleans()):
            step["compensate"] = f"undo-{step['id']}"
            steps.append({"id": step["compensate"], "effect": "idempotent_write", "retry": {"max_attempts": 1}})
    on_failure = draw(st.sampled_from(["fail", "reconcile", "compensate"]))
    definition: dict[str, Any] = {"steps": steps, "on_failure": on_failure}
    definition["on_restart"] = draw(st.sampled_from(["fail", "retry", "resume"]))
    if draw(st.integers(0, 3)) == 0:
        definition["timeout_seconds"] = 100
    if draw(st.integers(0, 3)) == 3:
        definition["budget"] = {"tokens": draw(st.sampled_from([20, 1, 60]))}
    return definition


@st.composite
def steps_of(draw: st.DrawFn, number: int, below: str | None) -> dict[str, Any]:
    step: dict[str, Any] = {"id": f"s{number}"}
    if below is not None and draw(st.booleans()):
        step |= {"kind": "workflow", "workflow": below}
        if draw(st.integers(0, 3)) == 0:
            step["timeout_seconds"] = 30
        if draw(st.integers(0, 3)) == 0:
            step["repeat"] = {"until": "index >= 1", "max": 2}
    else:
        step |= {"effect": draw(st.sampled_from(EFFECTS)), "retry": {"max_attempts": 1}}
    if number:
        step["needs"] = draw(st.lists(st.sampled_from([f"s{one}" for one in range(number)]), unique=True))
    if draw(st.integers(0, 3)) == 0:
        step["catch"] = [{"class": draw(st.sampled_from(["*", "child_failed"])), "value": None}]
    return step


class Lives(RuleBasedStateMachine):
    """What may be done to any of them, and the carrying between."""

    def __init__(self) -> None:
        super().__init__()
        self.family: Family | None = None

    @property
    def live(self) -> Family:
        assert self.family is not None
        return self.family

    @initialize(parent=definitions("child"), child=definitions("grandchild"), grandchild=definitions(None))
    def start(self, parent: dict[str, Any], child: dict[str, Any], grandchild: dict[str, Any]) -> None:
        self.family = Family({"parent": parent, "child": child, "grandchild": grandchild})

    def _one(self, data: st.DataObject) -> World:
        worlds = list(self.live.worlds.values())
        return worlds[data.draw(st.integers(0, len(worlds) - 1))]

    @rule(number=st.integers(0, 3), lose=st.booleans())
    def carry(self, number: int, lose: bool) -> None:
        self.live.carry_one(number, lose=lose)

    @rule(data=st.data())
    def claim(self, data: st.DataObject) -> None:
        self._one(data).claim()

    @precondition(lambda self: any(world.in_flight() for world in self.live.worlds.values()))
    @rule(data=st.data(), tokens=st.integers(0, 50), prices=st.sampled_from([None, PRICES]))
    def use(self, data: st.DataObject, tokens: int, prices: PriceTable | None) -> None:
        busy = [world for world in self.live.worlds.values() if world.in_flight()]
        world = busy[data.draw(st.integers(0, len(busy) - 1))]
        usage = msgspec.json.encode([{"model": "m", "input_tokens": tokens}])
        world.heartbeat(world.in_flight()[0], reported=c.Reported(usage=usage, prices=prices))

    @precondition(lambda self: any(world.in_flight() for world in self.live.worlds.values()))
    @rule(data=st.data(), how=st.sampled_from(["complete", "complete", "fatal", "cancelled", "retryable"]))
    def settle(self, data: st.DataObject, how: str) -> None:
        busy = [world for world in self.live.worlds.values() if world.in_flight()]
        world = busy[data.draw(st.integers(0, len(busy) - 1))]
        attempt = world.in_flight()[0]
        if how == "complete":
            world.complete(attempt, 1)
        else:
            world.fail(attempt, how, data.draw(st.sampled_from([None, "none"])))

    @precondition(lambda self: self.family is not None and self._troubled())
    @rule(data=st.data(), close=st.sampled_from([None, None, "absent_verified", "compensated_verified", "accepted"]))
    def resolve(self, data: st.DataObject, close: str | None) -> None:
        troubled = self._troubled()
        world = troubled[data.draw(st.integers(0, len(troubled) - 1))]
        if close is not None:
            world.close(close)
        else:
            outcome = data.draw(st.sampled_from(["succeeded", "absent"]))
            world.resume_with(*[result(row.step, outcome, 1) for row in _untold(world)])

    def _troubled(self) -> list[World]:
        worlds = self.live.worlds.values()
        return [world for world in worlds if world.execution.status == "reconciliation_required"]

    @rule(seconds=st.sampled_from([1, 31, 46, 101]))
    def wait(self, seconds: int) -> None:
        for world in list(self.live.worlds.values()):
            world.pass_time(seconds * 1000)

    @rule(data=st.data(), chance=st.integers(0, 7), force=st.booleans())
    def cancel(self, data: st.DataObject, chance: int, force: bool) -> None:
        if chance == 7:
            self._one(data).cancel(force=force)

    @rule(data=st.data(), command=st.sampled_from([c.Pause(ACTOR), c.Resume(ACTOR), c.Resume(ACTOR)]))
    def pause(self, data: st.DataObject, command: c.Command) -> None:
        self._one(data).run(command)

    @rule(data=st.data(), tokens=st.integers(0, 100))
    def raise_budget(self, data: st.DataObject, tokens: int) -> None:
        self._one(data).run(c.Resume(ACTOR, tokens=tokens))

    @rule(chance=st.integers(0, 5))
    def restart(self, chance: int) -> None:
        if chance == 5:
            for world in list(self.live.worlds.values()):
                world.run(c.Recover(1000))

    @invariant()
    def rules_hold(self) -> None:
        if self.family is None:
            return
        self.family.check()
        for world in self.family.worlds.values():
            assert world.execution.status not in GOING or not is_used_up(world.execution)
            told = Replayed(world.events, world.definition.by_id)
            assert told.status == ("going" if world.execution.status in GOING else world.execution.status)
            assert told.steps == {step: world.status(step) for step in told.steps}

    def teardown(self) -> None:
        """With an honest worker, a carrier and an operator, all of them end, and know that of each other."""
        if self.family is None:
            return
        for patience in reversed(range(60)):
            for world in self._troubled():
                told = [result(row.step, "succeeded", 1) for row in _untold(world)]
                if patience < 30 or not isinstance(world.resume_with(*told), Resolved):
                    assert isinstance(world.close("accepted"), Resolved)
            for world in list(self.live.worlds.values()):
                world.run(c.Resume(ACTOR, nano=None, tokens=None))
                while granted := world.claim():
                    world.heartbeat(granted.attempt, started=True)
                    world.complete(granted.attempt, 1)
            self.live.pass_time(60_000)
        assert self.live.errands() == []
        for world in self.live.worlds.values():
            assert world.execution.status in ENDED
            assert (world.execution.children, world.execution.blocked_child) == (0, None)
            assert whole(world.execution).numbers == self._used(world.execution.id)

    def _used(self, id_: str) -> tuple[int, ...]:
        """What an execution and all below it have used, counted anew from their attempts."""
        worlds = self.live.worlds.values()
        own = [read_lines(one.usage or b"[]") for one in self.live.worlds[id_].attempts.values()]
        lines = [(*line.counts, line.cost or 0, line.unpriced) for kept in own for line in kept]
        lines += [self._used(world.execution.id) for world in worlds if world.execution.parent_id == id_]
        return tuple(map(sum, zip(*lines, strict=True))) if lines else (0,) * 7


def _untold(world: World) -> list[Step]:
    """What an operator must tell of: what is uncertain, and what failed above a write that stands."""
    rows = world.steps.values()
    return [
        row for row in rows if row.status == "uncertain" or (row.status == "failed" and row.standing_seq is not None)
    ]


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)
