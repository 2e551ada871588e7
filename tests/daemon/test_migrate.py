"""`stepd migrate` and `stepd serve` on PostgreSQL: the owner brings the schema up, and another role serves from it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepd.migrating import migrate
from stepd.settings import Settings
from stepd.starting import StartRefused
from stepd_migrations import HEAD
from tests.support.daemon import STEPD, clean_environment, free_port, running
from tests.support.postgres import OWNER, Database, cluster, cluster_database, query

ROLE = "daemon_of_migrate"
REFUSED = 78


@pytest.fixture(scope="module")
def empty() -> Iterator[Database]:
    query(cluster().url(), f"create role {ROLE} login password '{ROLE}'")
    with cluster_database(empty=True) as database:
        yield database


def stepd(database: str, *words: str) -> subprocess.CompletedProcess[str]:
    env = clean_environment() | {"STEPD_DATABASE": database}
    return subprocess.run([STEPD, *words], env=env, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("url", "role", "says"),
    [
        ("postgresql://u:hush@127.0.0.1:{free}/x", None, "The database postgresql://u:…@127.0.0.1:"),
        ("postgresql://{role}:hush@{place}", None, "can't be used: password authentication failed"),
        ("postgresql://{role}:{role}@{place}", None, "can't be used: permission denied for schema public"),
        ("postgresql://{owner}:{owner}@{place}", "nobody", "--runtime-role nobody: there is no such role. Make it"),
    ],
)
def test_what_goes_wrong_is_said_without_secrets(empty: Database, url: str, role: str | None, says: str) -> None:
    place = f"127.0.0.1:{cluster().port}/{empty.name}"
    database = url.format(free=free_port(), role=ROLE, owner=OWNER, place=place)
    with pytest.raises(StartRefused) as refused:
        migrate(Settings(database=database), role)
    assert says in str(refused.value)
    assert "hush" not in str(refused.value)


def test_the_owner_makes_the_schema_and_grants_it(empty: Database) -> None:
    done = stepd(empty.url, "migrate", "--runtime-role", ROLE)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"has the schema version {HEAD}, where it had none" in done.stdout, "no refused one made it"
    assert f"The role {ROLE} can serve from it." in done.stdout
    assert query(cluster().url(empty.name, ROLE), "select count(*) from executions") == [(0,)]
    assert "Name the daemon's role with --runtime-role" in migrate(Settings(database=empty.url), None)


def test_serve_refuses_the_owner_unless_it_may(tmp_path: Path) -> None:
    with cluster_database() as database:
        refused = stepd(database.url, "serve", "--bind", "127.0.0.1:0")
        assert refused.returncode == REFUSED
        assert f"{OWNER} owns the table" in refused.stderr
        assert "--allow-owner-role" in refused.stderr
        with running(tmp_path / "owner", "--allow-owner-role", database=database.url) as daemon:
            shown = f"database postgresql://{OWNER}:…@127.0.0.1:{cluster().port}/{database.name}"
            assert shown in daemon.output(), "no password is in the log"
