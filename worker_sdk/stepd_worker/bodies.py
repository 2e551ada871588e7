"""Owns the running of bodies: async ones as tasks of the loop, plain ones on a few threads that are reused."""

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any, Final

from stepd_worker import forks
from stepd_worker.context import Context
from stepd_worker.held import Held
from stepd_worker.outcomes import Failed, Outcome, Stopped, raised, returned
from stepd_worker.tracing import enter_trace
from stepd_worker.workflow import Body

logger = logging.getLogger("stepd_worker")

Work = Callable[[], Callable[[], object]]
"""Returns what tells its end."""

NEVER_BEGAN: Final = Stopped("none")
"""The outcome of a body that was told to stop before it could begin."""


class Threads:
    """Up to `most` threads, started as they are needed. They never hold up the end of the process."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._started = 0
        self._free = 0
        """Threads that wait for work, less the work that waits for threads."""
        self._lock = threading.Lock()
        self._queue: SimpleQueue[Work | None] = SimpleQueue()

    def submit(self, work: Work) -> None:
        """Runs work on a free thread; waits for one where all are taken. Raises RuntimeError where none can be had."""
        with self._lock:
            starts = self._free <= 0 and self._started < self._most
            if starts:
                self._started += 1
            else:
                self._free -= 1
        if starts:
            self._start_thread()
        self._queue.put(work)

    def close(self) -> None:
        """Lets threads end as they become free."""
        for _ in range(self._started):
            self._queue.put(None)

    def _start_thread(self) -> None:
        try:
            threading.Thread(target=self._run, name=f"stepd-body-{self._started}", daemon=True).start()
        except RuntimeError:
            with self._lock:
                self._started -= 1
            raise

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            tell = work()
            # Free before anybody hears of the end, so that what is begun upon it finds this thread.
            with self._lock:
                self._free += 1
            tell()


def start_body(body: Body, held: Held, arguments: tuple[Any, ...], threads: Threads) -> "asyncio.Future[Outcome]":
    """Starts a body on the loop or on a thread. The future is its end; cancelling that leaves the body alone."""
    loop = asyncio.get_running_loop()
    context = Context(held, is_async=body.is_async)
    done: asyncio.Future[Outcome] = loop.create_future()
    if body.is_async:
        task = loop.create_task(_run_async(body, held, context, arguments, done))
        task.add_done_callback(partial(_never_began, done))
        held.stop_body = partial(_stop_async, loop, task, context)
    else:
        held.stop_body = partial(_stop_plain, context)
        run = partial(_run_plain, body, held, context, arguments, done, loop)
        _submit(threads, partial(contextvars.copy_context().run, run), done)
    if held.cancellation.is_set():
        held.stop_body()
    return done


async def _run_async(
    body: Body, held: Held, context: Context, arguments: tuple[Any, ...], done: "asyncio.Future[Outcome]"
) -> None:
    generation = forks.generation()
    try:
        if held.cancellation.is_set():
            outcome: Outcome = NEVER_BEGAN
        else:
            enter_trace(held.spans)
            outcome = returned(await body.function(context, *arguments), context.changed_state, held)
    except BaseException as error:  # whatever a body raises is its outcome, sys.exit() too
        if isinstance(error, GeneratorExit) and done.get_loop().is_closed():
            raise  # left behind: nobody waits for its outcome
        forks.leave_if_forked(generation, error)
        outcome = _outcome_of(error, held)
    forks.leave_if_forked(generation)
    _resolve(done, outcome)


def _run_plain(
    body: Body,
    held: Held,
    context: Context,
    arguments: tuple[Any, ...],
    done: "asyncio.Future[Outcome]",
    loop: asyncio.AbstractEventLoop,
) -> Callable[[], object]:
    generation = forks.generation()
    try:
        if held.cancellation.is_set():
            outcome: Outcome = NEVER_BEGAN
        else:
            enter_trace(held.spans)
            outcome = returned(body.function(context, *arguments), context.changed_state, held)
    except BaseException as error:  # noqa: BLE001 — whatever a body raises is its outcome, sys.exit() too
        forks.leave_if_forked(generation, error)
        outcome = _outcome_of(error, held)
    forks.leave_if_forked(generation)
    return partial(_call_soon, loop, _resolve, done, outcome)


def _outcome_of(error: BaseException, held: Held) -> Outcome:
    """What an error says. A slot waits for the outcome, so that there must be one whatever the error itself does."""
    try:
        return raised(error, held)
    except BaseException:  # noqa: BLE001 — an error's own methods may raise anything
        return Failed("fatal", type(error).__name__, None if held.started else "none")


def _never_began(done: "asyncio.Future[Outcome]", task: "asyncio.Task[None]") -> None:
    """A task that is cancelled before its first step runs none of its code, not even what would tell its outcome."""
    if task.cancelled():
        _resolve(done, NEVER_BEGAN)


def _submit(threads: Threads, work: Work, done: "asyncio.Future[Outcome]") -> None:
    try:
        threads.submit(work)
    except RuntimeError as fault:  # the process has no room for another thread: another worker may
        logger.error("A body could not begin: %s", fault)
        _resolve(done, Failed("interrupted", f"The worker has no thread for it: {fault}", effect="none"))


def _resolve(done: "asyncio.Future[Outcome]", outcome: Outcome) -> None:
    if not done.done():
        done.set_result(outcome)


def _stop_async(loop: asyncio.AbstractEventLoop, task: "asyncio.Task[None]", context: Context) -> None:
    _call_soon(loop, _cancel, task, context)


def _call_soon(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *arguments: Any) -> None:
    try:
        loop.call_soon_threadsafe(function, *arguments)
    except RuntimeError:  # the loop is closed: the worker has ended without this body
        pass


def _cancel(task: "asyncio.Task[None]", context: Context) -> None:
    context.run_callbacks()
    task.cancel()


def _stop_plain(context: Context) -> None:
    # Not on the thread that noticed: a callback that blocks there would hold up everybody's heartbeats.
    if context.has_callbacks:
        threading.Thread(target=context.run_callbacks, name="stepd-on-cancel", daemon=True).start()
