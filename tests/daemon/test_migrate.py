"""`stepd migrate` on PostgreSQL: the owner brings the schema up and lets the daemon's role use it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepd_migrations import HEAD
from tests.support.daemon import STEPD, clean_environment, free_port, running
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


def serve(url: str, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [str(STEPD), "serve", "--bind", "127.0.0.1:0", *flags]
    env = clean_environment() | {"STEPD_DATABASE": url}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_serve_takes_no_schema_but_its_own_and_no_role_but_a_daemons(tmp_path: Path) -> None:
    with cluster_database() as database:
        owner = serve(database.url)
        database.query("update alembic_version set version_num = '0001'")
        older = serve(database.daemon_url)
        database.query("update alembic_version set version_num = '9999'")
        newer = serve(database.daemon_url)
        database.query(f"update alembic_version set version_num = '{HEAD}'")
        for refused, said in (
            (owner, "stepd_owner owns the table"),
            (owner, "--allow-owner-role"),
            (older, f"version 0001, and this stepd needs {HEAD}. Bring it up with `stepd migrate --database"),
            (newer, f"version 9999, and this stepd knows up to {HEAD}"),
        ):
            assert refused.returncode == REFUSED, refused
            assert said in refused.stderr
        with running(tmp_path / "owner", "--allow-owner-role", database=database.url) as daemon:
            assert ":stepd_owner@" not in daemon.output(), "no password is in the log"
            assert f"database postgresql://stepd_owner:…@127.0.0.1:{cluster().port}/" in daemon.output()
