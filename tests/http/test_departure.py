"""Whether a parked call notices that its client left, however it leaves, and what becomes of leases nobody took."""

import socket
from collections.abc import Callable

import pytest

from tests.http.edge import Edge
from tests.support.client import Http
from tests.support.raw import Pending, head, send, send_bytes
from tests.support.wait import eventually

NOTICE_SECONDS = 2.0


def _shut(pending: Pending) -> None:
    pending.link.shutdown(socket.SHUT_WR)


LEAVING: dict[str, Callable[[Pending], None]] = {
    "closes": Pending.leave,
    "resets": Pending.vanish,
    "closes its half": _shut,
}


@pytest.mark.parametrize("leave", LEAVING.values(), ids=LEAVING.keys())
def test_a_parked_call_notices_a_client_that(edge: Edge, http: Http, leave: Callable[[Pending], None]) -> None:
    pending = send(http, "POST", "/poll", {})
    eventually(lambda: edge.parked == 1)
    leave(pending)
    eventually(lambda: edge.left == 1, seconds=NOTICE_SECONDS)
    assert edge.parked == 0
    pending.link.close()


def test_the_second_call_of_a_connection_notices_too(edge: Edge, http: Http) -> None:
    pending = send(http, "POST", "/echo", {"a": 1})
    assert pending.has_answer(5)
    pending.link.sendall(head(http, "POST", "/poll", 2) + b"{}")
    eventually(lambda: edge.parked == 1)
    pending.leave()
    assert eventually(lambda: edge.left == 1, seconds=NOTICE_SECONDS)


def test_a_large_body_does_not_hide_the_client(edge: Edge, http: Http) -> None:
    pending = send(http, "POST", "/poll", {"a": "x" * 90_000})
    eventually(lambda: edge.parked == 1)
    pending.leave()
    assert eventually(lambda: edge.left == 1, seconds=NOTICE_SECONDS)


def test_many_leave_at_once(edge: Edge, http: Http) -> None:
    calls = [send(http, "POST", "/poll", {}) for _ in range(50)]
    eventually(lambda: edge.parked == 50)
    for pending in calls:
        pending.leave()
    eventually(lambda: edge.left == 50, seconds=NOTICE_SECONDS)
    assert eventually(lambda: edge.statuses("poll") == [200] * 50)


def test_a_stream_is_closed_when_its_client_leaves(edge: Edge, http: Http) -> None:
    pending = send_bytes(http, head(http, "GET", "/stream", 0))
    assert pending.has_answer(5)
    pending.leave()
    assert eventually(lambda: edge.streams_closed == 1, seconds=NOTICE_SECONDS)


@pytest.mark.parametrize("leave", [Pending.leave, Pending.vanish], ids=["closes", "resets"])
def test_leases_of_an_answer_nobody_waits_for_go_back(edge: Edge, http: Http, leave: Callable[[Pending], None]) -> None:
    pending = send(http, "POST", "/held", {})
    eventually(lambda: edge.parked == 1)
    leave(pending)
    # The server has seen the end of the connection once a later connection was served.
    http.get("/public").expect(200)
    edge.release()
    assert eventually(lambda: edge.given_back == ["l1"])


def test_leases_that_were_delivered_stay(edge: Edge, http: Http) -> None:
    edge.release()
    assert http.post("/held", {}).expect(200) == {"leases": ["l1"]}
    eventually(lambda: edge.statuses("held") == [200])
    assert edge.given_back == []
