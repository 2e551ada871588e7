"""A worker of plain HTTP that keeps to the protocol while its daemon comes and goes, and remembers what it was told."""

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPException
from uuid import uuid4

from tests.support.client import Answer, Http, Json
from tests.support.flow import Lease, claim
from tests.support.wait import moment


class GaveUpError(Exception):
    """The load was stopped before the daemon gave an answer."""


@dataclass
class Load:
    """What all threads of one load share; `stop` ends them."""

    http: Http
    workflow: str
    stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    bodies: Counter[str] = field(default_factory=Counter)
    outputs: dict[tuple[str, str], str] = field(default_factory=dict)
    started: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def insist(self, call: Callable[[], Answer]) -> Answer:
        """The same call again and again until the daemon answers it."""
        while True:
            try:
                answer = call()
            except (OSError, HTTPException):
                answer = None
            if answer is not None and answer.status < 500 and answer.status != 429:
                return answer
            if self.stop.is_set():
                raise GaveUpError
            moment(0.05)

    def work(self) -> None:
        """Claims, runs and settles until the load is stopped."""
        try:
            while not self.stop.is_set():
                self._round()
        except GaveUpError:
            return

    def start(self, count: int, pause: float) -> None:
        """Starts this many executions, each with a key of its own, `pause` seconds apart."""
        for _ in range(count):
            if self.stop.is_set():
                return
            key = str(uuid4())
            headers = {"Idempotency-Key": key}
            body = {"workflow": self.workflow, "input": key}
            answer = self.insist(partial(self.http.post, "/v1/executions", body, headers=headers))
            with self._lock:
                self.started[key] = answer.expect(202)["id"]
            moment(pause)

    def _round(self) -> None:
        fields: dict[str, Json] = {
            "worker": f"worker-{threading.get_ident()}",
            "claim_id": str(uuid4()),
            "max": 4,
            "wait_seconds": 0.5,
            "serves": [{"workflow": self.workflow}],
        }
        answer = self.insist(lambda: claim(self.http, fields)).expect(200)
        for data in answer["leases"]:
            self._run(Lease(self.http, data))

    def _run(self, lease: Lease) -> None:
        if lease.data["start_required"] and not self._begin(lease):
            return
        output = str(uuid4())
        with self._lock:
            self.bodies[lease.data["idempotency_key"]] += 1
        answer = self.insist(lambda: lease.complete(output))
        if answer.status == 200:
            self._acknowledge(lease, output)
        elif answer.status != 409:
            self._complain(str(answer))

    def _begin(self, lease: Lease) -> bool:
        answer = self.insist(lambda: lease.heartbeat(started=True))
        if answer.status not in (200, 409):
            self._complain(str(answer))
        return answer.status == 200 and answer.json["cancel"] is None

    def _acknowledge(self, lease: Lease, output: str) -> None:
        place = lease.data["execution"]["id"], lease.step
        with self._lock:
            if place in self.outputs:
                self.problems.append(f"{place} was acknowledged twice")
            self.outputs[place] = output

    def _complain(self, what: str) -> None:
        with self._lock:
            self.problems.append(what)
