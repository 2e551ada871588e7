"""A connection is closed when it was idle for long enough, never under a call, and answers come in one piece."""

import time
from collections.abc import Iterator

import pytest

from stepd.http import server
from tests.http.edge import Edge
from tests.support.client import Http
from tests.support.raw import head, send, send_bytes
from tests.support.wait import eventually, moment

KEPT_SECONDS = 0.4


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> Iterator[Edge]:
    """An edge that keeps idle connections for a moment only."""
    monkeypatch.setattr(server, "KEEP_ALIVE_SECONDS", KEPT_SECONDS)
    edge = Edge().start()
    yield edge
    edge.close()


def test_an_idle_connection_is_closed_after_its_time(hasty: Edge) -> None:
    began = time.monotonic()
    answer = send(Http(hasty.url), "POST", "/echo", {}).read_to_end(3 * KEPT_SECONDS)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert KEPT_SECONDS <= time.monotonic() - began < 2.5 * KEPT_SECONDS


def test_closed_connections_leave_no_task_behind(hasty: Edge) -> None:
    send(Http(hasty.url), "POST", "/echo", {}).read_to_end(3 * KEPT_SECONDS)
    before = hasty.tasks()
    idle = [send(Http(hasty.url), "POST", "/echo", {}) for _ in range(5)]
    assert all(pending.read_to_end(3 * KEPT_SECONDS) for pending in idle)
    eventually(lambda: hasty.tasks() <= before, seconds=2, what="their tasks are gone")


def test_one_that_never_said_anything_is_closed_too(hasty: Edge) -> None:
    assert send_bytes(Http(hasty.url), b"").read_to_end(3 * KEPT_SECONDS) == b""


def test_calls_begin_the_idle_time_anew(hasty: Edge) -> None:
    http = Http(hasty.url)
    request = head(http, "POST", "/echo", 2) + b"{}"
    pending = send_bytes(http, request)
    for _ in range(4):
        assert pending.link.recv(65536).startswith(b"HTTP/1.1 200 ")
        moment(KEPT_SECONDS / 2)
        pending.link.sendall(request)
    assert pending.read_to_end(3 * KEPT_SECONDS).startswith(b"HTTP/1.1 200 ")


def test_a_call_under_way_is_not_idle(hasty: Edge) -> None:
    http = Http(hasty.url)
    pending = send(http, "POST", "/poll", {})
    assert not pending.has_answer(3 * KEPT_SECONDS)
    assert hasty.parked == 1
    pending.leave()
    eventually(lambda: hasty.left == 1)


def test_an_answer_comes_in_one_piece(edge: Edge, http: Http) -> None:
    pending = send(http, "POST", "/echo", {"a": "b" * 1000})
    assert pending.link.recv(65536).endswith(b'"}')
    pending.leave()


def test_the_head_of_a_stream_does_not_wait_for_its_body(edge: Edge, http: Http) -> None:
    pending = send_bytes(http, head(http, "GET", "/quiet", 0))
    assert pending.link.recv(65536).startswith(b"HTTP/1.1 200 ")
    pending.leave()


@pytest.mark.parametrize("path", ["/any", "/big", "/none"])
def test_a_head_that_is_all_there_is_goes_out(edge: Edge, http: Http, path: str) -> None:
    pending = send_bytes(http, head(http, "HEAD", path, 0))
    read = pending.link.recv(65536)
    assert read.startswith(b"HTTP/1.1 ")
    assert read.endswith(b"\r\n\r\n")
    pending.leave()
