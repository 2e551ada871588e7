"""`stepd migrate` on PostgreSQL: the owner brings the schema up and lets the daemon's role use it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from stepd_migrations import HEAD
from tests.support.daemon import STEPD, clean_environment, free_port
from tests.support.postgres import Database, cluster, cluster_database, query

ROLE = "daemon_of_migrate"
REFUSED = 78


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    query(cluster().url(), f"create role {ROLE} login password '{ROLE}'")
    with cluster_database(empty=True) as database:
        yield database


def migrate(url: str, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [str(STEPD), "migrate", *flags]
    env = clean_environment() | {"STEPD_DATABASE": url}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_the_owner_makes_the_schema_and_grants_it(database: Database) -> None:
    first = migrate(database.url)
    assert (first.returncode, first.stderr) == (0, "")
    assert (
        f"has the schema version {HEAD}, where it had none. Name the daemon's role with --runtime-role" in first.stdout
    )
    again = migrate(database.url, "--runtime-role", ROLE)
    assert f"has the schema version {HEAD}. The role {ROLE} can serve from it." in again.stdout
    assert query(cluster().url(database.name, ROLE), "select count(*) from executions") == [(0,)]


def test_what_goes_wrong_is_said_without_secrets(database: Database) -> None:
    nowhere = migrate(f"postgresql://u:hush@127.0.0.1:{free_port()}/x")
    wrong = migrate(cluster().url(database.name, ROLE, "hush"))
    unknown = migrate(database.url, "--runtime-role", "nobody_at_all")
    for refused, said in (
        (nowhere, "stepd: The database postgresql://u:…@127.0.0.1:"),
        (wrong, f'can\'t be used: password authentication failed for user "{ROLE}"'),
        (unknown, "--runtime-role nobody_at_all: there is no such role. Make it first"),
    ):
        assert refused.returncode == REFUSED
        assert said in refused.stderr
        assert "hush" not in refused.stderr
        assert "Traceback" not in refused.stderr


def test_a_role_that_may_not_make_tables_is_told(database: Database) -> None:
    with cluster_database(empty=True) as empty:
        refused = migrate(cluster().url(empty.name, ROLE))
    assert refused.returncode == REFUSED
    assert "permission denied for schema public" in refused.stderr
