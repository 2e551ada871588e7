"""What tests do to a store, in one line each: register, start, claim, settle, look."""

from __future__ import annotations

from typing import Any

import msgspec

from stepd.engine import commands as c
from stepd.engine.canonical import digest
from stepd.engine.definition import Compiled, compile_definition
from stepd.engine.work import Settings
from stepd.ids import new_id
from stepd.store.base import (
    Begin,
    Deal,
    Dealt,
    Decide,
    ExecutionRows,
    Request,
    Scope,
    Serve,
    Started,
    Store,
    Tell,
)
from stepd.store.keeping import Remember
from stepd_protocol.limits import Limits
from tests.store.backends import Backend

EVERYTHING = Scope()
NOON = 1_800_000_000_000


class SetClock:
    """A clock that stands where a test sets it."""

    def __init__(self, at: int = NOON) -> None:
        self.at = at

    def now(self) -> int:
        return self.at


class Shop:
    """A store and a clock."""

    def __init__(self, backend: Backend, settings: Settings) -> None:
        self.backend = backend
        self.settings = settings
        self.clock = SetClock()
        self.store: Store = backend.make(settings, self.clock)
        self.told: list[Tell] = []
        self.store.on_commit(self.told.append)

    async def open(self) -> None:
        await self.store.open()

    async def close(self) -> None:
        await self.store.close()

    async def reopen(self) -> None:
        """As a daemon that was stopped and started again."""
        await self.store.close()
        self.store = self.backend.make(self.settings, self.clock)
        self.store.on_commit(self.told.append)
        await self.store.open()

    # -- workflows ----------------------------------------------------------------------------------------------

    async def register(self, name: str = "flow", version: str = "1", **fields: Any) -> Compiled:
        definition = compiled(name, version, **fields)
        await self.store.register(definition, None)
        return definition

    # -- executions ---------------------------------------------------------------------------------------------

    async def start(self, workflow: str = "flow", **more: Any) -> str:
        """Starts an execution; answers its id."""
        answer = await self.try_start(workflow, **more)
        assert isinstance(answer, Started), answer
        return answer.rows.execution.id

    async def try_start(self, workflow: str = "flow", *, version: str | None = None, **more: Any) -> Any:
        remember = more.pop("idempotency", None)
        (answer,) = await self.store.submit(Begin(start(workflow, **more), version, remember))
        return answer

    async def view(self, execution_id: str, scope: Scope = EVERYTHING, **more: bool) -> ExecutionRows:
        rows = await self.store.execution(execution_id, scope, **more)
        assert rows is not None, execution_id
        return rows

    async def status(self, execution_id: str) -> str:
        row = await self.store.standing(execution_id, EVERYTHING)
        assert row is not None, execution_id
        return row.status

    async def journal(self, execution_id: str) -> list[str]:
        """The types of the events, after checking that nothing is missing between them."""
        events = await self.store.events(execution_id, 0, 10_000)
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        return [event.type for event in events]

    # -- the worker's calls -------------------------------------------------------------------------------------

    async def deal(self, *requests: Request) -> list[Dealt]:
        (answers,) = await self.store.submit(Deal(requests))
        return list(answers)

    async def claim(self, **more: Any) -> list[c.Granted]:
        """One claim; answers its leases."""
        (dealt,) = await self.deal(claim(**more))
        return dealt.leases

    async def claim_one(self, **more: Any) -> c.Granted:
        leases = await self.claim(**more)
        assert len(leases) == 1, leases
        return leases[0]

    async def complete(self, granted: c.Granted, output: Any = None, **more: Any) -> Any:
        (answer,) = await self.store.submit(complete(granted, output, **more))
        return answer

    async def fail(self, granted: c.Granted, class_: str, **more: Any) -> Any:
        (answer,) = await self.store.submit(fail(granted, class_, **more))
        return answer

    async def command(self, execution_id: str, command: c.Command, **more: Any) -> Any:
        (answer,) = await self.store.submit(Decide(command, execution_id=execution_id, **more))
        return answer

    async def run_to_end(self, workflow: str = "flow", **more: Any) -> str:
        """Starts an execution of single steps and completes them all; answers its id."""
        execution_id = await self.start(workflow, **more)
        while await self.status(execution_id) not in ("completed", "failed", "cancelled"):
            for granted in await self.claim(workflow=workflow, max=10):
                await self.complete(granted)
        return execution_id


def compiled(name: str = "flow", version: str = "1", **fields: Any) -> Compiled:
    """A definition, compiled as a daemon would; one read-only step unless others are named."""
    definition: dict[str, Any] = {"version": version, "steps": [step("only")], **fields}
    result = compile_definition(name, msgspec.json.encode(definition), Limits())
    assert isinstance(result, Compiled), result
    return result


def step(id_: str, **more: Any) -> dict[str, Any]:
    """A step of a definition."""
    return {"id": id_, "effect": "read_only", **more}


def start(workflow: str = "flow", **more: Any) -> c.Start:
    """What starts an execution; input and labels as Python values."""
    input_ = msgspec.json.encode(more.pop("input", {"n": 1}))
    fields: dict[str, Any] = {
        "id": new_id(),
        "workflow": workflow,
        "actor": c.Actor(more.pop("principal", "starter")),
        "tenant": None,
        "correlation": None,
        "labels": msgspec.json.encode(more.pop("labels", {})),
        "priority": 0,
        "input": input_,
        "input_hash": digest(input_),
        "state": b"{}",
        "start_at": None,
        "on_restart": None,
        "exclusive": None,
        "traceparent": None,
    }
    return c.Start(**fields | more)


def claim(workflow: str = "flow", *, version: str | None = None, steps: set[str] | None = None, **more: Any) -> Request:
    """A waiting claim for one workflow."""
    fields: dict[str, Any] = {
        "principal": "hand",
        "worker": "w",
        "instance": "w-1",
        "claim_id": new_id(),
        "max": 1,
        "serves": (Serve(workflow, version, None if steps is None else frozenset(steps)),),
        "tenants": None,
    }
    return Request(**fields | more)


def complete(granted: c.Granted, output: Any = None, **more: Any) -> Decide:
    """The holder's success."""
    attempt = granted.attempt
    raw = msgspec.json.encode(output)
    state = {key: msgspec.Raw(msgspec.json.encode(value)) for key, value in more.pop("state", {}).items()}
    fields: dict[str, Any] = {
        "attempt_id": attempt.id,
        "principal": attempt.principal,
        "fence": attempt.fence,
        "output": raw,
        "state": state,
        "digest": digest(raw),
        "reported": c.Reported(),
        "jitter": 1000,
    }
    return Decide(c.Complete(**fields | more), attempt_id=attempt.id)


def fail(granted: c.Granted, class_: str, **more: Any) -> Decide:
    """The holder's failure."""
    attempt = granted.attempt
    fields: dict[str, Any] = {
        "attempt_id": attempt.id,
        "principal": attempt.principal,
        "fence": attempt.fence,
        "class_": class_,
        "message": "it failed",
        "details": None,
        "effect": None,
        "retry_in_ms": None,
        "retry_at": None,
        "digest": class_,
        "reported": c.Reported(),
        "jitter": 1000,
    }
    return Decide(c.Fail(**fields | more), attempt_id=attempt.id)


def heartbeat(granted: c.Granted, *, started: bool = False, **more: Any) -> Decide:
    """The holder is at work."""
    attempt = granted.attempt
    fields: dict[str, Any] = {"fence": attempt.fence, "started": started, "reported": c.Reported()}
    return Decide(c.Heartbeat(attempt.id, attempt.principal, **fields | more), attempt_id=attempt.id)


def remember(
    key: str, body: str = "body", *, principal: str = "starter", target: str = "POST /v1/executions"
) -> Remember:
    """Keeps the first answer to a start."""
    return Remember(principal, target, key, body, _first_answer)


def _first_answer(answer: Any) -> tuple[int, str | None, bytes] | None:
    if not isinstance(answer, Started):
        return None
    execution_id = answer.rows.execution.id
    return 202, f"/v1/executions/{execution_id}", execution_id.encode()
