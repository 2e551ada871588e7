"""The worker protocol and the executions as few words: a flow is a registered workflow, a run one execution of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import uuid4

from tests.support.client import Answer, Http, Json, Query
from tests.support.definitions import read, unique
from tests.support.journal import checked
from tests.support.times import instant
from tests.support.wait import eventually

ENDED = ("completed", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease as a worker holds it."""

    http: Http
    data: Json

    @property
    def id(self) -> str:
        return str(self.data["id"])

    @property
    def fence(self) -> int:
        return int(self.data["fence"])

    @property
    def attempt(self) -> int:
        return int(self.data["attempt"])

    @property
    def step(self) -> str:
        return str(self.data["step"])

    def heartbeat(self, **fields: Json) -> Answer:
        return self._post("heartbeat", fields)

    def begin(self) -> "Lease":
        """Says that the body starts now, and checks that it may."""
        assert self.heartbeat(started=True).expect(200)["cancel"] is None
        return self

    def complete(self, output: Json = None, **fields: Json) -> Answer:
        return self._post("complete", {"output": output, **fields})

    def fail(self, kind: str = "retryable", **fields: Json) -> Answer:
        """A failure of class `kind`."""
        return self._post("fail", {"class": kind, "message": "it went wrong", **fields})

    def _post(self, call: str, fields: Mapping[str, Json]) -> Answer:
        return self.http.post(f"/v1/leases/{self.id}/{call}", {"fence": self.fence, **fields})


@dataclass(frozen=True, slots=True)
class Run:
    """One execution."""

    http: Http
    id: str
    started: Answer

    @property
    def path(self) -> str:
        return f"/v1/executions/{self.id}"

    def view(self, **query: Any) -> Json:
        return self.http.get(self.path, query=query).expect(200)

    def step(self, id: str = "work") -> Json:
        return next(step for step in self.view()["steps"] if step["id"] == id)

    def statuses(self) -> dict[str, str]:
        """Each step's status by its id."""
        return {step["id"]: step["status"] for step in self.view()["steps"]}

    def until(self, *statuses: str, seconds: float = 10) -> Json:
        """The view once the execution has one of these statuses."""

        def look() -> Json:
            view = self.view()
            reached.append(view["status"])
            return view if view["status"] in statuses else None

        reached: list[str] = []
        return eventually(look, seconds=seconds, what=f"{' or '.join(statuses)}, but {reached[-1:]} of {self.id}")

    def items(self, step: str = "work", **query: Any) -> Answer:
        """A page of the items or rounds of a step."""
        return self.http.get(f"{self.path}/steps/{step}/items", query=query)

    def step_until(self, *statuses: str, id: str = "work", seconds: float = 10) -> Json:
        """The step as the view shows it, once it has one of these statuses."""

        def look() -> Json:
            step = self.step(id)
            return step if step["status"] in statuses else None

        return eventually(look, seconds=seconds, what=f"step {id} of {self.id} {' or '.join(statuses)}")

    def events(self) -> list[Json]:
        """The whole journal, after checking that it is gapless and well-formed."""
        return checked(self.http, self.id)

    def types(self) -> list[str]:
        return [event["type"] for event in self.events()]

    def event(self, type: str) -> Json:
        """The only event of this type."""
        found = [event for event in self.events() if event["type"] == type]
        assert len(found) == 1, f"{len(found)} events {type}: {found}"
        return found[0]

    def cancel(self, **fields: Json) -> Answer:
        return self.http.post(f"{self.path}/cancel", {"reason": "the test says so", **fields})

    def signal(self, name: str, payload: Json = None, *, key: str | None = None, http: Http | None = None) -> Answer:
        """Hands a payload to a wait; by another caller where `http` is given."""
        headers = {} if key is None else {"Idempotency-Key": key}
        return (http or self.http).post(f"{self.path}/signals", {"name": name, "payload": payload}, headers=headers)

    def pause(self) -> Answer:
        return self.http.post(f"{self.path}/pause")

    def resume(self) -> Answer:
        return self.http.post(f"{self.path}/resume")

    def resolve(self, action: str, *, key: str | None = None, http: Http | None = None, **fields: Json) -> Answer:
        """An operator's resolution, with a key of its own unless one is given."""
        body = {"action": action, "evidence": {"reference": "case 4711", "reason": "seen by the test"}, **fields}
        headers = {"Idempotency-Key": key or str(uuid4())}
        return (http or self.http).post(f"/v1/admin/executions/{self.id}/resolve", body, headers=headers)


@dataclass(frozen=True, slots=True)
class Flow:
    """A registered workflow, with what its services and its workers do."""

    http: Http
    name: str
    registered: Json = field(repr=False)

    @property
    def version(self) -> str:
        return str(self.registered["version"])

    def attempt_start(self, *, headers: Mapping[str, str] | None = None, **fields: Json) -> Answer:
        return self.http.post("/v1/executions", {"workflow": self.name, **fields}, headers=headers)

    def start(self, *, headers: Mapping[str, str] | None = None, **fields: Json) -> Run:
        answer = self.attempt_start(headers=headers, **fields)
        return Run(self.http, answer.expect(202)["id"], answer)

    def attempt_claim(self, **fields: Json) -> Answer:
        return claim(self.http, {"serves": [{"workflow": self.name}], **fields})

    def claim(self, **fields: Json) -> list[Lease]:
        return [Lease(self.http, data) for data in self.attempt_claim(**fields).expect(200)["leases"]]

    def claim_one(self, **fields: Json) -> Lease:
        """The one lease that a claim gets within five seconds."""
        leases = self.claim(**{"wait_seconds": 5, **fields})
        assert len(leases) == 1, f"{len(leases)} leases of {self.name}"
        return leases[0]

    def claim_step(self, id: str, **fields: Json) -> Lease:
        """The lease of the step `id`."""
        lease = self.claim_one(serves=[{"workflow": self.name, "steps": [id]}], **fields)
        assert lease.step == id
        return lease

    def assert_idle(self, **fields: Json) -> None:
        """Checks that nothing can be claimed now."""
        assert self.claim(**fields) == []

    def begin(self, **fields: Json) -> tuple[Run, Lease]:
        """An execution, and the lease of its first step."""
        run = self.start(**fields)
        return run, self.claim_one()

    def list(self, **query: Any) -> Json:
        return self.http.get("/v1/executions", query={"workflow": self.name, **query}).expect(200)


def claim(http: Http, fields: Mapping[str, Json]) -> Answer:
    """A claim that waits for nothing unless told to, with a claim id of its own."""
    return http.post("/v1/leases/claim", {"worker": "tester", "claim_id": str(uuid4()), "wait_seconds": 0, **fields})


def register(http: Http, name: str, definition: Mapping[str, Json]) -> Answer:
    return http.send("PUT", f"/v1/workflows/{name}", dict(definition))


def make_flow(http: Http, *steps: Json, name: str | None = None, **fields: Json) -> Flow:
    """Registers a workflow of these steps under a name of its own."""
    name = name or unique()
    return Flow(http, name, register(http, name, {"steps": list(steps), **fields}).expect(200, 201))


def ahead(http: Http, seconds: float) -> str:
    """A time that is `seconds` ahead by the daemon's clock."""
    far = make_flow(http, read()).start(start_at="2100-01-01T00:00:00Z")
    far.cancel().expect(202)
    return (instant(far.started.json["created_at"]) + timedelta(seconds=seconds)).isoformat()


def listed(http: Http, query: Query) -> list[Json]:
    """All executions that a list shows, over all its pages."""
    items: list[Json] = []
    cursor: dict[str, str] = {}
    while True:
        page = http.get("/v1/executions", query={**dict(query), **cursor}).expect(200)
        items += page["items"]
        if page["next"] is None:
            return items
        cursor = {"cursor": page["next"]}
