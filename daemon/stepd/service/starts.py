"""A start as a caller sends it: what of it can be refused before the store is asked, and the command it becomes."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Raw, UnsetType

from stepd.engine import canonical
from stepd.engine.commands import Start
from stepd.ids import new_id
from stepd.service.answers import out_of_reach, too_large
from stepd.service.audit import actor_of
from stepd.service.base import Caller
from stepd.service.budgets import budget_faults, read_budget
from stepd.service.decoding import BodyDecoder, invalid_request, shown
from stepd.service.traces import read_traceparent
from stepd_protocol.executions import StartRequest
from stepd_protocol.limits import Limits
from stepd_protocol.problems import FieldFault, Problem
from stepd_protocol.times import parse_time


def read_start(
    caller: Caller, body: bytes, traceparent: str | None, limits: Limits
) -> tuple[Start, str | None] | Problem:
    """The start and the version it names, or why it is refused: 403, 413 or 422."""
    request = _START.decode(body)
    if isinstance(request, Problem):
        return request
    if len(request.labels) > limits.labels:
        message = f"has {len(request.labels)} labels, {limits.labels} are allowed"
        return invalid_request([FieldFault(path="/labels", message=message)])
    tenant = _tenant_of(caller, request.tenant)
    if isinstance(tenant, Problem):
        return tenant
    input_, state = _payload(request.input, b"null"), _payload(request.state, b"{}")
    for path, raw, limit in (("input", input_, limits.input_bytes), ("state", state, limits.state_bytes)):
        if len(raw) > limit:
            return too_large(f"/{path}", path, len(raw), limit)
    start = Start(
        id=new_id(),
        workflow=request.workflow,
        actor=actor_of(caller),
        tenant=tenant,
        correlation=request.correlation,
        labels=msgspec.json.encode(request.labels),
        priority=request.priority,
        input=input_,
        input_hash=canonical.digest(input_),
        state=state,
        start_at=None if request.start_at is None else parse_time(request.start_at),
        on_restart=request.on_restart,
        exclusive=request.exclusive,
        budget=read_budget(request.budget),
        traceparent=read_traceparent(traceparent),
    )
    return start, request.version


def _faults(request: StartRequest) -> list[FieldFault]:
    """What the types don't tell."""
    faults = []
    if request.start_at is not None:
        try:
            parse_time(request.start_at)
        except ValueError as fault:
            faults.append(FieldFault(path="/start_at", message=str(fault)))
    if request.state is not UNSET and not bytes(request.state).startswith(b"{"):
        faults.append(FieldFault(path="/state", message="must be an object"))
    if request.exclusive and request.correlation is None:
        faults.append(FieldFault(path="/correlation", message="is needed by an exclusive execution"))
    return faults + budget_faults(request.budget)


_START = BodyDecoder(StartRequest, _faults, {"workflow": "x"})


def _tenant_of(caller: Caller, tenant: str | None) -> str | Problem | None:
    """The execution's tenant: the one named, the key's only one, or none for a key that reaches all."""
    if tenant is not None:
        if caller.tenants is None or tenant in caller.tenants:
            return tenant
        return out_of_reach(f"tenant {shown(tenant)} is not one of this key's")
    if caller.tenants is None:
        return None
    if len(caller.tenants) == 1:
        return caller.tenants[0]
    return invalid_request([FieldFault(path="/tenant", message="must be named: the key has several tenants")])


def _payload(raw: Raw | UnsetType, default: bytes) -> bytes:
    return default if isinstance(raw, UnsetType) else bytes(raw)
