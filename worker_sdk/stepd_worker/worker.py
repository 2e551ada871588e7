"""Owns what a program uses of a worker: its settings, its workflows, serving and stopping."""

import asyncio
import logging
import os
import re
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, Self

from stepd_protocol.names import NAME_LENGTH_MAX, is_name
from stepd_worker.client import Client
from stepd_worker.life import Life
from stepd_worker.timing import PROTOCOL, Timing
from stepd_worker.workflow import Workflow

logger = logging.getLogger("stepd_worker")

CONCURRENCY: Final = 10
DRAIN_SECONDS: Final = 20.0
CONCURRENCY_MAX: Final = 10_000
# How long a loop that this module made waits for what bodies left behind.
LEFT_BEHIND_SECONDS: Final = 0.5


class Worker:
    """Runs the bodies of workflows: `Worker("http://127.0.0.1:7117").register(support).serve()`.

    `client` is a Client or an address; left out, STEPD_URL and STEPD_KEY say. `name` left out comes from
    STEPD_WORKER_NAME, else from host and process. `concurrency` is the number of slots (STEPD_WORKER_CONCURRENCY, 10):
    bodies that run side by side. `drain_seconds` (STEPD_WORKER_DRAIN_SECONDS, 20) is how long a stopping worker lets
    its bodies run on. Raises ValueError for settings that cannot be.
    """

    timing: Timing = PROTOCOL
    """The times that it keeps by itself; a test may be in more of a hurry."""

    def __init__(
        self,
        client: Client | str | None = None,
        name: str | None = None,
        concurrency: int | None = None,
        drain_seconds: float | None = None,
    ) -> None:
        self._endpoint = client.endpoint if isinstance(client, Client) else Client(client).endpoint
        self.name = name or os.environ.get("STEPD_WORKER_NAME") or _own_name()
        self.concurrency = int(_setting("CONCURRENCY", concurrency, CONCURRENCY))
        self.drain_seconds = _setting("DRAIN_SECONDS", drain_seconds, DRAIN_SECONDS)
        if not is_name(self.name):
            raise ValueError(f"{self.name!r} is no name for a worker: letters, digits and . _ : - only, 128 at most")
        if not 1 <= self.concurrency <= CONCURRENCY_MAX:
            raise ValueError(f"A worker has 1 to {CONCURRENCY_MAX} slots, not {self.concurrency}")
        if self.drain_seconds < 0:
            raise ValueError(f"The drain takes 0 seconds or more, not {self.drain_seconds}")
        self._workflows: list[Workflow] = []
        # A signal's handler takes it too, on the thread that may have it just then.
        self._lock = threading.RLock()
        self._life: Life | None = None
        self._stop_asked: bool | None = None
        """Whether a stop that came before the start wants it to drain; None for none."""

    def register(self, *workflows: Workflow) -> Self:
        """Adds workflows to serve; one of waits and other steps that the daemon does itself is registered all the same.

        Raises ValueError for one that has tasks but no body, or is there already.
        """
        for workflow in workflows:
            if not workflow.bodies and (workflow.tasks or not workflow.steps):
                raise ValueError(f"The workflow {workflow.name!r} has no body here: decorate one with @….step(…)")
            if any((known.name, known.version) == (workflow.name, workflow.version) for known in self._workflows):
                raise ValueError(f"The workflow {workflow.name!r} version {workflow.version!r} is registered already")
            workflow.definition()
            self._workflows.append(workflow)
        return self

    def serve(self) -> None:
        """Works until it is stopped: by `stop`, or, on the main thread, by SIGTERM or SIGINT.

        The first signal drains, a second stops it at once. Raises WorkerRefused where the daemon does not let it work.
        """
        if _in_loop():
            raise RuntimeError("serve() would block the running event loop: await serve_async() there")
        with self._signals():
            _run(self.serve_async())

    async def serve_async(self) -> None:
        """The same in a running loop, without signals. Cancelling it stops it at once."""
        if not self._workflows:
            raise ValueError("The worker has nothing to serve: register a workflow first")
        life = Life(
            self._endpoint,
            self.name,
            self._workflows,
            concurrency=self.concurrency,
            drain_seconds=self.drain_seconds,
            timing=self.timing,
        )
        with self._lock:
            if self._life is not None:
                raise RuntimeError(f"The worker {self.name!r} serves already")
            self._life = life
            asked, self._stop_asked = self._stop_asked, None
        try:
            if asked is not None:
                life.stop(drain=asked)
            await life.run()
        finally:
            with self._lock:
                self._life = None

    def stop(self, drain: bool = True) -> None:
        """Ends serving, from any thread; returns at once. With `drain` its bodies may end first.

        Called before `serve`, it has the next one end as soon as it begins.
        """
        with self._lock:
            life = self._life
            if life is None:
                self._stop_asked = drain
                return
        life.stop(drain=drain)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Stops on signals while it lasts. Only the main thread can; elsewhere it does nothing."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        came: list[int] = []

        def handle(number: int, frame: FrameType | None) -> None:
            came.append(number)
            self.stop(drain=len(came) == 1)
            if len(came) > 1:
                # A third one meets whatever was there before, which by default ends the process.
                restore()

        before: dict[int, Any] = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}

        def restore() -> None:
            for number, handler in before.items():
                signal.signal(number, handler)

        try:
            yield
        finally:
            restore()


def _run(work: Any) -> None:
    """Runs a coroutine on a loop of its own, which a body that does not stop cannot keep from ending."""
    loop = asyncio.new_event_loop()
    try:
        _until_done(loop, loop.create_task(work))
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=LEFT_BEHIND_SECONDS))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def _until_done(loop: asyncio.AbstractEventLoop, serving: "asyncio.Task[None]") -> None:
    """Runs the loop until the worker has ended. What a body's own tasks do to the loop does not end it before."""
    serving.add_done_callback(lambda _: loop.stop())
    while not serving.done():
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt) as fault:  # asyncio lets them out of any task, a body's own too
            logger.error("A task or callback of a body raised %r: the worker goes on", fault)
    serving.result()


def _in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _setting(name: str, given: float | None, default: float) -> float:
    if given is not None:
        return given
    text = os.environ.get(f"STEPD_WORKER_{name}")
    if text is None:
        return default
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"STEPD_WORKER_{name} must be a number, not {text!r}") from None


def _own_name() -> str:
    host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname()).lstrip(".-_") or "host"
    end = f"-{os.getpid()}"
    return host[: NAME_LENGTH_MAX - len(end)] + end
