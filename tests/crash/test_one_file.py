"""One file, one daemon: a second one refuses and says who has it; a file that another process locks is waited out."""

import sqlite3
import time
from contextlib import closing

import pytest

from tests.crash.conftest import MakeDaemon
from tests.support.client import Http
from tests.support.definitions import read
from tests.support.flow import make_flow
from tests.support.wait import beside, eventually


def test_a_second_daemon_refuses_and_says_who_has_the_file(make_daemon: MakeDaemon) -> None:
    first = make_daemon().start()
    work = make_flow(Http(first.url), read())
    run, lease = work.begin()
    second = make_daemon().launch()
    assert second.ended(15) != 0
    words = second.output()
    assert str(first.pid) in words, f"it must say which process has the file: {words}"
    assert first.file.name in words
    assert "Traceback" not in words
    lease.complete().expect(200)
    assert run.view()["status"] == "completed"


def test_the_file_is_free_once_its_daemon_is_gone(make_daemon: MakeDaemon) -> None:
    first, second = make_daemon(), make_daemon()
    first.start()
    run = make_flow(Http(first.url), read()).start()
    first.kill()
    second.start()
    assert Http(second.url).get(run.path).expect(200)["id"] == run.id
    second.stop()
    first.start()
    assert run.view()["id"] == run.id


def test_of_two_daemons_at_once_one_serves(make_daemon: MakeDaemon) -> None:
    daemons = [make_daemon().launch() for _ in range(2)]

    def loser() -> bool:
        return any(daemon.has_ended() for daemon in daemons)

    eventually(loser, seconds=20, what="one of the two gives up")
    (winner,) = [daemon for daemon in daemons if not daemon.has_ended()]
    eventually(winner.is_ready, seconds=20, what="the other one serves")
    assert not winner.has_ended()


@pytest.mark.slow
def test_a_locked_file_is_told_and_waited_out(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()
    work = make_flow(Http(daemon.url), read())
    run, lease = work.begin()
    with closing(sqlite3.connect(daemon.file, timeout=5, isolation_level=None)) as locker:
        try:
            locker.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            pytest.skip("the daemon lets nobody else lock its file")
        before = time.monotonic()
        answer = work.attempt_start()
        assert time.monotonic() - before < 20
        answer.expect_problem(503, "unavailable")
        assert float(answer.headers["retry-after"]) > 0
        settling = beside(lease.complete)
        assert settling.result(20).status == 503
        locker.execute("ROLLBACK")
    eventually(lambda: work.attempt_start().status == 202, seconds=10, what="it serves again by itself")
    lease.complete().expect(200)
    assert run.view()["status"] == "completed"
    assert len(work.list()["items"]) == 2, "what was refused with 503 was not done"
