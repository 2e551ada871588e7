"""The running of single bodies: told to stop before they begin, threads that are reused, contexts that do not leak."""

import asyncio
import threading
from contextvars import ContextVar
from typing import Any

import msgspec
import pytest

from stepd_protocol.leases import Lease
from stepd_worker import Context, Workflow
from stepd_worker.bodies import NEVER_BEGAN, Threads, start_body
from stepd_worker.held import Held
from stepd_worker.outcomes import Completed, Outcome
from tests.sdk.peer import DEADLINE_SECONDS, lease

mark: ContextVar[str] = ContextVar("mark", default="clean")


def _held() -> Held:
    return Held(msgspec.json.decode(msgspec.json.encode(lease()), type=Lease), 0)


async def _run(function: Any, held: Held, threads: Threads) -> Outcome:
    workflow = Workflow("jobs", "1")
    workflow.step("work", effect="idempotent_write")(function)
    async with asyncio.timeout(DEADLINE_SECONDS):
        return await start_body(workflow.bodies["work"], held, (None,), threads)


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_body_that_is_told_to_stop_first_never_begins(is_async: bool) -> None:
    begun: list[int] = []

    async def async_body(ctx: Context, input: Any) -> None:
        begun.append(1)

    def plain_body(ctx: Context, input: Any) -> None:
        begun.append(1)

    held, threads = _held(), Threads(1)
    held.cancel("cancel_requested")
    assert await _run(async_body if is_async else plain_body, held, threads) is NEVER_BEGAN
    assert begun == []
    threads.close()


@pytest.mark.parametrize("is_async", [True, False])
async def test_what_a_body_sets_in_its_context_stays_there(is_async: bool) -> None:
    async def async_body(ctx: Context, input: Any) -> str:
        before = mark.get()
        mark.set("dirty")
        return before

    def plain_body(ctx: Context, input: Any) -> str:
        before = mark.get()
        mark.set("dirty")
        return before

    threads = Threads(1)
    for _ in range(3):
        outcome = await _run(async_body if is_async else plain_body, _held(), threads)
        assert outcome == Completed(b'"clean"')
    threads.close()


async def test_threads_are_made_as_they_are_needed() -> None:
    threads, barrier = Threads(3), threading.Barrier(3)

    def together(ctx: Context, input: Any) -> str:
        barrier.wait(DEADLINE_SECONDS)
        return threading.current_thread().name

    def alone(ctx: Context, input: Any) -> str:
        return threading.current_thread().name

    before = set(threading.enumerate())
    outcomes = {str(await _run(alone, _held(), threads)) for _ in range(5)}
    assert len(outcomes) == 1
    assert len(set(threading.enumerate()) - before) == 1
    await asyncio.gather(*(_run(together, _held(), threads) for _ in range(3)))
    assert len(set(threading.enumerate()) - before) == 3
    threads.close()
