"""One daemon for the tests of bad input, and daemons that a test has for itself on a file of its own."""

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.client import Http
from tests.support.daemon import Daemon, running

MakeDaemon = Callable[..., Daemon]


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Daemon, Http]]:
    """A daemon with keys, and the client of one with the scope `admin`."""
    secret = secrets.token_urlsafe(32)
    file = tmp_path_factory.mktemp("faults") / "stepd.db"
    with running(file, env={"STEPD_ADMIN_KEYS": f"tester={secret}"}) as daemon:
        yield daemon, Http(daemon.url, secret)


@pytest.fixture(scope="session")
def http(served: tuple[Daemon, Http]) -> Http:
    return served[1]


@pytest.fixture
def make_daemon(tmp_path: Path) -> Iterator[MakeDaemon]:
    """Makes daemons, without starting them; none is left when the test ends."""
    made: list[Daemon] = []

    def make(*flags: str, file: Path | None = None) -> Daemon:
        made.append(Daemon(file or tmp_path / "stepd.db", *flags))
        return made[-1]

    yield make
    for daemon in made:
        daemon.close()
