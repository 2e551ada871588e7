"""Daemons on one PostgreSQL database, each a process of its own; none is left when a test ends."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import postgres
from tests.support.daemon import Daemon

MakeDaemon = Callable[..., Daemon]


@pytest.fixture
def database() -> Iterator[postgres.Database]:
    """An empty database with the newest schema."""
    made = postgres.emptied_database()
    yield made
    postgres.give_back(made)


@pytest.fixture
def make_daemon(database: postgres.Database, tmp_path: Path) -> Iterator[MakeDaemon]:
    """Makes daemons on the test's database, or on the one of that URL, without starting them."""
    made: list[Daemon] = []

    def make(*flags: str, url: str | None = None, env: dict[str, str] | None = None) -> Daemon:
        owner = () if postgres.own_server() is None else ("--allow-owner-role",)
        place = url or database.daemon_url
        made.append(Daemon(tmp_path / "log", *flags, *owner, database=place, env=env))
        return made[-1]

    yield make
    for daemon in made:
        daemon.close()
