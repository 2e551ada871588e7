"""SQLite when the file can't be had: locked, full, not writable, held by another daemon; and when it can again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import stepd_migrations
from stepd.engine.work import Settings
from stepd.store.base import StoreRefused, StoreUnavailable
from stepd.store.sqlite import SqliteStore
from stepd.store.sqlite.commits import FAILURES
from stepd.store.sqlite.errors import Broken, Failing, Locked, translated, unavailable
from tests.store.backends import SqliteBackend
from tests.store.shop import EVERYTHING, Shop
from tests.support.wait import moment


@contextlib.asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[Shop]:
    shop = Shop(SqliteBackend(directory), Settings())
    await shop.open()
    try:
        yield shop
    finally:
        await shop.close()


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Shop]:
    async with opened(tmp_path) as shop:
        yield shop


def file_of(shop: Shop) -> Path:
    assert isinstance(shop.backend, SqliteBackend)
    return shop.backend.file


@contextlib.contextmanager
def locked(file: Path) -> Iterator[None]:
    """The write lock, held by a process of its own."""
    program = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); c.execute('begin immediate');"
        "print('locked', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen([sys.executable, "-c", program, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"locked\n"
        yield
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()


async def test_what_is_committed_is_synced_and_no_lock_holds_the_loop(here: Shop) -> None:
    assert isinstance(here.store, SqliteStore)
    connection = here.store.writer.connection
    found = {
        name: connection.execute(f"pragma {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous", "busy_timeout", "wal_autocheckpoint")
    }
    assert found == {"journal_mode": "wal", "synchronous": 2, "busy_timeout": 0, "wal_autocheckpoint": 0}


async def test_a_short_lock_of_another_process_is_waited_for(here: Shop) -> None:
    await here.register()
    with locked(file_of(here)):
        waiting = asyncio.create_task(here.start())
        reading = await here.store.counts()
        assert reading == {}
        await asyncio.to_thread(moment, 0.05)
        assert not waiting.done()
    assert await here.status(await waiting) == "queued"


async def test_a_long_lock_makes_the_store_unavailable_and_service_resumes_by_itself(
    here: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepd.store.sqlite.commits.LOCKED_SECONDS", 0.2)
    await here.register()
    id_ = await here.start()
    with locked(file_of(here)):
        calls = [asyncio.create_task(here.try_start()) for _ in range(5)]
        assert await here.status(id_) == "queued", "the loop stood still"
        assert not any(call.done() for call in calls)
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(answer) for answer in answers] == [StoreUnavailable] * 5
        assert "locked by another process" in str(answers[0])
    assert len(here.backend.query("select id from executions")) == 1
    await here.run_to_end()


def limited(bytes_: int) -> contextlib.AbstractContextManager[None]:
    """Lets no file of this process grow beyond the limit: writing fails as on a broken disk."""

    @contextlib.contextmanager
    def limit() -> Iterator[None]:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            signal.signal(signal.SIGXFSZ, handler)

    return limit()


async def test_a_write_that_fails_leaves_nothing_and_service_resumes_by_itself(here: Shop) -> None:
    await here.register()
    id_ = await here.start()
    log = file_of(here).with_name("stepd.db-wal")
    with limited(log.stat().st_size):
        answers = await asyncio.gather(*(here.try_start() for _ in range(5)), return_exceptions=True)
        assert [type(answer) for answer in answers] == [StoreUnavailable] * 5
        assert await here.status(id_) == "queued"
    assert len(here.backend.query("select id from executions")) == 1
    await here.run_to_end()
    assert here.backend.query("pragma integrity_check") == [("ok",)]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB of its own."""
    place = tmp_path / "small"
    place.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", place], capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        pytest.skip(f"no small disk can be mounted here: {made.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


async def test_a_full_disk_leaves_nothing_half_done_and_service_resumes_by_itself(small_disk: Path) -> None:
    async with opened(small_disk) as shop:
        await shop.register()
        done = [await shop.run_to_end()]
        ballast = small_disk / "ballast"
        with contextlib.suppress(OSError):
            ballast.write_bytes(b"x" * 8 * 1024 * 1024)
        failures = 0
        for _ in range(50):
            calls = [shop.try_start(input="x" * 2000) for _ in range(10)]
            answers = await asyncio.gather(*calls, return_exceptions=True)
            done += [answer.rows.execution.id for answer in answers if not isinstance(answer, BaseException)]
            errors = [answer for answer in answers if isinstance(answer, BaseException)]
            assert {type(error) for error in errors} <= {StoreUnavailable}
            failures += len(errors)
        assert failures, "the disk never was full"
        assert {id_ for (id_,) in shop.backend.query("select id from executions")} == set(done)
        assert await shop.status(done[0]) == "completed"
        ballast.unlink()
        await shop.run_to_end()
        for id_ in done:
            assert (await shop.journal(id_))[0] == "execution.created"
        assert shop.backend.query("pragma integrity_check") == [("ok",)]


async def test_a_file_taken_away_makes_the_store_unavailable(tmp_path: Path) -> None:
    async with opened(tmp_path) as shop:
        await shop.register()
        with limited(0):
            for _ in range(FAILURES):  # its connection is to be opened anew
                with pytest.raises(StoreUnavailable, match="failed"):
                    await shop.start()
        moved = file_of(shop).rename(tmp_path / "moved.db")
        with pytest.raises(StoreUnavailable, match="is gone"):
            await shop.start()
        assert not file_of(shop).exists(), "an empty database was made in its place"
        moved.rename(file_of(shop))
        await shop.run_to_end()


async def test_the_log_is_started_over_while_writing_goes_on(here: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PAUSE_SECONDS": 0.01, "CHANGES": 10, "LONG_FRAMES": 100}.items():
        monkeypatch.setattr(f"stepd.store.sqlite.checkpoints.{name}", value)
    await here.register()
    log = file_of(here).with_name("stepd.db-wal")
    written = 0
    for _ in range(400):
        await asyncio.gather(*(here.start(input="x" * 5000) for _ in range(5)))
        written += 5 * 5000
    assert log.stat().st_size < written / 2
    assert file_of(here).stat().st_size > written / 2


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        (sqlite3.SQLITE_BUSY, Locked, "locked by another process"),
        (sqlite3.SQLITE_BUSY_RECOVERY, Locked, "locked by another process"),
        (sqlite3.SQLITE_FULL, StoreUnavailable, "full"),
        (sqlite3.SQLITE_READONLY, Broken, "read-only"),
        (sqlite3.SQLITE_READONLY_DBMOVED, Broken, "read-only"),
        (sqlite3.SQLITE_IOERR_FSYNC, Failing, "failed"),
        (sqlite3.SQLITE_CANTOPEN, Broken, "can't be opened"),
        (sqlite3.SQLITE_CORRUPT, Broken, "damaged"),
        (sqlite3.SQLITE_CONSTRAINT_UNIQUE, None, ""),
        (sqlite3.SQLITE_ERROR, None, ""),
    ],
)
def test_errors_are_told_apart_by_their_codes(code: int, kind: type[StoreUnavailable] | None, text: str) -> None:
    error = sqlite3.OperationalError("whatever it says")
    error.sqlite_errorcode, error.sqlite_errorname = code, "NAME"
    told = unavailable(error)
    assert type(told) is (type(None) if kind is None else kind)
    assert text in str(told)
    with pytest.raises(kind or sqlite3.OperationalError), translated():
        raise error


async def test_a_connection_that_may_not_write_makes_the_store_unavailable(here: Shop) -> None:
    await here.register()
    assert isinstance(here.store, SqliteStore)
    here.store.writer.connection.execute("pragma query_only = on")
    with pytest.raises(StoreUnavailable, match="read-only"):
        await here.start()
    await here.run_to_end()  # on a connection opened anew


@pytest.mark.parametrize("read_only", ["file", "directory"])
def test_a_read_only_place_is_refused_by_name(read_only: str) -> None:
    program = (
        "import asyncio, os, sys\nfrom pathlib import Path\nfrom stepd.engine.work import Settings\n"
        "from stepd.store.base import StoreRefused\nfrom stepd.store.sqlite import SqliteStore\n"
        "if os.geteuid() == 0:\n"  # root may write anywhere
        "    os.setgid(65534)\n"
        "    os.setuid(65534)\n"
        "try:\n"
        "    asyncio.run(SqliteStore(Path(sys.argv[1]), Settings()).open())\n"
        "except StoreRefused as refused:\n"
        "    print(refused)\n"
    )
    with TemporaryDirectory() as directory:
        place = Path(directory)
        backend = SqliteBackend(place)
        backend.file.chmod(0o444 if read_only == "file" else 0o666)
        place.chmod(0o555 if read_only == "directory" else 0o777)
        command = [sys.executable, "-c", program, str(backend.file)]
        told = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/")
    assert str(backend.file) in told.stdout
    assert "read-only" in told.stdout if read_only == "file" else "--database" in told.stdout


# -- the hold -------------------------------------------------------------------------------------------------------


async def test_a_second_daemon_is_refused_and_told_who_has_the_file(here: Shop) -> None:
    second = here.backend.make(here.settings, here.clock)
    with pytest.raises(StoreRefused) as refused:
        await second.open()
    for part in (str(file_of(here)), f"pid {os.getpid()}", socket.gethostname(), "since 20", "--database"):
        assert part in str(refused.value)
    await second.close()
    await here.register()
    await here.run_to_end()


async def test_the_hold_is_the_same_by_another_path(here: Shop, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(file_of(here))
    with pytest.raises(StoreRefused, match="in use by another daemon"):
        await SqliteStore(link, Settings()).open()


@contextlib.contextmanager
def killed_at_the_end(file: Path) -> Iterator[int]:
    """Another process with an open store on the file; its pid."""
    program = (
        "import asyncio, sys\nfrom pathlib import Path\nfrom stepd.engine.work import Settings\n"
        "from stepd.store.sqlite import SqliteStore\n"
        "async def main():\n"
        "    await SqliteStore(Path(sys.argv[1]), Settings()).open()\n"
        "    print('open', flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program, file], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"open\n"
        yield process.pid
    finally:
        process.kill()
        process.wait(10)
        process.stdout.close()


async def test_the_hold_ends_with_a_killed_process(tmp_path: Path) -> None:
    backend = SqliteBackend(tmp_path)
    store = SqliteStore(backend.file, Settings())
    with killed_at_the_end(backend.file) as pid, pytest.raises(StoreRefused, match=f"pid {pid} "):
        await store.open()
    await store.open()
    holder: dict[str, Any] = json.loads((tmp_path / "stepd.db.lock").read_text())
    assert holder["pid"] == os.getpid()
    await store.close()


async def test_a_store_that_could_not_be_opened_holds_nothing(tmp_path: Path) -> None:
    backend = SqliteBackend(tmp_path)
    backend.query("update alembic_version set version_num = '9999'")
    store = SqliteStore(backend.file, Settings())
    with pytest.raises(StoreRefused):
        await store.open()
    backend.query("update alembic_version set version_num = ?", stepd_migrations.HEAD)
    await store.open()
    assert await store.standing("nothing", EVERYTHING) is None
    await store.close()
