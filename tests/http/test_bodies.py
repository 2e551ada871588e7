"""The door for bodies: each fault has its own answer, nothing is held beyond the bound, nothing waits for ever."""

import socket
import time

import pytest

from tests.http.edge import ARRIVAL_SECONDS, REQUEST_BYTES, Edge
from tests.support.client import Http
from tests.support.raw import head, send_bytes
from tests.support.wait import eventually, moment

CHUNKED = {"Transfer-Encoding": "chunked"}


def test_a_body_passes_as_its_own_bytes(http: Http) -> None:
    raw = b'{"b": 1.0, "a": [10000000000000000000000, -0.0], "n":"\\u0000"}'
    assert http.send("POST", "/echo", raw=raw).body == raw


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"nothing",
        b"\xff",
        b'"\\ud800"',
        b"[NaN]",
        b"[1e400]",
        b'{"a":1,"a":2}',
        b"[" * 101 + b"]" * 101,
        b"[" * 20_000 + b"]" * 20_000,
        b"{} {}",
    ],
)
def test_what_is_no_json_is_400(http: Http, raw: bytes) -> None:
    http.send("POST", "/echo", raw=raw).expect_problem(400, "malformed_json")


def test_a_body_that_may_be_left_out_reads_as_an_empty_object(http: Http) -> None:
    assert http.post("/echo/optional").expect(200) == {}


@pytest.mark.parametrize(
    "given",
    ["application/json", "Application/JSON", "application/json; charset=utf-8", 'application/json;charset="UTF-8"'],
)
def test_json_is_taken(http: Http, given: str) -> None:
    assert http.send("POST", "/echo", raw=b"{}", headers={"Content-Type": given}).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"},
        {"Content-Type": ""},
        {"Content-Type": "application/json; charset=latin-1"},
        {"Content-Type": "application/jsonp"},
        {"Content-Encoding": "gzip"},
    ],
)
def test_other_media_types_are_415(http: Http, headers: dict[str, str]) -> None:
    http.send("POST", "/echo", raw=b"{}", headers=headers).expect_problem(415, "unsupported_media_type")


def test_the_largest_body_passes(http: Http) -> None:
    raw = b'"' + b"x" * (REQUEST_BYTES - 2) + b'"'
    assert http.send("POST", "/echo", raw=raw).body == raw


def test_a_larger_body_is_413_and_names_the_bound(http: Http) -> None:
    found = http.send("POST", "/echo", raw=b'"' + b"x" * REQUEST_BYTES + b'"').expect_problem(413, "payload_too_large")
    assert found["limit"] == REQUEST_BYTES
    assert found["size"] == REQUEST_BYTES + 2


def test_a_larger_chunked_body_is_413(http: Http) -> None:
    pending = send_bytes(http, _chunked_head(http, "/echo") + _chunk(b"x" * 60_000) * 3 + b"0\r\n\r\n")
    answer = _answer(pending.link)
    assert answer.startswith(b"HTTP/1.1 413 "), answer
    pending.leave()


def test_a_body_without_an_end_is_cut_off(edge: Edge, http: Http) -> None:
    pending = send_bytes(http, _chunked_head(http, "/echo"))
    with pytest.raises(OSError, match=r"reset|Broken pipe"):
        _pour(pending.link, seconds=20)
    eventually(lambda: edge.statuses("echo") == [413])
    pending.leave()


def test_a_body_that_stops_in_the_middle_is_408(edge: Edge, http: Http) -> None:
    began = time.monotonic()
    answer = send_bytes(http, head(http, "POST", "/echo", 100) + b'{"a":').read_to_end(5)
    assert answer.startswith(b"HTTP/1.1 408 "), answer
    assert b"urn:stepd:problem:request_timeout" in answer
    assert time.monotonic() - began >= ARRIVAL_SECONDS
    eventually(lambda: edge.statuses("echo") == [408])


def test_a_body_that_trickles_is_408_all_the_same(edge: Edge, http: Http) -> None:
    pending = send_bytes(http, head(http, "POST", "/echo", 100))

    def trickle() -> list[int]:
        if not edge.statuses("echo"):
            pending.link.sendall(b" ")
        return edge.statuses("echo")

    assert eventually(trickle, seconds=5, every=0.1) == [408]
    pending.leave()


def test_a_client_that_leaves_in_its_body_is_no_fault(edge: Edge, http: Http) -> None:
    send_bytes(http, head(http, "POST", "/echo", 100) + b'{"a":').leave()
    assert eventually(lambda: edge.statuses("echo") == [0])


def test_a_refusal_is_seen_although_the_body_was_not_wanted(guarded: Edge) -> None:
    http = Http(guarded.url, "no such key")
    for _ in range(20):
        http.send("POST", "/echo", raw=b"x" * 90_000).expect_problem(401, "unauthenticated")
        http.send("POST", "/nowhere", raw=b"x" * 2_000_000).expect_problem(404, "not_found")


def test_unread_bodies_leave_neither_task_nor_connection_behind(guarded: Edge) -> None:
    http = Http(guarded.url, "no such key")
    assert http.get("/public").status == 200, "the server is up"
    before = guarded.tasks()
    pieces = _chunk(b"x" * 1024) * 40
    calls = [send_bytes(http, _chunked_head(http, path) + pieces) for path in ("/echo", "/nowhere", "/any") * 20]
    for pending in calls:
        moment(0.001)
        pending.leave()
    assert eventually(lambda: guarded.tasks() <= before, seconds=5, what="as many tasks as before")


def test_a_connection_lasts_longer_than_a_thousand_calls(http: Http) -> None:
    link = send_bytes(http, b"").link
    call = head(http, "POST", "/echo", 2) + b"{}"
    for _ in range(1500):
        link.sendall(call)
        answer = _answer(link)
        assert answer.startswith(b"HTTP/1.1 200 "), answer
        assert b"connection: close" not in answer.lower()
    link.close()


def _pour(link: socket.socket, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        link.sendall(_chunk(b"x" * 65_536))


def _answer(link: socket.socket) -> bytes:
    """One answer with a length, whole."""
    link.settimeout(5)
    read = b""
    while b"\r\n\r\n" not in read:
        read += link.recv(65536)
    start, _, body = read.partition(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in start.lower().split(b"\r\n") if line.startswith(b"content-length")
    )
    while len(body) < length:
        body += link.recv(65536)
    return start + b"\r\n\r\n" + body


def _chunked_head(http: Http, path: str) -> bytes:
    lines = head(http, "POST", path, 0, CHUNKED).split(b"\r\n")
    return b"\r\n".join(line for line in lines if not line.lower().startswith(b"content-length"))


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)
