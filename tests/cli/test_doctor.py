"""`stepd doctor`: what it finds, what it answers with, and that it changes nothing and disturbs nobody."""

import hashlib
import json
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from stepd.doctor import database, variables
from stepd.store.sqlite import holders
from stepd_migrations import HEAD
from tests.cli.program import Program
from tests.sdk.peer import Peer, Reply
from tests.support.client import Http
from tests.support.daemon import Daemon, free_port, running
from tests.support.definitions import brief, read, write
from tests.support.flow import make_flow
from tests.support.wait import eventually

WRONG = 78


class Examined:
    """The findings of one run, by check."""

    def __init__(self, code: int, told: Any) -> None:
        self.code = code
        self.is_ok: bool = told["ok"]
        self.checks: list[dict[str, Any]] = told["checks"]

    def __getitem__(self, check: str) -> dict[str, Any]:
        return next(found for found in self.checks if found["check"] == check)

    def expect(self, check: str, status: str, *words: str) -> None:
        """Checks that one finding of that name has the status and the words."""
        found = [one for one in self.checks if one["check"] == check]
        said = [f"{one['message']}. {one['way_out']}" for one in found if one["status"] == status]
        assert any(all(word in text for word in words) for text in said), found
        assert (self.code == WRONG) == any(one["status"] == "wrong" for one in self.checks)
        assert self.is_ok == (self.code == 0)


def examine(file: Path | str, *flags: str, url: str | None = None, **env: str) -> Examined:
    program = Program(url or f"http://127.0.0.1:{free_port()}")
    done = program("doctor", "--json", "--database", f"sqlite:///{file}", *flags, env=env)
    assert done.code in (0, WRONG), done
    assert done.err == "", done.err
    return Examined(done.code, json.loads(done.out))


def prints(file: Path) -> dict[str, tuple[str, int]]:
    """A fingerprint of the database's file and of each file beside it, with when it was written."""
    beside = sorted(file.parent.glob(f"{file.name}*"))
    found = [path for path in beside if not path.name.endswith(".log")]
    return {path.name: (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns) for path in found}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database that a daemon has left in good order, with one execution in its queue."""
    file = tmp_path_factory.mktemp("made") / "stepd.db"
    with running(file) as daemon:
        make_flow(Http(daemon.url), read()).start()
        assert daemon.stop() == 0
    return file


@pytest.fixture
def file(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copy(made, tmp_path / "stepd.db"))


# -- what is well ---------------------------------------------------------------------------------------------------


def test_a_place_where_no_daemon_ever_was_is_well_and_stays_empty(tmp_path: Path) -> None:
    found = examine(tmp_path / "stepd.db")
    assert {one["status"] for one in found.checks} == {"ok"}, found.checks
    found.expect("database", "ok", "not there yet")
    found.expect("daemon", "ok", "none runs")
    assert list(tmp_path.iterdir()) == []


def test_a_file_at_rest_is_read_without_a_trace(file: Path) -> None:
    before = prints(file)
    found = examine(file)
    assert (found.code, {one["status"] for one in found.checks}) == (0, {"ok"}), found.checks
    found.expect("schema", "ok", HEAD)
    found.expect("integrity", "ok", "whole")
    found.expect("holder", "ok", "no daemon")
    found.expect("queue", "ok", "1 step waits")
    assert prints(file) == before, "no file was made beside it"


def test_what_a_killed_daemon_left_is_read_without_a_trace(tmp_path: Path) -> None:
    file = tmp_path / "stepd.db"
    with running(file) as daemon:
        make_flow(Http(daemon.url), read()).start()
        daemon.kill()
    before = prints(file)
    assert {"stepd.db-wal", "stepd.db-shm"} <= before.keys()
    found = examine(file)
    found.expect("queue", "ok", "1 step waits")
    found.expect("holder", "ok", "no daemon")
    assert prints(file) == before
    (tmp_path / "stepd.db-shm").unlink()
    before = prints(file)
    examine(file).expect("database", "warning", "stepd.db-wal, without its index")
    assert prints(file) == before


def test_a_daemon_that_runs_is_told_of_and_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "stepd.db"
    with running(file) as daemon:
        found = examine(file, url=daemon.url)
        assert (found.code, {one["status"] for one in found.checks}) == (0, {"ok"}), found.checks
        found.expect("holder", "ok", f"pid {daemon.pid}")
        found.expect("daemon", "ok", "at " + daemon.url)
        found.expect("ready", "ok", "worker-api, request-api, admin-api, loops")
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


# -- the file -------------------------------------------------------------------------------------------------------


def test_files_that_are_no_database_of_stepd(tmp_path: Path) -> None:
    examine("/no/such/directory/stepd.db").expect("database", "wrong", "there is no directory /no/such/directory")
    examine(tmp_path).expect("database", "wrong", "is a directory")
    text = tmp_path / "text.db"
    text.write_text("a text that is long enough")
    examine(text).expect("database", "wrong", "is no SQLite file")
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("create table theirs (a)")
    other.close()
    examine(tmp_path / "other.db").expect("schema", "wrong", "of another program")


@pytest.mark.parametrize(("version", "status", "says"), [("0000", "warning", "older"), ("9999", "wrong", "newer")])
def test_a_schema_that_is_not_this_programs(file: Path, version: str, status: str, says: str) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("update alembic_version set version_num = ?", (version,))
    connection.close()
    examine(file).expect("schema", status, f"version {version}, {says} than this program's {HEAD}")


def test_a_damaged_file(file: Path) -> None:
    pages = file.read_bytes()
    middle = len(pages) // 2 // 4096 * 4096
    file.write_bytes(pages[:middle] + b"\xff" * 8192 + pages[middle + 8192 :])
    examine(file).expect("integrity", "wrong", "restore a copy")


BY_ANOTHER_USER = """
import encodings.idna, os, sys  # what is imported late would be out of the other user's reach
from stepd.doctor.examination import examine
if os.getuid() == 0:  # whom no mode binds
    os.setuid(65534)
for found in examine({"database": f"sqlite:///{sys.argv[1]}"}, {}, "http://127.0.0.1:1", None):
    print(found.status, found.check, found.message)
"""


@pytest.mark.parametrize(
    ("mode", "of_directory", "says"),
    [
        (0o444, 0o755, "can't be written by this user"),
        (0o200, 0o755, "can't be read by this user"),
        (0o666, 0o555, "no files can be made by this user in"),
        (0o666, 0o000, "Permission denied"),
    ],
)
def test_a_file_that_may_not_be_used(made: Path, mode: int, of_directory: int, says: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        file = Path(shutil.copy(made, Path(name) / "stepd.db"))
        file.chmod(mode)
        file.parent.chmod(of_directory)
        try:
            command = [sys.executable, "-c", BY_ANOTHER_USER, str(file)]
            told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
        finally:
            file.parent.chmod(0o755)
    assert [line for line in told.splitlines() if line.startswith("wrong database") and says in line], told


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
        eventually(lambda: examine(daemon.file, url=daemon.url)["pulse"]["status"] == "wrong", seconds=40)
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


def test_a_lock_is_looked_at_and_never_taken(tmp_path: Path) -> None:
    file = tmp_path / "stepd.db"
    lock = tmp_path / "stepd.db.lock"
    assert not holders.held(file).is_held
    lock.write_text('{"pid": 1, "host": "elsewhere", "since": "2026-01-01T00:00:00Z"}')
    seen = holders.held(file)
    assert (seen.is_held, seen.is_sure) == (False, False)
    with running(file) as daemon:
        assert holders.held(file).name.startswith(f"pid {daemon.pid} on ")


def test_a_disk_without_room_is_wrong() -> None:
    found = database._free(Path("/proc/version"))
    assert (found.check, found.status) == ("disk", "wrong"), "this file system never has any"
    assert "Make room" in (found.way_out or "")


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
