"""Owns what the examples' tests run against: a real daemon, the command line, and an example's worker as a process."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TypeAlias

import pytest

from tests.cli.program import Program
from tests.support.daemon import Daemon, running
from tests.support.process import running_program

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

        def start(*command: str) -> "subprocess.Popen[str]":
            words = [sys.executable if word == "python" else word for word in command]
            return workers.enter_context(running_program(*words, STEPD_URL=daemon.url))

        yield start
