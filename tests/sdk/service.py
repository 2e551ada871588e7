"""Owns a service outside: a real HTTP server on raw sockets, so that it can delay, break off, and say what isn't so."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

SECONDS = 10.0
Answerer = Callable[["Asked"], bytes | list[bytes | float]]
"""The bytes to send, one after the other; a number waits so many seconds; then the connection is closed."""


@dataclass
class Asked:
    """One request as it came."""

    line: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Service:
    """What it was asked, and what it answers."""

    url: str
    answer: Answerer
    asked: list[Asked] = field(default_factory=list)


def plain(status: int, body: bytes = b"", *headers: str) -> bytes:
    """An answer as it should be."""
    head = [f"HTTP/1.1 {status} So", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*head, "", ""]).encode() + body


@contextmanager
def running_service(answer: Answerer) -> Iterator[Service]:
    """A service on a port of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        service = Service(f"http://127.0.0.1:{listener.getsockname()[1]}", answer)
        over = threading.Event()
        threading.Thread(target=_accept, args=(listener, service, over), daemon=True).start()
        try:
            yield service
        finally:
            over.set()


def _accept(listener: socket.socket, service: Service, over: threading.Event) -> None:
    while not over.is_set():
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_serve, args=(connection, service, over), daemon=True).start()


def _serve(connection: socket.socket, service: Service, over: threading.Event) -> None:
    with connection:
        connection.settimeout(SECONDS)
        try:
            asked = _read(connection)
            service.asked.append(asked)
            said = service.answer(asked)
            for part in [said] if isinstance(said, bytes) else said:
                if isinstance(part, bytes):
                    connection.sendall(part)
                else:
                    over.wait(part)
        except OSError:
            return


def _read(connection: socket.socket) -> Asked:
    received = b""
    deadline = time.monotonic() + SECONDS
    while b"\r\n\r\n" not in received:
        received += _some(connection, deadline)
    head, _, body = received.partition(b"\r\n\r\n")
    line, *rest = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in rest)}
    while len(body) < int(headers.get("content-length", 0)):
        body += _some(connection, deadline)
    return Asked(line, headers, body)


def _some(connection: socket.socket, deadline: float) -> bytes:
    some = connection.recv(65536)
    if not some or time.monotonic() > deadline:
        raise OSError("the client went away")
    return some
