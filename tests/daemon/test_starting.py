"""Starts that are refused: exit status 78, and a text that names the thing and the way out."""

import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.client import Http
from tests.support.daemon import STEPD, Daemon, clean_environment, running

REFUSED = 78


def refusal(*arguments: str, **environment: str) -> str:
    """What `stepd` says when it refuses to run so."""
    ended = subprocess.run(
        [str(STEPD), *arguments],
        env=clean_environment() | environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode == REFUSED, f"{ended.returncode}: {ended.stderr}"
    assert ended.stderr.startswith("stepd: "), ended.stderr
    assert "Traceback" not in ended.stderr
    return ended.stderr


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'stepd.db'}"


def test_settings_that_cannot_be() -> None:
    told = refusal("serve", "--heartbeat-seconds", "11", STEPD_LOG_FORMAT="xml")
    assert "--heartbeat-seconds 11 is over a third of --lease-seconds 30" in told
    assert "STEPD_LOG_FORMAT=xml: must be one of text, json" in told


def test_another_address_without_keys(database: str) -> None:
    told = refusal("serve", "--bind", "0.0.0.0:0", "--database", database)
    assert "without keys the daemon listens on a loopback address only" in told
    assert "STEPD_ADMIN_KEYS=" in told


def test_keys_without_an_admin(database: str) -> None:
    told = refusal("serve", "--bind", "127.0.0.1:0", "--database", database, STEPD_WORKER_KEYS="w=secret")
    assert "No key has the scope admin" in told
    assert "secret" not in told.replace("the secret", "")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql://u:hush@host:port/x", "makes no sense"),
        ("mysql://x", "no such kind"),
        ("stepd.db", "no such kind"),
        ("sqlite://", "name a file"),
        ("sqlite:////no/such/directory/stepd.db", "there is no directory /no/such/directory"),
        ("sqlite:////tmp", "is a directory"),
    ],
)
def test_a_database_that_cannot_be(url: str, says: str) -> None:
    told = refusal("serve", "--database", url)
    assert says in told
    assert "hush" not in told


def test_a_file_of_another_program(tmp_path: Path, database: str) -> None:
    with sqlite3.connect(tmp_path / "stepd.db") as other:
        other.execute("create table theirs (a)")
    other.close()
    assert "a database of another program" in refusal("serve", "--bind", "127.0.0.1:0", "--database", database)


@pytest.mark.parametrize("bind", ["7117", "localhost", "127.0.0.1:99999", ":7117", "::1:7117", "127.0.0.1:http"])
def test_an_address_that_cannot_be(bind: str, database: str) -> None:
    assert f"--bind {bind}: " in refusal("serve", "--bind", bind, "--database", database)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(tmp_path_factory.mktemp("first") / "stepd.db") as daemon:
        yield daemon


def test_a_port_in_use(daemon: Daemon, database: str) -> None:
    told = refusal("serve", "--bind", f"127.0.0.1:{daemon.port}", "--database", database)
    assert f"--bind 127.0.0.1:{daemon.port}: " in told
    assert "give another --bind" in told


def test_a_file_in_use(daemon: Daemon) -> None:
    told = refusal("serve", "--bind", "127.0.0.1:0", "--database", f"sqlite:///{daemon.file}")
    assert f"in use by another daemon: pid {daemon.pid}" in told
    assert f"in use by another daemon: pid {daemon.pid}" in refusal("migrate", "--database", f"sqlite:///{daemon.file}")


def test_the_first_line_says_where_it_listens(daemon: Daemon) -> None:
    assert f"listens on {daemon.url}, database sqlite:///{daemon.file}, open mode" in daemon.output()


def test_migrate_makes_a_database_that_serve_takes(tmp_path: Path) -> None:
    file = tmp_path / "stepd.db"
    ended = subprocess.run(
        [str(STEPD), "migrate", "--database", f"sqlite:///{file}"],
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert "has the schema version" in ended.stdout
    assert file.is_file()
    with running(file) as daemon:
        assert Http(daemon.url).get("/v1/service").status == 200
    assert "PostgreSQL" in refusal("migrate", "--database", f"sqlite:///{file}", "--runtime-role", "stepd")


def test_a_part_that_is_off_is_not_there(tmp_path: Path) -> None:
    with running(tmp_path / "stepd.db", "--no-worker-api", env={"STEPD_LOOPS": "false"}) as daemon:
        http = Http(daemon.url)
        http.post("/v1/leases/claim", {}).expect_problem(404, "not_found")
        parts = http.get("/readyz").expect(200)["parts"]
        assert (parts["worker_api"], parts["loops"], parts["request_api"]) == (False, False, True)


def test_keys_of_the_settings_come_and_go_with_them(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "stepd.db", env={"STEPD_ADMIN_KEYS": "ops=one", "STEPD_READ_KEYS": "eye=two"})
    try:
        daemon.start()
        assert "with keys" in daemon.output()
        Http(daemon.url).get("/v1/service").expect_problem(401, "unauthenticated")
        assert Http(daemon.url, "two").get("/v1/executions").status == 200
        daemon.stop()
        daemon.env = {"STEPD_ADMIN_KEYS": "ops=three"}
        daemon.start()
        assert Http(daemon.url, "three").get("/v1/service").status == 200
        for gone in ("one", "two"):
            Http(daemon.url, gone).get("/v1/service").expect_problem(401, "unauthenticated")
        daemon.stop()
        daemon.env = {}
        daemon.start()
        Http(daemon.url).get("/v1/service").expect_problem(401, "unauthenticated")
        assert Http(daemon.url, "three").get("/v1/service").status == 200, "no key in the settings changes nothing"
    finally:
        daemon.close()


def test_a_daemon_whose_settings_differ_says_so(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "stepd.db", "--name", "orders")
    try:
        daemon.start().stop()
        daemon.flags = ("--lease-seconds", "60", "--max-labels", "3", "--name", "other")
        daemon.start()
        assert "lease_seconds is 60 here, and 30 in the settings" in daemon.output()
        assert "labels is 3 here, and 64 in the settings" in daemon.output()
        assert "name is other here, and orders in the settings" in daemon.output()
        assert Http(daemon.url).get("/v1/service").expect(200)["name"] == "orders", "the first one gave the name"
    finally:
        daemon.close()


def test_the_log_can_be_json(tmp_path: Path) -> None:
    with running(tmp_path / "stepd.db", "--log-format", "json") as daemon:
        first = daemon.output().splitlines()[0]
        assert first.startswith('{"at":"')
        assert f"listens on {daemon.url}" in first
