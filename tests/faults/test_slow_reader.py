"""A client that reads its stream slowly, or not at all, costs bounded memory and holds up neither log nor daemon."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.conftest import MakeDaemon
from tests.faults.figures import figures, resident_bytes
from tests.support.client import Http
from tests.support.daemon import Daemon
from tests.support.definitions import read
from tests.support.flow import Flow, Run, make_flow
from tests.support.raw import Pending, head, send_bytes
from tests.support.wait import eventually

MEGABYTE = 1024 * 1024
READERS = 20
MESSAGE = "x" * 4_000
"""What makes an event large: the message of a failure."""
STREAM = {"Accept": "text/event-stream"}


@pytest.fixture
def daemon(make_daemon: MakeDaemon) -> Daemon:
    return make_daemon("--drain-seconds", "0").start()


@pytest.fixture
def readers(daemon: Daemon) -> Iterator[list[Pending]]:
    opened: list[Pending] = []
    yield opened
    for each in opened:
        each.leave()


def fail_often(work: Flow, times: int) -> Run:
    """An execution whose journal has so many large events."""
    run = work.start()
    for _ in range(times):
        work.claim_one().fail("retryable", message=MESSAGE).expect(200)
    return run


def test_streams_that_nobody_reads_cost_little(daemon: Daemon, readers: list[Pending]) -> None:
    http = Http(daemon.url)
    work = make_flow(http, read(retry={"max_attempts": 1000, "initial_seconds": 0}))
    run = fail_often(work, 100)
    whole = len(http.get(f"{run.path}/events?limit=200").body)
    assert whole > 150_000
    before = resident_bytes(daemon.pid)
    readers += [send_bytes(http, head(http, "GET", f"{run.path}/events", 0, STREAM)) for _ in range(READERS)]
    assert all(reader.has_answer(5) for reader in readers)
    for _ in range(50):
        work.claim_one().fail("retryable", message=MESSAGE).expect(200)
    assert figures(http).value("stepd_streams_open") == READERS
    # A page of the journal each, at worst: what a socket doesn't take waits, and with it the next page.
    assert resident_bytes(daemon.pid) - before < READERS * MEGABYTE
    for reader in readers:
        reader.leave()
    eventually(lambda: figures(http).value("stepd_streams_open") == 0, seconds=5, what="they are gone")


def test_streams_that_nobody_reads_hold_no_log(daemon: Daemon, readers: list[Pending]) -> None:
    """The write-ahead log begins anew although streams are in the middle of a journal."""
    http = Http(daemon.url)
    work = make_flow(http, read(retry={"max_attempts": 1000, "initial_seconds": 0}))
    run = fail_often(work, 60)
    readers += [send_bytes(http, head(http, "GET", f"{run.path}/events", 0, STREAM)) for _ in range(READERS)]
    assert all(reader.has_answer(5) for reader in readers)
    log = daemon.file.with_name(f"{daemon.file.name}-wal")
    begun = _times_begun(log)
    other = make_flow(http, read())
    deadline = time.monotonic() + 30
    while _times_begun(log) == begun:
        assert time.monotonic() < deadline, f"the log has {log.stat().st_size} bytes and was not begun anew"
        other.start(input="x" * 200_000)


def _times_begun(log: Path) -> int:
    """The number in the log's head that grows each time it is begun anew."""
    with log.open("rb") as file:
        return int.from_bytes(file.read(16)[12:], "big")


def test_a_slow_reader_gets_everything_at_its_own_pace(daemon: Daemon, readers: list[Pending]) -> None:
    http = Http(daemon.url)
    work = make_flow(http, read(retry={"max_attempts": 30, "initial_seconds": 0}))
    run = work.start()
    readers.append(send_bytes(http, head(http, "GET", f"{run.path}/events", 0, STREAM)))
    for _ in range(29):
        work.claim_one().fail("retryable", message=MESSAGE).expect(200)
    work.claim_one().complete().expect(200)
    link = readers[0].link
    link.settimeout(5)
    text = b""
    while not text.endswith(b"\r\n0\r\n\r\n"):
        piece = link.recv(16_384)
        assert piece, "the stream was cut off"
        text += piece
    assert text.count(b"\nid: ") + text.count(b"\r\nid: ") >= len(run.events())
    assert b"execution.completed" in text
