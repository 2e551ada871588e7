"""Owns a worker under test: it runs on a thread of its own, and is stopped at the end."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from stepd_worker import Context, Worker, Workflow
from stepd_worker.timing import PROTOCOL, Timing
from tests.sdk.peer import DEADLINE_SECONDS, Peer

HURRIED = replace(PROTOCOL, refused_key=0.05, last_words=1.0, last_words_at_once=0.3)


def jobs(body: Callable[..., Any], *, effect: Any = "idempotent_write", **options: Any) -> Workflow:
    """The workflow that the peer's leases belong to, with one step `work`."""
    workflow = Workflow("jobs", "1")
    workflow.step("work", effect=effect, **options)(body)
    return workflow


async def plus_one(ctx: Context, input: Any) -> Any:
    """The body of most tests."""
    return {"n": input["n"] + 1}


def raising(error: BaseException) -> Callable[..., Any]:
    """A body that raises this."""

    def body(ctx: Context, input: Any) -> None:
        raise error

    return body


def wait_for(holds: Callable[[], object], what: str) -> None:
    """Polls a condition until it holds; AssertionError after ten seconds."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.005)


class RunningWorker:
    """A worker on its thread, and how it ended."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def stop(self, *, drain: bool = True) -> None:
        """Asks it to end, and waits until it has."""
        self.worker.stop(drain=drain)
        self.join()

    def join(self) -> None:
        """Waits until it has ended by itself."""
        self._thread.join(DEADLINE_SECONDS)
        assert not self._thread.is_alive(), "the worker did not end"

    def _serve(self) -> None:
        try:
            self.worker.serve()
        except Exception as error:  # noqa: BLE001 — the test looks at it
            self.error = error


@contextmanager
def running(
    peer: Peer,
    *workflows: Workflow,
    concurrency: int = 4,
    drain_seconds: float = 5,
    timing: Timing = HURRIED,
) -> Iterator[RunningWorker]:
    """A worker of these workflows for the length of a test."""
    worker = Worker(peer.url, "w-1", concurrency, drain_seconds).register(*workflows)
    worker.timing = timing
    run = RunningWorker(worker)
    try:
        yield run
    finally:
        run.stop(drain=False)
