"""Owns the problems that the daemon answers with: one table from code to status and title, and their wire form."""

from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias, get_args

from msgspec import UNSET, Meta, UnsetType

from stepd_protocol.fields import Answer, Id, Time
from stepd_protocol.names import ExecutionStatus, Scope
from stepd_protocol.reasons import Reason

CONTENT_TYPE: Final = "application/problem+json"
TYPE_PREFIX: Final = "urn:stepd:problem:"

ProblemCode: TypeAlias = Literal[
    "malformed_json",
    "malformed_body",
    "invalid_last_event_id",
    "unauthenticated",
    "forbidden",
    "not_found",
    "method_not_allowed",
    "request_timeout",
    "lease_refused",
    "idempotency_conflict",
    "already_ended",
    "not_signalable",
    "not_pausable",
    "not_resolvable",
    "occupied",
    "payload_too_large",
    "unsupported_media_type",
    "invalid_request",
    "invalid_definition",
    "definition_conflict",
    "invalid_input",
    "invalid_output",
    "too_busy",
    "internal_error",
    "unavailable",
]


class ProblemKind(NamedTuple):
    """The HTTP status and the title of a code."""

    status: int
    title: str


PROBLEMS: Final[dict[ProblemCode, ProblemKind]] = {
    "malformed_json": ProblemKind(400, "The body is not JSON"),
    "malformed_body": ProblemKind(400, "The body is not what it is said to be"),
    "invalid_last_event_id": ProblemKind(400, "Last-Event-ID names no event of this execution"),
    "unauthenticated": ProblemKind(401, "No valid key"),
    "forbidden": ProblemKind(403, "The key may not do this"),
    "not_found": ProblemKind(404, "No such object"),
    "method_not_allowed": ProblemKind(405, "This path does not know the method"),
    "request_timeout": ProblemKind(408, "The body did not arrive in time"),
    "lease_refused": ProblemKind(409, "The call for this lease is refused"),
    "idempotency_conflict": ProblemKind(409, "The idempotency key was used for another request"),
    "already_ended": ProblemKind(409, "The execution has ended"),
    "not_signalable": ProblemKind(409, "Nothing in the execution can take this signal"),
    "not_pausable": ProblemKind(409, "The execution cannot be paused in its status"),
    "not_resolvable": ProblemKind(409, "The execution cannot be resolved so"),
    "occupied": ProblemKind(409, "Another exclusive execution is open"),
    "payload_too_large": ProblemKind(413, "Too large"),
    "unsupported_media_type": ProblemKind(415, "The body has a media type that is not taken"),
    "invalid_request": ProblemKind(422, "The request is not valid"),
    "invalid_definition": ProblemKind(422, "The definition is not valid"),
    "definition_conflict": ProblemKind(422, "The version stands with another definition"),
    "invalid_input": ProblemKind(422, "The input is not valid"),
    "invalid_output": ProblemKind(422, "The output is not valid"),
    "too_busy": ProblemKind(429, "Too many requests"),
    "internal_error": ProblemKind(500, "The daemon failed"),
    "unavailable": ProblemKind(503, "Unavailable for now"),
}


class FieldFault(Answer, frozen=True, kw_only=True):
    """One fault in one field; `path` is a JSON Pointer into the request's body."""

    path: str
    message: str


class ExecutionRef(Answer, frozen=True, kw_only=True):
    """An execution as worker calls and problems name it."""

    id: Id
    status: ExecutionStatus


SettledOutcome: TypeAlias = Literal["succeeded", "failed", "requeued", "cancelled"]


class Settled(Answer, frozen=True, kw_only=True):
    """How and when an attempt was settled by its holder: the status it got."""

    outcome: SettledOutcome
    at: Time


class Problem(Answer, frozen=True, kw_only=True):
    """An RFC 9457 problem. Everything from `errors` on is left out where it says nothing."""

    type: str
    title: str
    status: int
    detail: str
    code: Annotated[str, Meta(examples=list(get_args(ProblemCode)))]
    """One of the table's codes; text, so that a client reads the codes of a newer daemon too."""
    errors: list[FieldFault] | UnsetType = UNSET
    reason: Reason | UnsetType = UNSET
    """`lease_refused`: one of the four reasons."""
    settled: Settled | UnsetType = UNSET
    """`already_settled`; `invalid_output` that settled the attempt."""
    execution: ExecutionRef | UnsetType = UNSET
    """Refusals and settlements: the lease's execution; `occupied`: the open one."""
    reclaim_seconds: float | UnsetType = UNSET
    """`lease_expired`: what is left until the step is taken back."""
    replayed: bool | UnsetType = UNSET
    late: bool | UnsetType = UNSET
    warnings: list[str] | UnsetType = UNSET
    scope: Scope | UnsetType = UNSET
    """`forbidden`: the scope that the key lacks."""
    limit: int | UnsetType = UNSET
    """`payload_too_large`: the bound, in bytes unless `detail` says otherwise."""
    size: int | UnsetType = UNSET
    """`payload_too_large`: what came, as far as it was counted."""


def make_problem(code: ProblemCode, detail: str, **members: Any) -> Problem:
    """The problem of a code with the status and title of the table.

    `members` are optional fields of `Problem`; empty `errors` are left out.
    """
    kind = PROBLEMS[code]
    if not members.get("errors", True):
        del members["errors"]
    return Problem(
        type=TYPE_PREFIX + code,
        title=kind.title,
        status=kind.status,
        detail=detail,
        code=code,
        **members,
    )
