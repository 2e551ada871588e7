"""Owns a scripted daemon: real HTTP on a real port, whose answers are what a test says."""

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DEADLINE_SECONDS = 10.0


@dataclass
class Call:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes
    at: float = field(default_factory=time.monotonic)

    @property
    def body(self) -> Any:
        return json.loads(self.raw) if self.raw else None

    @property
    def name(self) -> str:
        """The path's last part, which is the worker call's name: claim, heartbeat, complete, fail."""
        return self.path.partition("?")[0].rpartition("/")[2]


@dataclass
class Reply:
    """One answer. `drop` closes the connection without one, after `delay` seconds."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    drop: bool = False
    delay: float = 0


DROPPED = Reply(drop=True)
Script = Callable[[Call], Reply | None]


def problem(status: int, code: str, **members: Any) -> Reply:
    """A problem as the daemon writes it."""
    body = {
        "type": f"urn:stepd:problem:{code}",
        "title": code,
        "status": status,
        "detail": f"test: {code}",
        "code": code,
    }
    return Reply(status, body | members)


def refused(reason: str, **members: Any) -> Reply:
    """A lease's call refused with one of the four reasons."""
    return problem(409, "lease_refused", reason=reason, **members)


class Peer:
    """Records every call. Answers by the first of `scripts` that has an answer, else as an obliging daemon would:
    registers, deals the leases of `queue`, takes every outcome."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.scripts: list[Script] = []
        self.queue: deque[dict[str, Any]] = deque()
        self.service = "service-1"
        self.protocol = {
            "version": 1,
            "wait_seconds_max": 60,
            "lease_seconds": 30,
            "heartbeat_seconds": 10,
            "reclaim_seconds": 15,
            "limits": {},
        }
        self._newest: dict[str, Call] = {}
        self._changed = threading.Condition()
        self._closing = False
        self._server = _Server(self)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    # --- What a test says

    def script(self, name: str, *replies: Reply) -> None:
        """The next calls of that name get these answers, one each; later ones the obliging one."""
        left = deque(replies)

        def answer(call: Call) -> Reply | None:
            return left.popleft() if call.name == name and left else None

        self.scripts.append(answer)

    def always(self, name: str, reply: Reply) -> None:
        """Every call of that name gets this answer."""
        self.scripts.insert(0, lambda call: reply if call.name == name else None)

    def deal(self, *leases: dict[str, Any]) -> None:
        """Puts leases into the queue."""
        with self._changed:
            self.queue.extend(leases)
            self._changed.notify_all()

    # --- What a test asks

    def named(self, name: str) -> list[Call]:
        """The calls of that name so far."""
        with self._changed:
            return [call for call in self.calls if call.name == name]

    def wait_for(self, name: str, count: int = 1) -> list[Call]:
        """Waits until so many calls of that name came."""
        self.wait_until(lambda: len([call for call in self.calls if call.name == name]) >= count, f"{count} × {name}")
        return self.named(name)

    def wait_until(self, holds: Callable[[], bool], what: str) -> None:
        """Waits until a condition on what came holds; AssertionError after ten seconds."""
        with self._changed:
            if not self._changed.wait_for(holds, DEADLINE_SECONDS):
                raise AssertionError(f"Waited in vain for {what}; came: {[call.path for call in self.calls]}")

    # --- How it works

    def start(self) -> None:
        threading.Thread(target=self._server.serve_forever, args=(0.005,), daemon=True).start()

    def stop(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, call: Call) -> Reply:
        with self._changed:
            self.calls.append(call)
            self._changed.notify_all()
            scripted = next((reply for script in list(self.scripts) if (reply := script(call)) is not None), None)
        return scripted if scripted is not None else self._oblige(call)

    def _oblige(self, call: Call) -> Reply:
        if call.method == "PUT":
            name = call.name
            version = call.body.get("version") or "digest-1"
            registered = {"name": name, "version": version, "digest": "d", "registered_at": "2026-11-30T12:00:00.000Z"}
            return Reply(201, registered | {"current": True, "protocol": self.protocol, "service": self.service})
        if call.name == "claim":
            leases = self._claim(call, call.body["claim_id"])
            return Reply(200, {"leases": leases, "held_seconds": time.monotonic() - call.at, "service": self.service})
        if call.name == "heartbeat":
            beat = {"expires_at": "2026-11-30T12:00:30.000Z", "lease_seconds": 30, "cancel": None, "warnings": []}
            return Reply(200, beat)
        if call.name in ("complete", "fail"):
            return Reply(200, self.settled(call))
        return problem(404, "not_found")

    def settled(self, call: Call, **members: Any) -> dict[str, Any]:
        """The answer that takes an outcome, with what its `next` is dealt."""
        wanted = call.body.get("next")
        answer = {
            "late": False,
            "replayed": False,
            "execution": {"id": "e-1", "status": "running"},
            "leases": self._take(wanted["max"]) if wanted else [],
            "held_seconds": 0,
            "warnings": [],
        }
        if call.name == "fail":
            answer |= {"disposition": "step_failed", "next_attempt_at": None}
        return answer | members

    def _claim(self, call: Call, claim_id: str) -> list[dict[str, Any]]:
        """A newer call with the same id takes the place of the older, which is answered empty."""
        with self._changed:
            self._newest[claim_id] = call
            self._changed.notify_all()

            def over() -> bool:
                return self._closing or self._newest[claim_id] is not call

            self._changed.wait_for(lambda: self.queue or over(), call.body["wait_seconds"])
            return [] if over() else self._take(call.body["max"])

    def _take(self, most: int) -> list[dict[str, Any]]:
        with self._changed:
            return [self.queue.popleft() for _ in range(min(most, len(self.queue)))]


@contextmanager
def running_peer() -> Iterator[Peer]:
    """A peer for the length of a test."""
    peer = Peer()
    peer.start()
    try:
        yield peer
    finally:
        peer.stop()


def lease(lease_id: str = "l-1", step: str = "work", **changes: Any) -> dict[str, Any]:
    """A lease of the workflow `jobs`, version `1`, an idempotent write unless changed."""
    dealt = {
        "id": lease_id,
        "fence": 3,
        "attempt": 1,
        "max_attempts": 3,
        "execution": {
            "id": f"e-{lease_id}",
            "workflow": "jobs",
            "version": "1",
            "correlation": None,
            "tenant": None,
            "labels": {},
            "created_at": "2026-11-30T12:00:00.000Z",
        },
        "step": step,
        "index": None,
        "input": {"n": 1},
        "steps": {},
        "state": {},
        "previous": {"attempt": 0, "progress": None, "error": None},
        "idempotency_key": f"e-{lease_id}:{step}",
        "effect": "idempotent_write",
        "delivery": "at_least_once",
        "start_required": False,
        "expires_at": "2026-11-30T12:00:30.000Z",
        "lease_seconds": 30,
        "heartbeat_seconds": 10,
        "reclaim_seconds": 15,
        "timeout_seconds": None,
        "traceparent": None,
    }
    return dealt | changes


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def _handle(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        call = Call(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, self.rfile.read(length))
        reply = self.server.peer.answer(call)
        if reply.delay:
            time.sleep(reply.delay)
        if reply.drop:
            self.close_connection = True
            return
        content = reply.body if isinstance(reply.body, bytes) else b"" if reply.body is None else _dump(reply.body)
        self.send_response(reply.status)
        for name, value in ({"Content-Type": "application/json"} | reply.headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_DELETE = _handle  # noqa: N815 (the names that http.server calls)

    def log_message(self, *_: Any) -> None:
        """Says nothing: the calls are recorded."""


def _dump(value: Any) -> bytes:
    return json.dumps(value).encode()
