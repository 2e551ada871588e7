"""Random lives on each store, many at once: the journal of each, replayed, comes to what stands in the store."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, Literal

import pytest

from stepd.engine import commands as c
from stepd.engine.model import ENDED, GOING, GRAPH_STATUS, NO_INDEX
from stepd.engine.resolutions import Close, Result, ResumeWith
from stepd.ids import new_id
from stepd.loops.recovery import recover
from stepd.store.base import Decide, ExecutionRows, Operation, Serve
from tests.engine.replay import Replayed
from tests.store.shop import Shop, claim, complete, fail, heartbeat
from tests.store.test_tables import sweep

MANY = 1_000
DEFINITIONS = 40
ROUNDS = 12
EFFECTS = ("read_only", "idempotent_write", "non_idempotent_write")
CLASSES = ("retryable", "fatal", "declined", "interrupted", "unservable", "cancelled")
OUTCOMES: tuple[tuple[Literal["succeeded", "as_reported", "absent"], bytes | None], ...] = (
    ("succeeded", b"1"),
    ("as_reported", None),
    ("absent", None),
)
ACTOR = c.Actor("operator")


def definition(random: Random) -> dict[str, Any]:
    """A small graph of tasks, a few of which have items or can be undone, with waits and sleeps between them."""
    steps: list[dict[str, Any]] = []
    for number in range(random.randint(1, 4)):
        one: dict[str, Any] = {"id": f"s{number}"}
        if random.random() < 0.15:
            one |= random.choice(({"kind": "sleep", "seconds": 5}, {"kind": "wait", "event": "go"}))
        else:
            one |= task(random)
        if number and random.random() < 0.4:
            one["needs"] = []
        if "write" in one.get("effect", "") and random.random() < 0.5:
            one["compensate"] = f"undo{number}"
            steps.append({**task(random), "id": f"undo{number}"})
            steps[-1].pop("foreach", None)
        steps.append(one)
    return {
        "steps": steps,
        "on_failure": random.choice(("fail", "reconcile", "compensate")),
        "on_restart": random.choice(("fail", "retry", "resume")),
        "timeout_seconds": random.choice((None, 100)),
    }


def task(random: Random) -> dict[str, Any]:
    found: dict[str, Any] = {"effect": random.choice(EFFECTS), "retry": {"max_attempts": random.randint(1, 3)}}
    if random.random() < 0.2:
        found["foreach"] = "[1, 2, 3]"
    if random.random() < 0.2:
        found["catch"] = [{"class": "declined", "value": "caught"}]
    return found


class Lives:
    """Executions, the leases that were given of them, and what is done to them."""

    def __init__(self, shop: Shop, random: Random, count: int) -> None:
        self.shop = shop
        self.count = count
        self.random = random
        self.ids: list[str] = []
        self.leases: dict[str, list[c.Granted]] = {}
        self.statuses: dict[str, str] = {}

    async def begin(self) -> None:
        for number in range(DEFINITIONS):
            await self.shop.register(f"flow-{number}", **definition(self.random))
        names = [f"flow-{number % DEFINITIONS}" for number in range(self.count)]
        self.ids = list(await asyncio.gather(*(self.shop.start(name) for name in names)))

    async def go_on(self) -> None:
        """One thing happens to most of them, and then time passes."""
        await self._claim()
        operations = [operation for id_ in self.ids for operation in await self._next(id_)]
        await asyncio.gather(*(self.shop.store.submit(operation) for operation in operations))
        self.shop.clock.at += self.random.choice((1_000, 1_000, 3_000, 31_000, 46_000))
        await sweep(self.shop)

    async def look(self, id_: str) -> tuple[str, set[str]]:
        """Checks one of them; its status, and the types of its events."""
        rows = await self.shop.view(id_)
        events = await self.shop.store.events(id_, 0, 10_000)
        assert [event.seq for event in events] == list(range(1, rows.execution.seq + 1))
        compiled = await self.shop.store.definition(rows.execution.workflow, rows.execution.version)
        assert compiled is not None
        check(rows, Replayed(events, compiled.by_id))
        return rows.execution.status, {event.type for event in events}

    async def _claim(self) -> None:
        serves = tuple(Serve(f"flow-{number}") for number in range(DEFINITIONS))
        for dealt in await self.shop.deal(*(claim(serves=serves, max=100) for _ in range(5))):
            for granted in dealt.leases:
                self.leases.setdefault(granted.execution.id, []).append(granted)

    async def _next(self, id_: str) -> list[Operation]:
        random = self.random
        leases = self.leases.get(id_, [])
        if leases and random.random() < 0.7:
            return [self._call(random.choice(leases))]
        match random.randint(0, 15):
            case 0:
                return [Decide(c.Cancel(ACTOR, None, random.random() < 0.5), execution_id=id_)]
            case 1:
                return [Decide(c.Pause(ACTOR), execution_id=id_)]
            case 2 | 3:
                return [Decide(c.Resume(ACTOR), execution_id=id_)]
            case 4:
                return [Decide(c.Signal(ACTOR, "go", b"1"), execution_id=id_)]
            case 5 | 6 | 7:
                return await self._resolve(id_)
        return []

    def _call(self, granted: c.Granted) -> Operation:
        random = self.random
        match random.randint(0, 5):
            case 0:
                return heartbeat(granted, started=True)
            case 1 | 2:
                effect = random.choice((None, "none", "applied", "absent"))
                return fail(granted, random.choice(CLASSES), effect=effect)
            case _:
                return complete(granted, 1)

    async def _resolve(self, id_: str) -> list[Operation]:
        if self._status(id_) != "reconciliation_required":
            return []
        rows = await self.shop.view(id_)
        doubtful = [row for row in rows.steps if row.status == "uncertain" and row.items is None]
        results = tuple(Result(row.step, row.index, *self.random.choice(OUTCOMES)) for row in doubtful)
        return [resolve(id_, ResumeWith(results) if self.random.random() < 0.8 else Close("accepted"))]

    def _status(self, id_: str) -> str:
        """As the last commit told of it."""
        for tell in self.shop.told:
            self.statuses.update({told: status for told, (_, status) in tell.executions.items()})
        self.shop.told.clear()
        return self.statuses[id_]


def resolve(id_: str, resolution: ResumeWith | Close) -> Operation:
    key = new_id()
    command = c.Resolve(ACTOR, key, key, key, b"{}", resolution, "case", "seen", None)
    return Decide(command, execution_id=id_)


def check(rows: ExecutionRows, told: Replayed) -> None:
    """What the journal tells is what stands."""
    execution = rows.execution
    is_going = execution.status in GOING or execution.status == "scheduled"
    assert told.status == ("going" if is_going else execution.status)
    for row in rows.steps:
        if row.index == NO_INDEX:
            assert told.steps[row.step] == row.status, f"{row.step} of {execution.id}"
        elif row.step in told.items:
            silent = "cancelled" if row.step in told.cancelled else "pending"
            assert told.items[row.step].get(row.index, silent) == row.status, f"{row.step}[{row.index}]"
    for step, mark in zip(told.steps, execution.graph, strict=True):
        assert told.steps[step] == GRAPH_STATUS[mark], f"{step} of {execution.id}"


@pytest.mark.parametrize("count", [60, pytest.param(MANY, marks=pytest.mark.soak)])
async def test_random_lives_are_what_their_journals_tell(shop: Shop, count: int) -> None:
    lives = Lives(shop, Random(4711), count)
    await lives.begin()
    for number in range(ROUNDS):
        await lives.go_on()
        if number == ROUNDS // 2:
            await shop.reopen()
            await recover(shop.store)
    found = await asyncio.gather(*map(lives.look, lives.ids))
    ended = sum(status in ENDED for status, _ in found)
    assert ended > count // 3, "lives that come to nothing show nothing"
    assert sum("execution.resolved" in types for _, types in found) > count // 50, "an operator has had much to say"
