"""What changes executions from outside: start, cancel, pause, resume."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from stepd.engine.commands import Cancel, Command, Conflict, Done, InvalidInput, NotFound, Pause, Resume
from stepd.service import views
from stepd.service.answers import conflict, execution_ref, no_execution, no_workflow, reply
from stepd.service.audit import actor_of, note_refusal, note_refused_change
from stepd.service.base import Answer, Caller, Daemon, Reply
from stepd.service.budgets import budget_faults, given_nano
from stepd.service.decoding import BodyDecoder, invalid_request, summary
from stepd.service.idempotency import key_fault, remember, replayed
from stepd.service.starts import read_start
from stepd.store.base import Begin, Decide, Started, UnknownWorkflow
from stepd.store.keeping import KeyConflict, Replayed
from stepd_protocol.executions import CancelRequest, ResumeRequest
from stepd_protocol.problems import FieldFault, Problem, make_problem

START_TARGET = "POST /v1/executions"

_CANCEL = BodyDecoder(CancelRequest)
_RESUME = BodyDecoder(ResumeRequest, lambda request: budget_faults(request.budget))
_encode = msgspec.json.Encoder().encode


async def start(daemon: Daemon, caller: Caller, body: bytes, key: str | None, traceparent: str | None) -> Answer:
    """Starts an execution: 202 once it is durable, with its view. The same key and body again: the first answer."""
    if key is not None and (fault := key_fault(key)) is not None:
        return fault
    read = read_start(caller, body, traceparent, daemon.settings.limits)
    if isinstance(read, Problem):
        return await note_refusal(daemon, caller, "execution.start", "", None, read)
    command, version = read
    now = await daemon.store.now()
    accepted = _Accepted(daemon, now)
    idempotency = remember(caller, START_TARGET, key, body, accepted.kept)
    (answer,) = await daemon.store.submit(Begin(command, version, idempotency))
    match answer:
        case Started():
            return accepted.reply(answer)
        case Replayed(kept):
            if _is_in_reach(caller, kept.body):
                return replayed(kept)
            answer = KeyConflict()
    problem = _not_started(answer, command.workflow, version, key)
    return await note_refusal(daemon, caller, "execution.start", command.workflow, command.tenant, problem)


async def cancel(daemon: Daemon, caller: Caller, execution_id: str, body: bytes) -> Answer:
    """Asks an execution to end: 202. A key that may not read it gets id and status only."""
    request = _CANCEL.decode(body or b"{}")
    if isinstance(request, Problem):
        return request
    command = Cancel(actor_of(caller), request.reason, request.force)
    return await _change(daemon, caller, execution_id, "execution.cancel", command)


async def pause(daemon: Daemon, caller: Caller, execution_id: str) -> Answer:
    """Hands out no more steps of it: 202."""
    return await _change(daemon, caller, execution_id, "execution.pause", Pause(actor_of(caller)))


async def resume(daemon: Daemon, caller: Caller, execution_id: str, body: bytes = b"") -> Answer:
    """Ends a pause: 202. Bounds of a budget that the body gives take the place of those that stand."""
    request = _RESUME.decode(body or b"{}")
    if isinstance(request, Problem):
        return request
    tokens = UNSET if request.budget is None else request.budget.tokens
    command = Resume(actor_of(caller), given_nano(request.budget), tokens)
    return await _change(daemon, caller, execution_id, "execution.resume", command)


class _Accepted:
    """Writes the answer to a start once: for the store to keep under its key, and for the caller."""

    def __init__(self, daemon: Daemon, now: int) -> None:
        self._daemon = daemon
        self._now = now
        self._body: bytes | None = None

    def kept(self, answer: Any) -> tuple[int, str | None, bytes] | None:
        """What the store keeps with an idempotency key."""
        if not isinstance(answer, Started):
            return None
        return 202, _location(answer.rows.execution.id), self._write(answer)

    def reply(self, answer: Started) -> Reply:
        """What the caller gets."""
        body = self._write(answer) if self._body is None else self._body
        return Reply(202, body, (("Location", _location(answer.rows.execution.id)),))

    def _write(self, answer: Started) -> bytes:
        view = views.execution_view(views.Shown(answer.rows, answer.definition, self._daemon.directory, self._now))
        self._body = _encode(view)
        return self._body


class _Tenanted(msgspec.Struct):
    """Of an answer to a start, whose it is."""

    tenant: str | None


def _is_in_reach(caller: Caller, body: bytes) -> bool:
    """Whether a kept answer is for this key's eyes: its principal may have had a key for other tenants."""
    return caller.tenants is None or msgspec.json.decode(body, type=_Tenanted).tenant in caller.tenants


def _location(execution_id: str) -> str:
    return f"/v1/executions/{execution_id}"


def _not_started(answer: Any, workflow: str, version: str | None, key: str | None) -> Problem:
    match answer:
        case KeyConflict():
            return make_problem("idempotency_conflict", f"the key {key} was used for a start with another body")
        case UnknownWorkflow():
            return no_workflow(workflow, version)
        case Conflict():
            return conflict(answer)
        case InvalidInput():
            faults = [FieldFault(path=path, message=message) for path, message in answer.faults]
            if not any(fault.path.startswith("/input") for fault in faults):
                return invalid_request(faults)
            return make_problem("invalid_input", summary(faults), errors=faults)
    raise TypeError(f"the store answered a start with {type(answer).__name__}")


async def _change(daemon: Daemon, caller: Caller, execution_id: str, action: str, command: Command) -> Answer:
    (answer,) = await daemon.store.submit(Decide(command, execution_id=execution_id, tenants=caller.tenants))
    match answer:
        case Done(status):
            return await _changed(daemon, caller, execution_id, status)
        case Conflict():
            return await note_refused_change(daemon, caller, action, execution_id, conflict(answer))
        case NotFound():
            return no_execution(execution_id)
    raise TypeError(f"the engine answered {action} with {type(answer).__name__}")


async def _changed(daemon: Daemon, caller: Caller, execution_id: str, status: str) -> Answer:
    """202 with the view, or with id and status for a key that may not read the execution."""
    rows = await daemon.store.execution(execution_id, caller.sees())
    definition = None
    if rows is not None:
        definition = await daemon.store.definition(rows.execution.workflow, rows.execution.version)
    if rows is None or definition is None:
        return reply(202, execution_ref(execution_id, status))
    shown = views.Shown(rows, definition, daemon.directory, await daemon.store.now())
    return reply(202, views.execution_view(shown))
