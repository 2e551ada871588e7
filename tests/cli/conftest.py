"""Owns the fixtures of the command line's tests: the program against a scripted daemon, and against a real one."""

from collections.abc import Iterator

import pytest

from tests.cli.program import Program
from tests.sdk.peer import Peer, running_peer
from tests.support.client import Http
from tests.support.daemon import Daemon, running


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
