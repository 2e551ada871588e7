"""Owns the fixtures of the command line's tests: the program against a scripted daemon, and against a real one."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.program import Program
from tests.sdk.peer import Peer, running_peer
from tests.support.client import Http
from tests.support.daemon import Daemon, running
from tests.support.definitions import read
from tests.support.flow import make_flow


@pytest.fixture
def peer() -> Iterator[Peer]:
    """A scripted daemon on a port of its own."""
    with running_peer() as scripted:
        yield scripted


@pytest.fixture
def stepd(peer: Peer) -> Program:
    """The program, told where the scripted daemon is."""
    return Program(peer.url)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A real daemon, for the tests of one module."""
    with running(tmp_path_factory.mktemp("cli") / "stepd.db") as started:
        yield started


@pytest.fixture(scope="module")
def real(daemon: Daemon) -> Program:
    """The program, told where the real daemon is."""
    return Program(daemon.url)


@pytest.fixture(scope="module")
def http(daemon: Daemon) -> Http:
    """Plain calls to the real daemon."""
    return Http(daemon.url)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database that a daemon has left in good order, with one execution in its queue."""
    file = tmp_path_factory.mktemp("made") / "stepd.db"
    with running(file) as daemon:
        make_flow(Http(daemon.url), read()).start()
        assert daemon.stop() == 0
    return file


@pytest.fixture
def file(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copy(made, tmp_path / "stepd.db"))
