"""The same edge over HTTP/2: calls side by side on one connection, a call that is given up, an end in time."""

import socket
from collections.abc import Iterator

import h2.config
import h2.connection
import h2.events
import pytest

from tests.http.edge import Edge
from tests.support.wait import eventually


class Client:
    """One HTTP/2 connection, without TLS and without asking first."""

    def __init__(self, port: int) -> None:
        self.link = socket.create_connection(("127.0.0.1", port), timeout=5)
        self.connection = h2.connection.H2Connection(h2.config.H2Configuration())
        self.connection.initiate_connection()
        self.statuses: dict[int, str] = {}
        self.bodies: dict[int, bytes] = {}
        self.ended: set[int] = set()
        self.flush()

    def ask(self, method: str, path: str, body: bytes | None = None) -> int:
        """Sends a request; answers its stream."""
        stream = self.connection.get_next_available_stream_id()
        headers = [(":method", method), (":path", path), (":scheme", "http"), (":authority", "localhost")]
        if body is not None:
            headers.append(("content-type", "application/json"))
        self.connection.send_headers(stream, headers, end_stream=body is None)
        if body is not None:
            self.connection.send_data(stream, body, end_stream=True)
        self.flush()
        return stream

    def flush(self) -> None:
        self.link.sendall(self.connection.data_to_send())

    def read(self) -> bool:
        """Takes what comes next; False when the connection has ended."""
        data = self.link.recv(65536)
        for event in self.connection.receive_data(data) if data else ():
            match event:
                case h2.events.ResponseReceived(stream_id=stream, headers=headers):
                    self.statuses[stream] = dict(headers)[b":status"].decode()
                case h2.events.DataReceived(stream_id=stream, data=piece):
                    self.bodies[stream] = self.bodies.get(stream, b"") + piece
                    self.connection.acknowledge_received_data(len(piece), stream)
                case h2.events.StreamEnded(stream_id=stream):
                    self.ended.add(stream)
        self.flush()
        return bool(data)

    def answer(self, stream: int) -> tuple[str, bytes]:
        while stream not in self.ended:
            assert self.read(), "the connection ended"
        return self.statuses[stream], self.bodies.get(stream, b"")


@pytest.fixture
def client(edge: Edge) -> Iterator[Client]:
    client = Client(edge.listening.port)
    yield client
    client.link.close()


def test_calls_are_answered(client: Client) -> None:
    assert client.answer(client.ask("POST", "/echo", b'{"a": 1}')) == ("200", b'{"a": 1}')
    assert client.answer(client.ask("GET", "/any"))[0] == "200"
    assert client.answer(client.ask("GET", "/nowhere"))[0] == "404"
    assert client.answer(client.ask("POST", "/nowhere", b"{}" * 1000))[0] == "404"
    assert client.answer(client.ask("POST", "/echo", b"{"))[0] == "400"
    assert client.answer(client.ask("GET", "/any"))[0] == "200", "the connection has outlived the refusals"


def test_a_call_that_is_given_up_is_noticed_and_harms_no_other(edge: Edge, client: Client) -> None:
    first, second = client.ask("POST", "/poll", b"{}"), client.ask("POST", "/poll", b"{}")
    eventually(lambda: edge.parked == 2)
    client.connection.reset_stream(first)
    client.flush()
    eventually(lambda: edge.left == 1)
    assert edge.parked == 1
    edge.drain()
    assert client.answer(second) == ("200", b'{"leases":[]}')


def test_a_connection_that_ends_takes_all_its_calls_along(edge: Edge, client: Client) -> None:
    for _ in range(12):
        client.ask("POST", "/poll", b"{}")
    eventually(lambda: edge.parked == 12)
    client.link.close()
    assert eventually(lambda: edge.left == 12)


def test_parked_calls_and_streams_end_in_time(edge: Edge, client: Client) -> None:
    poll, stream = client.ask("POST", "/poll", b"{}"), client.ask("GET", "/stream")
    eventually(lambda: edge.parked == 2)
    edge.drain()
    assert client.answer(poll)[0] == "200"
    assert client.answer(stream) == ("200", b"id: 1\ndata: {}\n\n")
    edge.end(2)
    assert not client.read() or not client.read(), "after its goodbye the connection ends"
