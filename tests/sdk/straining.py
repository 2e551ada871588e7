"""Owns bodies that strain the worker process that runs them: they fork, hang, and swallow what asks them to stop."""

import asyncio
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

from stepd_worker import Context, Workflow

NEVER: Final = threading.Event()
STEADY_STEPS: Final = 10

forking = Workflow("forking")
stubborn = Workflow("stubborn", on_failure="fail")
steady = Workflow("steady")


@forking.step(effect="read_only")
def plain(ctx: Context, input: Any) -> Any:
    """The child goes the way that the input names; the parent returns the child's exit status."""
    child = os.fork()
    return _in_child(input) if child == 0 else os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@forking.step(effect="read_only")
async def on_the_loop(ctx: Context, input: Any) -> Any:
    """The same on the worker's event loop."""
    child = os.fork()
    if child == 0:
        return _in_child(input)
    # Time for a child that goes on as a worker to do harm: were it to settle this lease, this output would be lost.
    await asyncio.sleep(0.2)
    return os.waitstatus_to_exitcode((await asyncio.to_thread(os.waitpid, child, 0))[1])


def _in_child(way: str) -> str:
    if way == "sys.exit":
        sys.exit(7)
    if way == "raise":
        raise LookupError("in the child")
    return "the child's own output"


@stubborn.step(effect="read_only", needs=[])
def hangs(ctx: Context, input: Any) -> None:
    """Never looks whether it is asked to stop."""
    NEVER.wait()


@stubborn.step(effect="read_only", needs=[])
async def swallows(ctx: Context, input: Any) -> None:
    """Goes on at each CancelledError."""
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            ctx.log.info("swallowed")


@stubborn.step(effect="read_only", needs=[])
async def fills_the_pool(ctx: Context, input: Any) -> None:
    """Takes all threads of the loop's own pool, for good."""
    await asyncio.gather(*(asyncio.to_thread(NEVER.wait) for _ in range(40)))


def _record(ctx: Context) -> None:
    """One line for each body that began. Lines this short are appended whole."""
    with Path(os.environ["STRAINING_RECORD"]).open("a") as record:
        record.write(f"{ctx.execution.id} {ctx.step}\n")


async def _async_body(ctx: Context, input: Any) -> int:
    _record(ctx)
    await asyncio.sleep(0.03)
    return os.getpid()


def _plain_body(ctx: Context, input: Any) -> int:
    _record(ctx)
    time.sleep(0.03)
    return os.getpid()


for _number in range(STEADY_STEPS):
    _effect: Any = ("read_only", "idempotent_write", "non_idempotent_write")[_number % 3]
    steady.step(f"s{_number}", effect=_effect, needs=[], lease_seconds=3, reclaim_seconds=0)(
        _plain_body if _number % 2 else _async_body
    )
