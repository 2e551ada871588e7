"""Owns the heartbeats' connection: one plain keep-alive connection for one thread, apart from everything else."""

import http.client
import ssl
from urllib.parse import urlsplit

from stepd_worker.transport import Answer, Endpoint, NoAnswer


class PlainConnection:
    """Posts over one connection, and opens it anew after any fault. The standard library sets TCP_NODELAY on it."""

    def __init__(self, endpoint: Endpoint) -> None:
        parts = urlsplit(endpoint.url)
        self._host = parts.hostname or ""
        self._port = parts.port
        self._prefix = parts.path
        self._headers = endpoint.headers()
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._connection: http.client.HTTPConnection | None = None

    def post(self, path: str, body: bytes, read_seconds: float) -> Answer:
        """Sends one call once; each read and write may take so long. Raises NoAnswer."""
        try:
            connection = self._open(read_seconds)
            connection.request("POST", self._prefix + path, body, self._headers)
            response = connection.getresponse()
            return Answer(response.status, response.read(), response.headers.get("Retry-After"))
        except (OSError, http.client.HTTPException) as fault:
            self.close()
            raise NoAnswer(str(fault) or type(fault).__name__) from fault

    def close(self) -> None:
        """Closes the connection; the next call opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self, read_seconds: float) -> http.client.HTTPConnection:
        if self._connection is None:
            self._connection = (
                http.client.HTTPConnection(self._host, self._port, timeout=read_seconds)
                if self._tls is None
                else http.client.HTTPSConnection(self._host, self._port, timeout=read_seconds, context=self._tls)
            )
        elif self._connection.sock is not None:
            self._connection.sock.settimeout(read_seconds)
        return self._connection
