"""The loops: round after round whatever happens, what is due gets its command in time, grace comes before anything."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import time
from typing import Any

import pytest

from stepd.engine.commands import AttemptDue, ExecutionDue, Recover, StepDue
from stepd.loops.pulse import STALE_SECONDS, Pulse
from stepd.loops.recovery import recover
from stepd.loops.retention import BATCH, BREATH_SECONDS, LOOK_SECONDS, Retention
from stepd.loops.runner import Loop, run_loop
from stepd.loops.sweeper import Sweeper
from stepd.store.base import Decide, Due, StoreUnavailable


class LoopStore:
    """A store as the loops see it: what is due, and what was done about it."""

    def __init__(self) -> None:
        self.due_at: dict[Due, int] = {}
        self.decided: list[Decide] = []
        self.faults: list[Exception] = []
        self.pulses = 0
        self.stood_still = False
        self.away = False
        self.ended = 0
        self.open = [f"e{number:03}" for number in range(450)]

    async def now(self) -> int:
        return int(time() * 1000)

    async def due(self, limit: int) -> list[Due]:
        self._look()
        now = await self.now()
        return [due for due, at in self.due_at.items() if at <= now][:limit]

    async def next_due(self) -> int | None:
        return min(self.due_at.values(), default=None)

    async def submit(self, operation: Decide) -> list[Any]:
        self._look()
        self.decided.append(operation)
        if operation.execution_id == "poison":
            raise RuntimeError("this one can't be dealt with")
        self.due_at = {due: at for due, at in self.due_at.items() if due.execution_id != operation.execution_id}
        return [None]

    async def pulse(self) -> bool:
        self._look()
        self.pulses += 1
        stood_still, self.stood_still = self.stood_still, False
        return stood_still

    async def remove_ended(self, limit: int) -> int:
        removed = min(limit, self.ended)
        self.ended -= removed
        return removed

    async def forget(self, limit: int) -> int:
        return 0

    async def open_executions(self, after: str, limit: int) -> list[str]:
        return [id for id in self.open if id > after][:limit]

    def _look(self) -> None:
        if self.away:
            raise StoreUnavailable("the disk is gone")


@pytest.fixture
def store() -> Any:
    return LoopStore()


@asynccontextmanager
async def running(*loops: Loop) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(run_loop(loop)) for loop in loops]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until(condition: Any, seconds: float = 5) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 — what is polled for is no event
            await asyncio.sleep(0.005)


async def at_once() -> None:
    """Nothing to catch up with."""


def in_(store: LoopStore, execution_id: str, seconds: float, **fields: Any) -> int:
    """Something of this execution is due after so many seconds."""
    at = int((time() + seconds) * 1000)
    store.due_at[Due(execution_id, **fields)] = at
    return at


async def test_each_kind_of_due_gets_its_command(store: Any) -> None:
    in_(store, "a", 0, attempt_id="l1")
    in_(store, "b", 0, ordinal=2, index=-1)
    in_(store, "c", 0)
    await Sweeper(store, at_once).run_once()
    commands = {decide.execution_id: decide.command for decide in store.decided}
    assert isinstance(commands["a"], AttemptDue)
    assert commands["a"].attempt_id == "l1"
    assert 800 <= commands["a"].jitter <= 1200
    assert commands["b"] == StepDue(2, -1)
    assert commands["c"] == ExecutionDue()


async def test_what_is_told_of_is_swept_at_its_time(store: Any) -> None:
    sweeper = Sweeper(store, at_once)
    async with running(sweeper):
        await until(lambda: sweeper._looks_at_ms > 0)
        at = in_(store, "a", 0.1)
        sweeper.expect(at)
        await until(lambda: store.decided)
    assert 0 <= time() * 1000 - at < 100


async def test_what_nobody_told_of_is_swept_within_a_second(store: Any) -> None:
    async with running(Sweeper(store, at_once)):
        await asyncio.sleep(0)
        at = in_(store, "a", 0.05)
        await until(lambda: store.decided)
    assert time() * 1000 - at < 1000


async def test_one_that_fails_holds_up_nobody_and_does_not_spin(store: Any, caplog: pytest.LogCaptureFixture) -> None:
    in_(store, "poison", 0)
    in_(store, "a", 0)
    async with running(Sweeper(store, at_once)):
        await until(lambda: not any(due.execution_id == "a" for due in store.due_at))
        await until(lambda: len(store.decided) >= 3)
        count = len(store.decided)
        in_(store, "b", 0)
        await until(lambda: not any(due.execution_id == "b" for due in store.due_at))
    assert len(store.decided) <= count + 4
    assert {getattr(record, "about", {}).get("execution") for record in caplog.records} == {"poison"}


async def test_a_loop_outlives_its_store(store: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    store.away = True
    pulse = Pulse(store)
    async with running(pulse):
        await until(lambda: pulse.fault is not None)
        assert pulse.is_stale()
        store.away = False
        pulse.wake.set()
        await until(lambda: store.pulses == 1)
        await until(lambda: "the store is back" in caplog.text)
    assert pulse.fault is None
    assert not pulse.is_stale()
    assert caplog.text.count("the store is away") == 1


async def test_a_loop_outlives_its_own_faults(caplog: pytest.LogCaptureFixture) -> None:
    class Faulty:
        name = "faulty"
        rounds = 0
        wake = asyncio.Event()

        async def run_once(self) -> float:
            self.rounds += 1
            if self.rounds == 1:
                self.wake.set()
                raise ZeroDivisionError
            return 60

    faulty = Faulty()
    async with running(faulty):
        await until(lambda: faulty.rounds == 2)
    assert "faulty: a round failed" in caplog.text


async def test_nothing_passes_a_stale_pulse(store: Any) -> None:
    pulse = Pulse(store)
    store.stood_still = True
    await asyncio.gather(*(pulse.catch_up() for _ in range(50)))
    assert (store.pulses, pulse.graces) == (1, 1)
    await pulse.catch_up()
    assert store.pulses == 1, "a fresh pulse is not beaten again"
    pulse._beaten_at -= STALE_SECONDS + 1
    await pulse.catch_up()
    assert store.pulses == 2
    pulse._beaten_at += 3600
    assert pulse.is_stale(), "the clock was set back"
    store.away = True
    with pytest.raises(StoreUnavailable):
        await pulse.catch_up()


async def test_the_sweeper_looks_at_nothing_before_it_caught_up(store: Any) -> None:
    async def behind() -> None:
        raise StoreUnavailable("the pulse can't be moved")

    in_(store, "a", 0)
    with pytest.raises(StoreUnavailable):
        await Sweeper(store, behind).run_once()
    assert store.decided == []


async def test_retention_goes_on_while_there_is_something(store: Any) -> None:
    store.ended = 2 * BATCH + 1
    retention = Retention(store)
    assert [await retention.run_once() for _ in range(3)] == [BREATH_SECONDS, BREATH_SECONDS, LOOK_SECONDS]
    assert store.ended == 0


async def test_recovery_judges_every_open_execution_once(store: Any) -> None:
    assert await recover(store) == 450
    assert [decide.execution_id for decide in store.decided] == store.open
    assert all(isinstance(decide.command, Recover) for decide in store.decided)
