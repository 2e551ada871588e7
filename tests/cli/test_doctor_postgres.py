"""`stepd doctor` and a PostgreSQL database: server, role, schema, who serves from it, and what waits in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepd.doctor import examination
from stepd_migrations import HEAD
from tests.cli.examining import WRONG, Examined
from tests.support.client import Http
from tests.support.daemon import free_port, running
from tests.support.definitions import read
from tests.support.flow import make_flow
from tests.support.postgres import Database, cluster, cluster_database

NOWHERE = "http://127.0.0.1:1"


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    with cluster_database() as database:
        yield database


def examine(database: str, url: str | None = None) -> Examined:
    found = [one.as_json() for one in examination.examine({"database": database}, {}, url or NOWHERE, None)]
    assert "hush" not in json.dumps(found)
    is_ok = all(one["status"] != "wrong" for one in found)
    return Examined(0 if is_ok else WRONG, {"ok": is_ok, "checks": found})


def test_a_database_with_a_daemon(database: Database, tmp_path: Path) -> None:
    with running(tmp_path / "log", database=database.daemon_url) as daemon:
        make_flow(Http(daemon.url), read()).start()
        found = examine(database.daemon_url, daemon.url)
    found.expect("database", "ok", "PostgreSQL", cluster().version)
    found.expect("schema", "ok", HEAD)
    found.expect("role", "ok", "no more")
    found.expect("holder", "ok", "1 daemon at work")
    found.expect("pulse", "ok")
    found.expect("connections", "ok", "of 197 connections")
    found.expect("store-clock", "ok")
    found.expect("queue", "warning", "1 step stands for want of a worker")
    rest = examine(database.daemon_url)
    rest.expect("holder", "ok", "no daemon serves")
    rest.expect("daemon", "ok", "none runs")


def test_a_role_that_serve_would_not_take(database: Database) -> None:
    found = examine(database.url)
    found.expect("role", "wrong", "owns the table", "stepd migrate", "Serve refuses")


def test_a_database_without_a_schema_and_one_of_another_time() -> None:
    with cluster_database(empty=True) as empty:
        found = examine(empty.url)
        found.expect("schema", "wrong", "version none", "stepd migrate, as the owner")
        found.expect("access", "ok", "open mode")
        empty.query("create table alembic_version as select '9999' as version_num")
        examine(empty.url).expect("schema", "wrong", "version 9999, newer")
        empty.query("alter table alembic_version rename to theirs")
        examine(empty.url).expect("database", "wrong", "is another program's")


def test_a_server_that_cannot_be_used(database: Database) -> None:
    nowhere = f"postgresql://u:hush@127.0.0.1:{free_port()}/x"
    examine(nowhere).expect("database", "wrong", "postgresql://u:…@127.0.0.1", "can't be reached")
    stranger = cluster().url(database.name, "nobody_known", "hush")
    examine(stranger).expect("database", "wrong", "does not let this user in")
