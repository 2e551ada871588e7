"""Owns workers of a real daemon: on a thread of the test, or as processes that are told to stop as those in use are."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stepd_worker import ApiError, Client, Worker, Workflow
from tests.sdk.running import RunningWorker, wait_for
from tests.support.daemon import clean_environment
from tests.support.process import ROOT

START_SECONDS = 20.0


@contextmanager
def serving(client: Client, *workflows: Workflow, url: str | None = None, **settings: Any) -> Iterator[RunningWorker]:
    """A worker on a thread, once its workflows are registered; `url` is its own way to the daemon."""
    settings = {"concurrency": 4, "drain_seconds": 0.5, **settings}
    run = RunningWorker(Worker(url or client, **settings).register(*workflows))
    try:
        wait_for(lambda: run.error or all(is_served(client, w.name) for w in workflows), "the worker to serve")
        assert run.error is None
        yield run
    finally:
        run.stop(drain=False)


def is_served(client: Client, workflow: str) -> bool:
    """Whether a live worker serves a version of it."""
    try:
        return any(version["served"] for version in client.workflow(workflow)["versions"])
    except ApiError:
        return False


class WorkerProcess:
    """`python -m stepd_worker serve`, with a log of its own."""

    def __init__(self, url: str, target: str, log: Path, *flags: str, **environment: str) -> None:
        self.log = log
        self._ready = len(self.output())
        command = [sys.executable, "-m", "stepd_worker", "serve", target, "--url", url, *flags]
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                command, cwd=ROOT, stdout=file, stderr=file, env=clean_environment() | environment
            )

    def is_ready(self) -> bool:
        """Whether it has registered what it serves."""
        assert self._process.poll() is None, f"the worker ended:\n{self.output()}"
        return "Serving " in self.output()[self._ready :]

    def terminate(self) -> None:
        """As an orchestrator does: SIGTERM."""
        self._process.send_signal(signal.SIGTERM)

    def ended(self, seconds: float) -> int:
        """Its exit status; it must end within so many seconds."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the worker still runs after {seconds} s:\n{self.output()}") from None

    def close(self) -> None:
        """Makes sure that it is gone."""
        if self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait(10)

    def output(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""


@contextmanager
def worker_process(url: str, target: str, log: Path, *flags: str, **environment: str) -> Iterator[WorkerProcess]:
    """A worker process that serves, for the length of a `with` block."""
    worker = WorkerProcess(url, target, log, *flags, **environment)
    try:
        wait_for(worker.is_ready, "the worker process to serve")
        yield worker
    finally:
        worker.close()
