"""Owns what the examples' tests run against: a real daemon, the command line, and an example's worker as a process."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.cli.program import Program
from tests.support.daemon import Daemon, clean_environment, running

ROOT = Path(__file__).resolve().parents[2]
STOP_SECONDS = 20

StartWorker: TypeAlias = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A real daemon, for the tests of one module."""
    with running(tmp_path_factory.mktemp("examples") / "stepd.db") as started:
        yield started


@pytest.fixture(scope="module")
def stepd(daemon: Daemon) -> Program:
    """The program, told where the daemon is."""
    return Program(daemon.url)


@pytest.fixture
def start_worker(daemon: Daemon) -> Iterator[StartWorker]:
    """Starts a worker's command from the project's root; `python` is this Python. It is stopped after the test."""
    with ExitStack() as workers:
        yield lambda *command: workers.enter_context(_process(daemon.url, *command))


@contextmanager
def _process(url: str, *command: str) -> Iterator["subprocess.Popen[str]"]:
    arguments = [sys.executable if word == "python" else word for word in command]
    process = subprocess.Popen(
        arguments,
        cwd=ROOT,
        env=clean_environment() | {"STEPD_URL": url},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=STOP_SECONDS)
        finally:
            process.kill()
            process.wait()
