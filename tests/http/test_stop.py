"""The edge ends in bounded time, whatever its connections are in the middle of, and tells those who wait."""

import socket
import time

from tests.http.edge import Edge
from tests.support.client import Http
from tests.support.raw import Pending, head, send, send_bytes
from tests.support.wait import beside, eventually

STOP_SECONDS = 2.0


def test_everything_at_once_ends_in_time(edge: Edge, http: Http) -> None:
    polls = [send(http, "POST", "/poll", {}) for _ in range(20)]
    streams = [send_bytes(http, head(http, "GET", "/stream", 0)) for _ in range(5)]
    idle = send(http, "POST", "/echo", {})
    assert idle.has_answer(5)
    half_head = send_bytes(http, b"POST /echo HTTP/1.1\r\nHost: 127")
    half_body = send_bytes(http, head(http, "POST", "/echo", 100) + b'{"a":')
    eventually(lambda: edge.parked == 25)
    http.get("/public").expect(200)
    began = time.monotonic()
    edge.close(STOP_SECONDS)
    assert time.monotonic() - began < STOP_SECONDS
    for poll in polls:
        answer = poll.read_to_end(1)
        assert answer.startswith(b"HTTP/1.1 200 "), answer
        assert answer.endswith(b'{"leases":[]}'), answer
        assert b"connection: close" in answer.lower()
    for stream in streams:
        assert stream.read_to_end(1).endswith(b"\r\n0\r\n\r\n"), "a stream ends with its last chunk"
    assert edge.streams_closed == 5
    assert half_head.read_to_end(1) == b""
    assert half_body.read_to_end(1).startswith(b"HTTP/1.1 503 ")
    assert idle.read_to_end(1).startswith(b"HTTP/1.1 200 ")


def test_a_body_in_the_middle_is_refused(edge: Edge, http: Http) -> None:
    half_body = send_bytes(http, head(http, "POST", "/echo", 100) + b'{"a":')
    # Connections are taken in their order: once this later one is parked, the earlier one is being read.
    poll = send(http, "POST", "/poll", {})
    eventually(lambda: edge.parked == 1)
    edge.close(STOP_SECONDS)
    answer = half_body.read_to_end(1)
    assert answer.startswith(b"HTTP/1.1 503 "), answer
    assert b"retry-after: 1" in answer.lower()
    assert b"urn:stepd:problem:unavailable" in answer
    poll.read_to_end(1)


def test_while_draining_calls_are_served_but_nothing_new_begins(edge: Edge, http: Http) -> None:
    poll = send(http, "POST", "/poll", {})
    stream = send_bytes(http, head(http, "GET", "/stream", 0))
    eventually(lambda: edge.parked == 2)
    edge.drain()
    assert poll.read_to_end(2).endswith(b'{"leases":[]}')
    assert _until(stream, b"\r\n0\r\n\r\n")
    assert http.post("/leases/mine/beat", {}).expect(200) == {}
    answer = http.post("/start", {})
    answer.expect_problem(503, "unavailable")
    assert answer.headers["retry-after"] == "1"


def test_clients_that_do_not_read_do_not_hold_the_end(edge: Edge, http: Http) -> None:
    deaf = [send_bytes(http, head(http, "GET", "/big", 0)) for _ in range(5)]
    eventually(lambda: edge.parked == 5)
    edge.end(STOP_SECONDS + 1)
    for pending in deaf:
        assert pending.has_answer(1)
        pending.leave()


def test_the_port_is_free_afterwards(edge: Edge) -> None:
    edge.close(STOP_SECONDS)
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", edge.listening.port))
        assert again.getsockname()[1] == edge.listening.port


def test_new_connections_are_taken_while_it_drains(edge: Edge, http: Http) -> None:
    edge.drain()
    answers = [beside(lambda: http.get("/any")) for _ in range(5)]
    assert [answer.result(5).status for answer in answers] == [200] * 5


def test_an_answer_while_draining_ends_its_connection(edge: Edge, http: Http) -> None:
    edge.drain()
    pending: Pending = send(http, "POST", "/echo", {})
    answer = pending.read_to_end(2)
    assert b"connection: close" in answer.lower()


def _until(pending: Pending, end: bytes) -> bytes:
    """What came up to `end`."""
    pending.link.settimeout(2)
    read = b""
    while not read.endswith(end):
        piece = pending.link.recv(65536)
        assert piece, f"the connection ended: {read!r}"
        read += piece
    pending.leave()
    return read
