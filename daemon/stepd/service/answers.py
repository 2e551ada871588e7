"""How answers are written: JSON replies, and the problems that several capabilities share."""

from __future__ import annotations

from typing import Any

import msgspec

from stepd.engine.commands import Conflict, Refused
from stepd.service.base import Reply
from stepd.service.decoding import shown
from stepd_protocol.names import Scope
from stepd_protocol.problems import ExecutionRef, FieldFault, Problem, Settled, make_problem
from stepd_protocol.times import format_time

_encode = msgspec.json.Encoder().encode


def reply(status: int, value: Any, *headers: tuple[str, str]) -> Reply:
    """A 2xx answer with a wire type as its body."""
    return Reply(status, _encode(value), headers)


def no_execution(execution_id: str) -> Problem:
    """404: there is no such execution for this caller."""
    return make_problem("not_found", f"there is no execution {shown(execution_id)} for this key")


def no_step(execution_id: str, step: str) -> Problem:
    """404: the execution's definition has no such step."""
    return make_problem("not_found", f"execution {shown(execution_id)} has no step {shown(step)}")


def no_lease(lease_id: str) -> Problem:
    """404: the lease never was, or is another principal's."""
    return make_problem("not_found", f"there is no lease {shown(lease_id)} for this key")


def no_workflow(name: str, version: str | None) -> Problem:
    """404: the workflow, or this version of it, isn't registered."""
    what = f"workflow {shown(name)}" if version is None else f"version {shown(version)} of workflow {shown(name)}"
    return make_problem("not_found", f"{what} is not registered; a worker registers it with PUT /v1/workflows/{{name}}")


def forbidden(scope: Scope, detail: str) -> Problem:
    """403: the key lacks a scope."""
    return make_problem("forbidden", detail, scope=scope)


def out_of_reach(detail: str) -> Problem:
    """403: the key has the scope, but not for this tenant, or not for all of them."""
    return make_problem("forbidden", detail)


def not_good() -> Problem:
    """401: what let the caller in has come to an end since."""
    return make_problem("unauthenticated", "this key was revoked, or open mode has ended")


def too_large(path: str, what: str, size: int, limit: int) -> Problem:
    """413: one member of the body is over its limit; sizes in bytes."""
    detail = f"the {what} has {size} bytes, {limit} are allowed"
    return make_problem(
        "payload_too_large", detail, limit=limit, size=size, errors=[FieldFault(path=path, message=detail)]
    )


def stopping() -> Problem:
    """503: the daemon stops and takes on nothing new."""
    return make_problem("unavailable", "the daemon is stopping; send the same again to the one that follows")


_REFUSALS = {
    "already_settled": "its holder has settled this lease before, and a beat or another outcome changes nothing",
    "execution_ended": "the execution has ended, or its ending ended this attempt",
    "lease_lost": "the daemon has ended this attempt (lapsed, timed out, given up), or the fence is not this lease's",
    "lease_expired": "the lease has lapsed; until it is taken back its outcome is still accepted",
}


def lease_refused(refused: Refused) -> Problem:
    """409: a worker call refused with one of the four reasons."""
    members: dict[str, Any] = {}
    if refused.settled_outcome is not None and refused.settled_at is not None:
        members["settled"] = {"outcome": refused.settled_outcome, "at": format_time(refused.settled_at)}
        members["settled"] = msgspec.convert(members["settled"], Settled)
    if refused.reclaim_ms is not None:
        members["reclaim_seconds"] = refused.reclaim_ms / 1000
    return make_problem(
        "lease_refused",
        _REFUSALS[refused.reason],
        reason=refused.reason,
        execution=execution_ref(refused.execution_id, refused.execution_status),
        **members,
    )


_CONFLICTS = {
    "already_ended": "execution {id} has ended: it is {status}",
    "not_signalable": "nothing in execution {id} can take this signal: it is {status}",
    "not_pausable": "execution {id} cannot be paused while it is {status}",
    "not_resolvable": "execution {id} cannot be resolved so while it is {status}",
    "occupied": "execution {id} of this workflow, tenant and correlation is open and exclusive: it is {status}",
}


def conflict(found: Conflict) -> Problem:
    """409: a call of the management API that doesn't fit the execution's status."""
    detail = _CONFLICTS[found.code].format(id=found.execution_id, status=found.status)
    if found.code == "not_pausable" and found.why is not None:
        detail = f"execution {found.execution_id} cannot go on"
    return make_problem(
        found.code,
        detail if found.why is None else f"{detail}; {found.why}",
        execution=execution_ref(found.execution_id, found.status),
    )


def execution_ref(execution_id: str, status: str) -> ExecutionRef:
    """An execution by id and status, as worker calls and problems name it."""
    return msgspec.convert({"id": execution_id, "status": status}, ExecutionRef)


def seconds(ms: int) -> float:
    """Milliseconds as seconds, without a fraction where there is none."""
    whole, rest = divmod(ms, 1000)
    return ms / 1000 if rest else whole
