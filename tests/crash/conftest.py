"""Daemons that crash tests start, kill and start again on one file; none is left when a test ends."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Daemon

MakeDaemon = Callable[..., Daemon]


@pytest.fixture
def make_daemon(tmp_path: Path) -> Iterator[MakeDaemon]:
    """Makes daemons on one file of this test, without starting them."""
    made: list[Daemon] = []

    def make(*flags: str, port: int | None = None) -> Daemon:
        made.append(Daemon(tmp_path / "stepd.db", *flags, port=port))
        return made[-1]

    yield make
    for daemon in made:
        daemon.close()
