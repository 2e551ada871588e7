"""Owns the outside world of a test, which counts what is done to it, and workers that die on their way to it."""

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import urlsplit

from stepd_worker import Context, Workflow

EFFECTS: Final = ("read_only", "idempotent_write", "non_idempotent_write")
INSTANTS: Final = ("before", "during", "after")
UNBEGUN: Final = "unbegun"
"""Before the worker has been told that it may begin: only where it has to be."""


@dataclass
class Outside:
    """A service that takes each key once, and kills a caller that asks for it while it waits for the answer."""

    url: str = ""
    calls: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, key: str) -> None:
        with self._lock:
            self.calls[key] += 1


@contextmanager
def outside() -> Iterator[Outside]:
    """The service, for the length of a `with` block."""
    world = Outside()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            world.take(self.headers["Idempotency-Key"])
            if pid := self.headers["Kill"]:
                os.kill(int(pid), signal.SIGKILL)
                return
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    world.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield world
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _die_at(instant: str) -> None:
    if os.environ.get("DIE_AT") == instant:
        os.kill(os.getpid(), signal.SIGKILL)


def _body(ctx: Context, input: Any) -> str:
    """Does it outside, once, and dies where its environment says."""
    _die_at(UNBEGUN)
    if ctx.step == UNBEGUN:
        ctx.begin_effect()
    _die_at("before")
    address = urlsplit(os.environ["OUTSIDE"])
    connection = HTTPConnection(address.hostname or "", address.port, timeout=10)
    headers = {"Idempotency-Key": ctx.idempotency_key}
    if os.environ.get("DIE_AT") == "during":
        headers["Kill"] = str(os.getpid())
    connection.request("POST", "/", headers=headers)
    connection.getresponse().read()
    _die_at("after")
    return "done"


def _workflow(effect: Any, instant: str) -> Workflow:
    workflow = Workflow(f"{effect}-{instant}")
    workflow.step(instant, effect=effect, begins_effect=instant == UNBEGUN, lease_seconds=0.6, reclaim_seconds=0.1)(
        _body
    )
    return workflow


WORKFLOWS: Final = {
    **{f"{effect}-{instant}": _workflow(effect, instant) for effect in EFFECTS for instant in INSTANTS},
    f"non_idempotent_write-{UNBEGUN}": _workflow("non_idempotent_write", UNBEGUN),
}
globals().update({name.replace("-", "_"): workflow for name, workflow in WORKFLOWS.items()})
