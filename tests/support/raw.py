"""Requests over a bare socket, for clients that go away, and for answers that nobody reads."""

import json
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from tests.support.client import Http, Json


@dataclass(frozen=True, slots=True)
class Pending:
    """A request that was sent and whose answer was not read."""

    link: socket.socket

    def leave(self) -> None:
        """Closes the connection as a client that ends does."""
        self.link.close()

    def vanish(self) -> None:
        """Resets the connection as a client does that is killed with data unread."""
        self.link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.link.close()

    def read_to_end(self, seconds: float) -> bytes:
        """What comes until the daemon closes the connection; at most `seconds` between two pieces."""
        self.link.settimeout(seconds)
        pieces = []
        try:
            while piece := self.link.recv(65536):
                pieces.append(piece)
        finally:
            self.link.close()
        return b"".join(pieces)

    def arrived(self) -> bytes:
        """What has come until now, without waiting for more."""
        self.link.setblocking(False)
        pieces = []
        try:
            while piece := self.link.recv(65536):
                pieces.append(piece)
        except OSError:  # nothing more has come, or the daemon has closed
            pass
        return b"".join(pieces)

    def has_answer(self, seconds: float) -> bool:
        """True once something came within `seconds`; it stays unread."""
        self.link.settimeout(seconds)
        try:
            return bool(self.link.recv(1, socket.MSG_PEEK))
        except TimeoutError:
            return False


def send(http: Http, method: str, path: str, body: Json, headers: Mapping[str, str] | None = None) -> Pending:
    """Sends a whole request and reads nothing."""
    content = json.dumps(body).encode()
    return send_bytes(http, head(http, method, path, len(content), headers) + content)


def send_bytes(http: Http, data: bytes) -> Pending:
    parts = urlsplit(http.url)
    link = socket.create_connection((parts.hostname or "127.0.0.1", parts.port or 80), timeout=10)
    link.sendall(data)
    return Pending(link)


def head(http: Http, method: str, path: str, length: int, headers: Mapping[str, str] | None = None) -> bytes:
    """A request's head for a body of `length` bytes."""
    given = {"Host": urlsplit(http.url).netloc, "Content-Type": "application/json", "Content-Length": str(length)}
    if http.key is not None:
        given["Authorization"] = f"Bearer {http.key}"
    lines = [
        f"{method} {path} HTTP/1.1",
        *(f"{name}: {value}" for name, value in (given | dict(headers or {})).items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
