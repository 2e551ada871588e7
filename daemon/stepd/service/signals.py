"""Signals to one execution, and events to all open ones of a correlation."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from stepd.engine import canonical
from stepd.engine.commands import Conflict, InvalidInput, NotFound, Signal, TooMany
from stepd.ids import new_id
from stepd.service import views
from stepd.service.answers import conflict, execution_ref, no_execution, reply, too_large
from stepd.service.audit import actor_of, note_refusal, note_refused_change, row_of
from stepd.service.base import Answer, Caller, Daemon, Reply
from stepd.service.decoding import BodyDecoder, summary
from stepd.service.idempotency import key_fault, remember, replayed
from stepd.store.base import Decide, Scope, Viewed
from stepd.store.keeping import Keep, KeyConflict, Replayed
from stepd_protocol.executions import PublishAnswer, PublishRequest, SignalRequest
from stepd_protocol.fields import Payload
from stepd_protocol.names import ExecutionStatus
from stepd_protocol.problems import FieldFault, Problem, make_problem

PUBLISH_TARGET: Final = "POST /v1/events"
BEGUN_TARGET: Final = "POST /v1/events, begun"
"""Under it the body of an event is kept before it goes to anybody: its key is for no other from then on."""
PAGE: Final = 200
"""Executions that an event goes to at a time; others get their turn between two pages."""

_SIGNAL = BodyDecoder(SignalRequest)
_PUBLISH = BodyDecoder(PublishRequest)
_encode = msgspec.json.Encoder().encode


async def signal(daemon: Daemon, caller: Caller, execution_id: str, body: bytes, key: str | None) -> Answer:
    """Hands a payload to a wait of an execution, or keeps it for one: 202 with the view, or with id and status for a
    key that may not read the execution. The same key and body again: the first answer.
    """
    request = _SIGNAL.decode(body)
    if isinstance(request, Problem):
        return request
    if (fault := _fault(daemon, request, key)) is not None:
        return fault
    command = Signal(actor_of(caller), request.name, _payload(request.payload))
    accepted = _Accepted(daemon, await daemon.store.now())
    target = f"POST /v1/executions/{execution_id}/signals"
    operation = Decide(
        command,
        execution_id=execution_id,
        tenants=caller.tenants,
        idempotency=remember(caller, target, key, body, accepted.kept),
        seen_by=caller.sees(),
    )
    (answer,) = await daemon.store.submit(operation)
    match answer:
        case Viewed():
            return Reply(202, accepted.body(answer))
        case Replayed(kept):
            body_again = await _said_again(daemon, caller, execution_id, kept.body)
            if body_again is not None:
                return replayed(kept, body_again)
            answer = NotFound()
    problem = _not_signalled(answer, execution_id, request.name, key)
    return await note_refused_change(daemon, caller, "execution.signal", execution_id, problem)


async def publish(daemon: Daemon, caller: Caller, body: bytes, key: str | None) -> Answer:
    """Gives a signal to every open execution of the key's tenants with this correlation that can take it: 202.

    What it has reached is written with each execution: sent again with its key, it reaches the rest, and nobody twice.
    """
    request = _PUBLISH.decode(body)
    if isinstance(request, Problem):
        return request
    if (fault := _fault(daemon, request, key)) is not None:
        return fault
    idempotency = remember(caller, PUBLISH_TARGET, key, body, _kept_of_publish)
    if idempotency is not None:
        begun = msgspec.structs.replace(idempotency, target=BEGUN_TARGET, encode=_begun)
        (answer,) = await daemon.store.submit(Keep(None, [], begun))
        if isinstance(answer, KeyConflict):
            return await _conflict_of_publish(daemon, caller, request.name, key)
        kept = await daemon.store.remembered(caller.principal, PUBLISH_TARGET, idempotency.key)
        if kept is not None:
            return replayed(kept)
    source = canonical.digest(canonical.encode([caller.principal, key or new_id(), canonical.digest(body)]))
    command = Signal(actor_of(caller), request.name, _payload(request.payload), source)
    await _deliver(daemon, caller, request.correlation, command)
    outcome = PublishAnswer(delivered=await daemon.store.delivered(source))
    tenant = caller.tenants[0] if caller.tenants is not None and len(caller.tenants) == 1 else None
    row = row_of(caller, await daemon.store.now(), "event.publish", request.name, tenant)
    (answer,) = await daemon.store.submit(Keep(outcome, [row], idempotency))
    if isinstance(answer, Replayed):
        return replayed(answer.kept)
    return reply(202, outcome)


async def _deliver(daemon: Daemon, caller: Caller, correlation: str, command: Signal) -> None:
    """Submits the signal to each execution, a page at a time; those that can't take it refuse, and are left out."""
    after = ""
    while page := await daemon.store.correlated(correlation, caller.tenants, after, PAGE):
        operations = (Decide(command, execution_id=id_, tenants=caller.tenants) for id_ in page)
        await asyncio.gather(*(daemon.store.submit(operation) for operation in operations))
        after = page[-1]


class _Accepted:
    """Writes the answer to a signal once: for the store to keep under its key, and for the caller."""

    def __init__(self, daemon: Daemon, now: int) -> None:
        self._daemon = daemon
        self._now = now
        self._body: bytes | None = None

    def kept(self, answer: Any) -> tuple[int, str | None, bytes] | None:
        """What the store keeps with an idempotency key."""
        return (202, None, self.body(answer)) if isinstance(answer, Viewed) else None

    def body(self, answer: Viewed) -> bytes:
        """The view as it was right after the signal, or id and status."""
        if self._body is None:
            self._body = _encode(self._shown(answer))
        return self._body

    def _shown(self, answer: Viewed) -> object:
        if answer.rows is None:
            return execution_ref(answer.execution_id, answer.status)
        return views.execution_view(views.Shown(answer.rows, answer.definition, self._daemon.directory, self._now))


class _Kept(msgspec.Struct):
    """Of a kept answer to a signal, what may be shown to whom. ``tenant`` is there in a view only."""

    id: str
    status: ExecutionStatus
    tenant: str | UnsetType | None = UNSET


async def _said_again(daemon: Daemon, caller: Caller, execution_id: str, body: bytes) -> bytes | None:
    """The kept answer as far as it is for this key's eyes: its principal may have had another key then.

    None where the execution is another tenant's; id and status alone where the key may not read it.
    """
    kept = msgspec.json.decode(body, type=_Kept)
    standing = await daemon.store.standing(execution_id, Scope())
    tenant = kept.tenant if standing is None else standing.tenant
    if caller.tenants is not None and tenant is not UNSET and tenant not in caller.tenants:
        return None
    if kept.tenant is UNSET or caller.may("read") or (standing and standing.principal == caller.principal):
        return body
    return _encode(execution_ref(kept.id, kept.status))


def _fault(daemon: Daemon, request: SignalRequest | PublishRequest, key: str | None) -> Problem | None:
    """What is refused before the store is asked: a key that is none, a payload over its limit."""
    if key is not None and (fault := key_fault(key)) is not None:
        return fault
    size, limit = len(_payload(request.payload)), daemon.settings.limits.payload_bytes
    return too_large("/payload", "payload", size, limit) if size > limit else None


def _payload(raw: Payload) -> bytes:
    return bytes(raw) if isinstance(raw, Raw) else b"null"


def _begun(_: Any) -> tuple[int, str | None, bytes]:
    return 202, None, b""


def _kept_of_publish(outcome: Any) -> tuple[int, str | None, bytes]:
    return 202, None, _encode(outcome)


def _not_signalled(answer: Any, execution_id: str, name: str, key: str | None) -> Problem:
    match answer:
        case NotFound():
            return no_execution(execution_id)
        case KeyConflict():
            return make_problem("idempotency_conflict", f"the key {key} was used for a signal with another body")
        case Conflict():
            return conflict(answer)
        case TooMany(kept):
            detail = f"{kept:,} signals are kept already that no wait has taken; nothing was done, try again later"
            return make_problem("too_busy", detail)
        case InvalidInput():
            faults = [FieldFault(path=path, message=message) for path, message in answer.faults]
            detail = f"the payload fits no wait for {name}: {summary(faults)}"
            return make_problem("invalid_input", detail, errors=faults)
    raise TypeError(f"the store answered a signal with {type(answer).__name__}")


async def _conflict_of_publish(daemon: Daemon, caller: Caller, name: str, key: str | None) -> Problem:
    problem = make_problem("idempotency_conflict", f"the key {key} was used for an event with another body")
    return await note_refusal(daemon, caller, "event.publish", name, None, problem)
