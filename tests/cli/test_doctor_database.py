"""`stepd doctor` and the database's file: what is wrong with it, and that looking leaves no trace."""

import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from stepd.doctor import examination
from stepd.doctor import file as examined_file
from stepd.store.sqlite import holders, inspection
from stepd_migrations import HEAD
from tests.cli.examining import examine, prints
from tests.support.client import Http
from tests.support.daemon import running
from tests.support.definitions import read
from tests.support.flow import make_flow

PAGE = 4096


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
    middle = len(pages) // 2 // PAGE * PAGE
    file.write_bytes(pages[:middle] + b"\xff" * 2 * PAGE + pages[middle + 2 * PAGE :])
    examine(file).expect("integrity", "wrong", "restore a copy")


def test_whatever_is_damaged_the_examination_goes_to_its_end(file: Path) -> None:
    """In this process, since it is done for every page."""
    good, chance = file.read_bytes(), random.Random(4711)
    told = Counter[str]()
    for start in range(0, len(good), PAGE):
        bad = bytearray(good)
        for _ in range(40):
            bad[start + chance.randrange(PAGE)] = chance.randrange(256)
        bad[: len(inspection.MAGIC)] = inspection.MAGIC
        file.write_bytes(bad)
        findings = examination.examine({"database": f"sqlite:///{file}"}, {}, "http://127.0.0.1:1", None)
        told.update(found.status for found in findings if found.check == "integrity")
        assert [path.name for path in file.parent.glob("stepd.db*")] == ["stepd.db"]
    assert told["wrong"] > 5, "some of it lies where nothing is, and some in what only stepd could tell"


def test_the_integrity_check_ends_in_time_where_a_daemon_runs(tmp_path: Path) -> None:
    file = tmp_path / "large.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("create table t (a)")
        count = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)"
        connection.execute(f"insert into t {count} select i from n")
        connection.commit()
    assert inspection.check_integrity(file, is_held=True, seconds=0) is None
    assert inspection.check_integrity(file, is_held=True, seconds=60) == []


BY_ANOTHER_USER = """
import encodings.idna, os, sys  # what is imported late would be out of the other user's reach
from stepd.doctor.examination import examine
if os.getuid() == 0:  # whom no mode binds
    os.setuid(65534)
for found in examine({"database": f"sqlite:///{sys.argv[1]}"}, {}, "http://127.0.0.1:1", None):
    print(found.status, found.check, found.message)
"""


def by_another_user(file: Path) -> str:
    """A line for each finding of an examination that doesn't run as root."""
    command = [sys.executable, "-c", BY_ANOTHER_USER, str(file)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def test_a_file_that_has_vanished_under_its_daemon(tmp_path: Path) -> None:
    with running(tmp_path / "stepd.db") as daemon:
        daemon.file.unlink()
        examine(daemon.file, url=daemon.url).expect("database", "wrong", "is gone", f"pid {daemon.pid} on ", "restore")


def test_a_log_that_another_user_has_made(made: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        file = Path(shutil.copy(made, Path(name) / "stepd.db"))
        file.parent.chmod(0o777)
        file.chmod(0o666)
        log = Path(f"{file}-wal")
        log.touch(0o400)
        assert f"wrong database {log} can't be" in by_another_user(file)


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
            told = by_another_user(file)
        finally:
            file.parent.chmod(0o755)
    assert [line for line in told.splitlines() if line.startswith("wrong database") and says in line], told


def test_a_disk_without_room_is_wrong() -> None:
    found = examined_file._free(Path("/proc/version"))
    assert (found.check, found.status) == ("disk", "wrong"), "this file system never has any"
    assert "Make room" in (found.way_out or "")


def test_a_lock_is_looked_at_and_never_taken(tmp_path: Path) -> None:
    file = tmp_path / "stepd.db"
    lock = tmp_path / "stepd.db.lock"
    assert not holders.held(file).is_held
    lock.write_text('{"pid": 1, "host": "elsewhere", "since": "2026-01-01T00:00:00Z"}')
    seen = holders.held(file)
    assert (seen.is_held, seen.is_sure) == (False, False)
    with running(file) as daemon:
        assert holders.held(file).name.startswith(f"pid {daemon.pid} on ")
