"""``python -m bench.sink <port>``: a collector that takes every export and keeps none of it; tells how many on GET."""

from __future__ import annotations

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Sink(BaseHTTPRequestHandler):
    """Answers 200 to everything; connections stay open, as collectors keep them."""

    protocol_version = "HTTP/1.1"
    exports = 0

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        Sink.exports += 1
        self._answer(b"")

    def do_GET(self) -> None:
        self._answer(str(Sink.exports).encode())

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Says nothing of requests."""

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Sink).serve_forever()
