"""The worker's calls: claim, heartbeat, complete and fail, and leases whose answer reached nobody."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from msgspec import UnsetType

from stepd.engine.commands import Alive, Complete, Fail, Granted, Heartbeat, NotFound, Refused, Told
from stepd.service.answers import execution_ref, lease_refused, no_lease, reply, seconds, stopping
from stepd.service.base import Answer, Caller, Daemon, Reply, WorkerCall
from stepd.service.decoding import BodyDecoder, summary
from stepd.service.granting import leases_of
from stepd.service.lives import Life, LifeKey
from stepd.service.outcomes import Outcome, read_complete, read_fail
from stepd.service.reported import read_report
from stepd.service.waiters import Gone
from stepd.store.base import Deal, Dealt, Decide, Request, Serve
from stepd_protocol import leases as wire
from stepd_protocol.names import Disposition
from stepd_protocol.problems import FieldFault, Problem, Settled, make_problem
from stepd_protocol.times import format_time

_CLAIM = BodyDecoder(wire.ClaimRequest)
_NEXT = BodyDecoder(wire.NextClaim)
_HEARTBEAT = BodyDecoder(wire.Heartbeat)
NO_LEASES = Dealt([])


async def claim(daemon: Daemon, caller: Caller, body: bytes, gone: Gone) -> Answer:
    """Waits for work and hands it out: 200 with leases, with none where nothing came in time."""
    request = _CLAIM.decode(body)
    if isinstance(request, Problem):
        return request
    if daemon.dispatcher.stopped:
        return stopping()
    life, wanted = _arrive(daemon, caller, request)
    with daemon.directory.parked(life):
        dealt, held = await daemon.dispatcher.wait(caller, wanted, request.wait_seconds, gone)
    _note(daemon, life, dealt.leases)
    answer = wire.ClaimAnswer(
        leases=await leases_of(daemon, dealt.leases), held_seconds=_held(held), service=daemon.service_id
    )
    return _handing_over(reply(200, answer), dealt.leases)


async def heartbeat(daemon: Daemon, caller: Caller, lease_id: str, body: bytes) -> Answer:
    """Keeps a lease alive: 200 with its new end, or one of the refusals."""
    request = _HEARTBEAT.decode(body)
    if isinstance(request, Problem):
        return request
    reported, warnings = read_report(
        daemon.settings.limits, request.progress, request.usage, request.spans, daemon.prices.table
    )
    command = Heartbeat(lease_id, caller.principal, request.fence, request.started, reported)
    (answer,) = await daemon.store.submit(Decide(command, attempt_id=lease_id))
    daemon.directory.beats(lease_id, caller.principal)
    if not isinstance(answer, Alive):
        return _not_taken(daemon, "heartbeat", lease_id, answer)
    cancel = None if answer.cancel is None else wire.CancelWish(reason=answer.cancel)
    alive = wire.HeartbeatAnswer(
        expires_at=format_time(answer.expires_at),
        lease_seconds=seconds(answer.lease_ms),
        cancel=cancel,
        warnings=warnings,
    )
    return reply(200, alive)


async def complete(daemon: Daemon, caller: Caller, lease_id: str, body: bytes) -> Answer:
    """The body succeeded: 200, 422 with ``settled`` where its output can't be taken, or one of the refusals."""
    outcome = read_complete(caller.principal, lease_id, body, daemon.settings.limits, daemon.prices.table)
    return outcome if isinstance(outcome, Problem) else await _settle(daemon, caller, outcome)


async def fail(daemon: Daemon, caller: Caller, lease_id: str, body: bytes) -> Answer:
    """The body failed: 200 with what became of the step, or one of the refusals."""
    outcome = read_fail(caller.principal, lease_id, body, daemon.settings.limits, daemon.prices.table)
    return outcome if isinstance(outcome, Problem) else await _settle(daemon, caller, outcome)


async def undelivered(daemon: Daemon, lease_ids: Iterable[str]) -> None:
    """Gives leases back whose answer could not be handed to its connection, unless a later call has named them."""
    await daemon.dispatcher.give_back(lease_ids)


# -- claims ---------------------------------------------------------------------------------------------------------


def _arrive(daemon: Daemon, caller: Caller, request: wire.ClaimRequest | wire.NextClaim) -> tuple[Life, Request]:
    """Notes who claims, and answers the claim as the store takes it."""
    instance = request.instance or request.worker
    serves = tuple(_serve(entry) for entry in request.serves)
    life = daemon.directory.claims(LifeKey(caller.principal, request.worker, instance), serves, caller.tenants)
    wanted = Request(
        principal=caller.principal,
        worker=request.worker,
        instance=instance,
        claim_id=request.claim_id,
        max=request.max,
        serves=serves,
        tenants=caller.tenants,
        answer_bytes=daemon.settings.limits.claim_answer_bytes,
    )
    return life, wanted


def _serve(entry: wire.Serves) -> Serve:
    return Serve(entry.workflow, entry.version, None if entry.steps is None else frozenset(entry.steps))


def _note(daemon: Daemon, life: Life, granted: Sequence[Granted]) -> None:
    for grant in granted:
        step = grant.step
        daemon.directory.holds(life, grant.attempt.id, step.workflow, step.version, step.step)


def _handing_over(answer: Reply, granted: Sequence[Granted]) -> Reply:
    answer.leases = tuple(grant.attempt.id for grant in granted)
    return answer


def _held(held: float) -> float:
    """Whole milliseconds, never more than was held: the worker adds it to what its lease lasts."""
    return int(held * 1000) / 1000


# -- settling -------------------------------------------------------------------------------------------------------


async def _settle(daemon: Daemon, caller: Caller, outcome: Outcome) -> Answer:
    """Settles an attempt; the claim that rides on it shares the commit, and is done only where the answer is 200."""
    command = outcome.command
    decide = Decide(command, attempt_id=command.attempt_id)
    riding = _riding_claim(daemon, caller, outcome)
    if riding is None:
        (answer,), dealt = await daemon.store.submit(decide), NO_LEASES
    else:
        life, request = riding
        deal = Deal([request], only_if=lambda: isinstance(decide.answer, Told) and not decide.answer.faults)
        answer, (dealt,) = await daemon.store.submit(decide, deal)
        _note(daemon, life, dealt.leases)
    daemon.directory.beats(command.attempt_id, caller.principal)
    if not isinstance(answer, Told):
        call: WorkerCall = "complete" if isinstance(command, Complete) else "fail"
        return _not_taken(daemon, call, command.attempt_id, answer)
    unservable = isinstance(command, Fail) and command.class_ == "unservable" and answer.disposition == "requeued"
    daemon.directory.ends(command.attempt_id, unservable=unservable)
    if answer.faults:
        return _invalid_output(answer, outcome.warnings)
    members: dict[str, Any] = {
        "late": answer.late,
        "replayed": answer.replayed,
        "execution": execution_ref(answer.execution_id, answer.execution_status),
        "leases": await leases_of(daemon, dealt.leases),
        "held_seconds": 0.0,
        "warnings": outcome.warnings,
    }
    return _handing_over(reply(200, _told(command, answer, members)), dealt.leases)


def _told(command: Complete | Fail, answer: Told, members: dict[str, Any]) -> wire.CompleteAnswer | wire.FailAnswer:
    if isinstance(command, Complete):
        return wire.CompleteAnswer(**members)
    return wire.FailAnswer(
        disposition=cast(Disposition, answer.disposition),
        next_attempt_at=None if answer.next_attempt_at is None else format_time(answer.next_attempt_at),
        **members,
    )


def _riding_claim(daemon: Daemon, caller: Caller, outcome: Outcome) -> tuple[Life, Request] | None:
    """The claim in ``next``; None where there is none, or it can't be done, which a warning then says."""
    raw = outcome.next
    if isinstance(raw, UnsetType) or bytes(raw) == b"null":
        return None
    request = _NEXT.decode(bytes(raw))
    if isinstance(request, Problem):
        faults = request.errors if not isinstance(request.errors, UnsetType) else []
        outcome.warnings.append(f"next was not done: {summary(faults)}")
        return None
    if not caller.may("worker"):
        outcome.warnings.append("next was not done: the key has no scope worker")
        return None
    if daemon.dispatcher.stopped:
        outcome.warnings.append("next was not done: the daemon is stopping")
        return None
    daemon.dispatcher.displace(caller.principal, request.claim_id)
    return _arrive(daemon, caller, request)


def _not_taken(daemon: Daemon, call: WorkerCall, lease_id: str, answer: Any) -> Problem:
    if isinstance(answer, Refused):
        daemon.telemetry.refused(call, lease_id, answer)
        if answer.reason != "lease_expired":
            daemon.directory.ends(lease_id)
        return lease_refused(answer)
    if isinstance(answer, NotFound):
        return no_lease(lease_id)
    raise TypeError(f"the engine answered a worker call with {type(answer).__name__}")


def _invalid_output(answer: Told, warnings: list[str]) -> Problem:
    """422 with ``settled``: the attempt has failed with class ``invalid_output``."""
    faults = [FieldFault(path=path, message=message) for path, message in answer.faults]
    return make_problem(
        "invalid_output",
        summary(faults),
        errors=faults,
        settled=Settled(outcome="failed", at=format_time(answer.settled_at)),
        execution=execution_ref(answer.execution_id, answer.execution_status),
        late=answer.late,
        replayed=answer.replayed,
        warnings=warnings,
    )
