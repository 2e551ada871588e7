"""`stepd doctor`: what it finds, what it answers with, and that it changes nothing and disturbs nobody."""

import shutil
import signal
import sqlite3
import subprocess
from pathlib import Path

import pytest

from stepd.doctor import variables
from tests.cli.examining import WRONG, examine
from tests.cli.program import Program
from tests.sdk.peer import Peer, Reply
from tests.support.client import Http
from tests.support.daemon import Daemon, free_port, running
from tests.support.definitions import brief, read, write
from tests.support.flow import make_flow
from tests.support.wait import eventually

# -- what is well ---------------------------------------------------------------------------------------------------


def test_a_place_where_no_daemon_ever_was_is_well_and_stays_empty(tmp_path: Path) -> None:
    found = examine(tmp_path / "stepd.db")
    assert {one["status"] for one in found.checks} == {"ok"}, found.checks
    found.expect("database", "ok", "not there yet")
    found.expect("daemon", "ok", "none runs")
    assert list(tmp_path.iterdir()) == []


def test_a_daemon_that_runs_is_told_of_and_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "stepd.db"
    with running(file) as daemon:
        found = examine(file, url=daemon.url)
        assert (found.code, {one["status"] for one in found.checks}) == (0, {"ok"}), found.checks
        found.expect("holder", "ok", f"pid {daemon.pid}")
        found.expect("daemon", "ok", "at " + daemon.url)
        found.expect("ready", "ok", "worker-api, request-api, admin-api, ui, loops")
        found.expect("pulse", "ok")
        found.expect("clock", "ok")
        run = make_flow(Http(daemon.url), read()).start()
        assert run.view()["status"] == "queued"
        assert daemon.stop() == 0
        assert "WARNING" not in daemon.output().upper()


# -- settings -------------------------------------------------------------------------------------------------------


def test_settings_that_serve_refuses_are_wrong_and_the_rest_is_examined(file: Path) -> None:
    found = examine(file, "--heartbeat-seconds", "11", STEPD_LOG_FORMAT="xml")
    found.expect("settings", "wrong", "over a third of --lease-seconds 30")
    found.expect("settings", "wrong", "STEPD_LOG_FORMAT=xml: must be one of text, json")
    found.expect("schema", "ok")


def test_misspelt_variables_are_named_with_what_was_meant_and_without_their_values(tmp_path: Path) -> None:
    found = examine(tmp_path / "x.db", STEPD_LEASE_SECOND="9", STEPD_ADMIN_KEY="ops=hush", STEPD_FOO="hush")
    found.expect("variables", "warning", "STEPD_LEASE_SECOND.", "Did you mean STEPD_LEASE_SECONDS?")
    found.expect("variables", "warning", "STEPD_ADMIN_KEY.", "Did you mean STEPD_ADMIN_KEYS?")
    found.expect("variables", "warning", "nothing reads STEPD_FOO", "docs/configuration.md")
    assert "hush" not in str(found.checks)
    assert found.code == 0, "warnings are nothing wrong"


def test_every_variable_that_stepd_reads_is_known() -> None:
    known = dict.fromkeys(variables.KNOWN, "x") | {"PATH": "/bin"}
    assert [found.status for found in variables.examine_variables(known)] == ["ok"]


def test_keys_that_cannot_be_read_are_wrong_and_not_shown(tmp_path: Path) -> None:
    found = examine(tmp_path / "x.db", STEPD_ADMIN_KEYS="ops=hush hush", STEPD_READ_KEYS="a/b=hush")
    found.expect("keys", "wrong", "STEPD_ADMIN_KEYS, entry 1: the secret must be of visible ASCII")
    found.expect("keys", "wrong", "STEPD_READ_KEYS, entry 1")
    assert "hush" not in str(found.checks)


def test_who_is_let_in(file: Path) -> None:
    examine(file, "--bind", "0.0.0.0:7117").expect("access", "wrong", "no loopback address", "STEPD_ADMIN_KEYS=")
    examine(file, STEPD_WORKER_KEYS="w=secret").expect("access", "wrong", "none with the scope admin")
    found = examine(file, "--bind", "0.0.0.0:7117", STEPD_ADMIN_KEYS="ops=secret")
    found.expect("access", "ok", "with keys")
    found.expect("address", "warning", "in the clear", "--tls-certificate")
    examine(file, "--bind", "7117").expect("address", "wrong", "write host:port")


def test_keys_in_the_store_count(tmp_path: Path) -> None:
    file = tmp_path / "stepd.db"
    with running(file, env={"STEPD_ADMIN_KEYS": "ops=secret"}) as daemon:
        found = examine(file, url=daemon.url)
        found.expect("access", "ok", "with keys")
        found.expect("daemon", "warning", "takes no such key", "STEPD_KEY")
        examine(file, "--key", "secret", url=daemon.url).expect("daemon", "ok", daemon.url)
        daemon.kill()
    with sqlite3.connect(file) as connection:
        connection.execute("update keys set revoked_at = created_at")
    connection.close()
    examine(file).expect("access", "warning", "no key is left that can administer")


def test_settings_other_than_those_the_stores_daemons_share(file: Path) -> None:
    examine(file, "--lease-seconds", "60").expect("shared", "warning", "lease_seconds is 60 here, and 30 in")


# -- the daemon -----------------------------------------------------------------------------------------------------


def test_a_file_in_use_while_nothing_answers_where_clients_would_ask(tmp_path: Path) -> None:
    with running(tmp_path / "stepd.db") as daemon:
        examine(daemon.file).expect("daemon", "warning", f"though pid {daemon.pid}", "STEPD_URL")


def test_a_daemon_of_another_database(file: Path, tmp_path: Path) -> None:
    with running(tmp_path / "second.db") as daemon:
        examine(file, url=daemon.url).expect("daemon", "warning", "not that of this database")


@pytest.mark.slow
def test_a_daemon_that_stands_still(tmp_path: Path) -> None:
    with running(tmp_path / "stepd.db") as daemon:
        daemon.signal(signal.SIGSTOP)
        eventually(lambda: examine(daemon.file)["pulse"]["status"] == "wrong", seconds=40)
        examine(daemon.file, url=daemon.url).expect("daemon", "warning", "nothing answers", f"pid {daemon.pid}")
        daemon.signal(signal.SIGCONT)
        eventually(daemon.is_ready, seconds=30)


def test_an_answer_that_no_stepd_daemon_gave(peer: Peer, tmp_path: Path) -> None:
    for path in ("readyz", "service"):
        peer.always(path, Reply(200, {"hello": "world"}))
    examine(tmp_path / "x.db", url=peer.url).expect("daemon", "warning", "is no stepd daemon")


# -- what waits -----------------------------------------------------------------------------------------------------


def test_steps_without_a_worker_orphans_and_executions_that_wait_for_a_person(tmp_path: Path) -> None:
    with running(tmp_path / "stepd.db") as daemon:
        http = Http(daemon.url)
        _, lease = make_flow(http, write(delivery="at_most_once", **brief(0.1, 0.1)), name="charge").begin()
        lease.begin()
        make_flow(http, read(), name="lonely").start()
        make_flow(http, read(**brief(0.1, 600)), name="left").begin()[1].begin()
        eventually(lambda: examine(daemon.file, url=daemon.url)["orphans"]["status"] == "warning", seconds=30)
        found = examine(daemon.file, url=daemon.url)
        assert found.code == 0
        found.expect("queue", "warning", "1 step stands for want of a worker: lonely ", "stepd ls --blocked")
        found.expect("orphans", "warning", "1 lapsed lease waits")
        found.expect("reconciliation", "warning", "1 execution waits for a person")


def test_what_no_loop_acts_upon_is_overdue(tmp_path: Path) -> None:
    with running(tmp_path / "stepd.db", "--no-loops") as daemon:
        make_flow(Http(daemon.url), read(**brief(0.1, 0.1))).begin()
        eventually(lambda: examine(daemon.file, url=daemon.url)["loops"]["status"] == "warning", seconds=30, every=0.5)
        found = examine(daemon.file, url=daemon.url)
        found.expect("loops", "warning", "1 time-out, retry or lapsed lease is overdue", "--no-loops")
        found.expect("ready", "ok", "worker-api, request-api, admin-api")


# -- the program ----------------------------------------------------------------------------------------------------


def test_each_check_is_a_line_with_its_way_out(tmp_path: Path) -> None:
    done = Program(f"http://127.0.0.1:{free_port()}")(
        "doctor", "--database", f"sqlite:///{tmp_path}/x.db", "--tls-key", "key.pem"
    ).expect(WRONG)
    lines = [line.split(maxsplit=2) for line in done.lines]
    assert ["ok", "keys"] in [line[:2] for line in lines]
    refused = next(line for line in lines if line[0] == "wrong")
    assert refused[1] == "settings"
    assert "--tls-certificate and --tls-key go together: give both" in refused[2]


def test_the_help_says_what_the_exit_codes_mean() -> None:
    text = Program("http://127.0.0.1:1")("doctor", "--help").expect(0).out
    assert f"  {WRONG}   something is wrong\n" in text
    assert "--lease-seconds" in text


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make certificates")
def test_tls_files(tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -keyout".split()
    subprocess.run([*make, key, "-out", certificate, "-days", "90"], check=True, capture_output=True, timeout=60)
    flags = ("--tls-certificate", str(certificate), "--tls-key", str(key))
    examine(tmp_path / "x.db", *flags).expect("tls", "ok", "good until")
    other = tmp_path / "other.pem"
    subprocess.run([*make, other, "-out", certificate, "-days", "2"], check=True, capture_output=True, timeout=60)
    examine(tmp_path / "x.db", *flags).expect("tls", "wrong", str(key), "mismatch")
    flags = ("--tls-certificate", str(certificate), "--tls-key", str(other))
    examine(tmp_path / "x.db", *flags).expect("tls", "warning", "only", "Renew it")
    examine(tmp_path / "x.db", "--tls-certificate", "none.pem", "--tls-key", "none.pem").expect("tls", "wrong")


def test_daemons_may_start_and_stop_while_they_are_examined(tmp_path: Path) -> None:
    """The examination's look at the lock must never keep a daemon from starting."""
    daemon = Daemon(tmp_path / "stepd.db")
    try:
        daemon.launch()
        codes = [examine(daemon.file, url=daemon.url).code for _ in range(3)]
        eventually(daemon.is_ready, seconds=30)
        assert daemon.stop() == 0
    finally:
        daemon.close()
    assert "in use" not in daemon.output()
    assert len(codes) == 3
