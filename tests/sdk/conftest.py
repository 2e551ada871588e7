"""Owns the fixtures of the SDK's tests."""

from collections.abc import Iterator

import pytest

from stepd_worker import Client
from tests.sdk.peer import Peer, running_peer
from tests.sdk.traced import Program, provider_of, set_up
from tests.support.daemon import Daemon
from tests.support.daemon import running as running_daemon

SHORT_LEASES = ("--lease-seconds", "1", "--heartbeat-seconds", "0.25", "--reclaim-seconds", "0.5")


@pytest.fixture
def peer() -> Iterator[Peer]:
    """A scripted daemon on a port of its own."""
    with running_peer() as running:
        yield running


@pytest.fixture(scope="session")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A real daemon with short leases, for all tests: each has a workflow of its own name."""
    with running_daemon(tmp_path_factory.mktemp("daemon") / "stepd.db", *SHORT_LEASES) as daemon:
        yield daemon


@pytest.fixture
def client(daemon: Daemon) -> Iterator[Client]:
    """A way to that daemon which no proxy disturbs."""
    with Client(daemon.url) as client:
        yield client


@pytest.fixture(params=["no provider", "a provider"])
def program(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Each test runs with and without a provider of the program's own."""
    program = Program()
    set_up(monkeypatch, provider_of(program) if request.param == "a provider" else None)
    return program
