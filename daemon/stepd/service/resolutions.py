"""How an operator resolves an execution that needs reconciliation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias, cast

import msgspec

from stepd.engine import canonical
from stepd.engine.commands import Conflict, NotFound, Resolve
from stepd.engine.model import NO_INDEX
from stepd.engine.resolutions import Close, KeyUsed, Resolved, Result, ResumeWith, Unresolvable
from stepd.engine.resolving import ACTION, answer_again
from stepd.ids import new_id
from stepd.service.answers import conflict, no_execution, reply, too_large
from stepd.service.audit import actor_of, note_refused_change
from stepd.service.base import Answer, Caller, Daemon, Reply
from stepd.service.decoding import BodyDecoder, invalid_request, shown, summary
from stepd.service.idempotency import REPLAYED, key_fault
from stepd.store.base import Decide
from stepd_protocol.admin import CloseResolution, Resolution, ResolveAnswer, ResumeResolution, StepResult
from stepd_protocol.executions import StandingWrite
from stepd_protocol.limits import Limits
from stepd_protocol.names import Direction, ExecutionStatus
from stepd_protocol.problems import FieldFault, Problem, make_problem
from stepd_protocol.times import format_time

Request: TypeAlias = ResumeResolution | CloseResolution


async def resolve(daemon: Daemon, caller: Caller, execution_id: str, body: bytes, key: str | None) -> Answer:
    """Resolves an execution. The same key, body and operator again: the first answer, for ever."""
    if key is None:
        return _no_key()
    if (fault := key_fault(key)) is not None:
        return fault
    request = _read(body, daemon.settings.limits)
    if isinstance(request, Problem):
        return request
    command = _command(caller, request, body, key)
    (answer,) = await daemon.store.submit(Decide(command, execution_id=execution_id, tenants=caller.tenants))
    if isinstance(answer, NotFound):
        answer = await _of_removed(daemon, caller, execution_id, command)
    match answer:
        case Resolved():
            return _reply(answer)
        case NotFound():
            return no_execution(execution_id)
    return await _refuse(daemon, caller, execution_id, key, answer)


async def _of_removed(daemon: Daemon, caller: Caller, execution_id: str, command: Resolve) -> Any:
    """What the ledger says of an execution that retention has removed."""
    kept = await daemon.store.resolution(execution_id, command.key)
    if kept is None or (caller.tenants is not None and kept.tenant not in caller.tenants):
        return NotFound()
    return answer_again(kept, caller.principal, command.digest)


async def _refuse(daemon: Daemon, caller: Caller, execution_id: str, key: str, answer: Any) -> Problem:
    match answer:
        case Conflict():
            problem = conflict(answer)
        case KeyUsed():
            detail = f"the key {shown(key)} belongs to another resolution of execution {execution_id}"
            problem = make_problem("idempotency_conflict", detail)
        case Unresolvable():
            faults = [FieldFault(path=path, message=message) for path, message in answer.faults]
            problem = invalid_request(faults)
            if answer.only_outputs:
                problem = make_problem("invalid_output", summary(faults), errors=faults)
        case _:
            raise TypeError(f"the engine answered a resolution with {type(answer).__name__}")
    return await note_refused_change(daemon, caller, ACTION, execution_id, problem)


def _reply(resolved: Resolved) -> Reply:
    answer = ResolveAnswer(
        id=resolved.execution_id,
        status=cast(ExecutionStatus, resolved.status),
        direction=cast(Direction, resolved.direction),
        revision=resolved.revision,
        standing_writes=list(_standing(resolved)),
        resolution=Resolution(id=resolved.resolution_id, at=format_time(resolved.at), operator=resolved.operator),
    )
    headers = (REPLAYED,) if resolved.replayed else ()
    return reply(200, answer, *headers)


def _standing(resolved: Resolved) -> Iterator[StandingWrite]:
    """Each item whose write stands, as a view has them."""
    by_step: dict[str, list[int | None]] = {}
    for step, index in resolved.standing_items:
        by_step.setdefault(step, []).append(index)
    for step in resolved.standing_writes:
        yield from (StandingWrite(step=step, index=index) for index in by_step.get(step, [None]))


# -- what is asked for ------------------------------------------------------------------------------------------------


def _blank(request: Request) -> list[FieldFault]:
    evidence = {"reference": request.evidence.reference, "reason": request.evidence.reason}
    return [
        FieldFault(path=f"/evidence/{name}", message="must not be blank")
        for name, text in evidence.items()
        if not text.strip()
    ]


def _resume_faults(request: ResumeResolution) -> list[FieldFault]:
    wrong = [
        FieldFault(path=f"/results/{number}/state", message="must be an object")
        for number, result in enumerate(request.results)
        if isinstance(result.state, msgspec.Raw) and not bytes(result.state).lstrip().startswith(b"{")
    ]
    return _blank(request) + wrong


_STAND_IN: Final = {"evidence": {"reference": "-", "reason": "-"}}
_DECODERS: Final[dict[str, BodyDecoder[Any]]] = {
    "resume": BodyDecoder(ResumeResolution, _resume_faults, {"action": "resume", **_STAND_IN}),
    "close": BodyDecoder(CloseResolution, _blank, {"action": "close", "verification": "accepted", **_STAND_IN}),
}


def _read(body: bytes, limits: Limits) -> Request | Problem:
    value = canonical.decode(body)
    action = value.get("action") if isinstance(value, dict) else None
    decoder = _DECODERS.get(action) if isinstance(action, str) else None
    if decoder is None:
        if not isinstance(value, dict):
            return invalid_request([FieldFault(path="", message="must be an object")])
        message = "must be resume or close" if "action" in value else "is required: resume or close"
        return invalid_request([FieldFault(path="/action", message=message)])
    request: Request | Problem = decoder.decode(body)
    if isinstance(request, ResumeResolution):
        return _too_large(request, limits) or request
    return request


def _too_large(request: ResumeResolution, limits: Limits) -> Problem | None:
    for number, result in enumerate(request.results):
        for name, raw, limit in (
            ("output", result.output, limits.output_bytes),
            ("state", result.state, limits.state_bytes),
        ):
            if isinstance(raw, msgspec.Raw) and len(bytes(raw)) > limit:
                return too_large(f"/results/{number}/{name}", name, len(bytes(raw)), limit)
    return None


def _command(caller: Caller, request: Request, body: bytes, key: str) -> Resolve:
    if isinstance(request, ResumeResolution):
        resolution: ResumeWith | Close = ResumeWith(tuple(_result(one) for one in request.results))
    else:
        resolution = Close(request.verification)
    return Resolve(
        actor=actor_of(caller),
        resolution_id=new_id(),
        key=key,
        digest=canonical.digest(body),
        body=body,
        resolution=resolution,
        reference=request.evidence.reference,
        reason=request.evidence.reason,
        expected_revision=request.expected_revision,
    )


def _result(result: StepResult) -> Result:
    return Result(
        step=result.step,
        index=NO_INDEX if result.index is None else result.index,
        outcome=result.outcome,
        output=bytes(result.output) if isinstance(result.output, msgspec.Raw) else None,
        state=bytes(result.state) if isinstance(result.state, msgspec.Raw) else None,
    )


def _no_key() -> Problem:
    """422: a resolution must be one that can be sent again."""
    detail = "a resolution needs the header Idempotency-Key, so that it can be sent again without being made twice"
    return make_problem("invalid_request", detail)
