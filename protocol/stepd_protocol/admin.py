"""Owns the messages of administration: resolutions, keys, the audit log, prices."""

from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, field

from stepd_protocol.executions import ListAnswer, StandingWrite
from stepd_protocol.fields import Answer, Count, Id, Index, Payload, ReasonText, Request, ShortText, Time
from stepd_protocol.names import NEWLINE_GUARD, Direction, ExecutionStatus, Name, Scope


class Evidence(Request, frozen=True, kw_only=True):
    """The operator's word for a resolution: kept, not checked, not blank."""

    reference: ShortText
    reason: ReasonText


class StepResult(Request, frozen=True, kw_only=True):
    """What an operator says of one uncertain step."""

    step: Name
    outcome: Literal["succeeded", "as_reported", "absent"]
    index: Index | None = None
    output: Payload = UNSET
    state: Payload = UNSET


class ResumeResolution(Request, frozen=True, kw_only=True, tag_field="action", tag="resume"):
    """Tells every uncertain step and lets the execution go on."""

    evidence: Evidence
    results: list[StepResult] = field(default_factory=list)
    expected_revision: Count | None = None


class CloseResolution(Request, frozen=True, kw_only=True, tag_field="action", tag="close"):
    """Ends the execution without running anything more."""

    verification: Literal["absent_verified", "compensated_verified", "accepted"]
    evidence: Evidence
    expected_revision: Count | None = None


ResolveRequest: TypeAlias = ResumeResolution | CloseResolution


class Resolution(Answer, frozen=True, kw_only=True):
    """A resolution as the ledger has it: by whom, and when."""

    id: Id
    at: Time
    operator: str


class ResolveAnswer(Answer, frozen=True, kw_only=True):
    """What a resolution led to. The ledger keeps it, and whoever sends the same again gets it for ever."""

    id: Id
    """The execution's."""
    status: ExecutionStatus
    direction: Direction
    revision: Count
    standing_writes: list[StandingWrite]
    resolution: Resolution


class KeyRequest(Request, frozen=True, kw_only=True):
    """Asks for a new key; its name is the principal."""

    name: Name
    scopes: Annotated[list[Scope], Meta(min_length=1)]
    tenants: Annotated[list[ShortText], Meta(min_length=1)] = field(default_factory=lambda: ["*"])


class KeyView(Answer, frozen=True, kw_only=True):
    """A key without its secret."""

    id: Id
    name: Name
    scopes: list[Scope]
    tenants: list[str]
    created_at: Time
    revoked_at: Time | None


class KeyCreated(KeyView, frozen=True, kw_only=True):
    """A new key with its secret, shown this once."""

    secret: str


class AuditEntry(Answer, frozen=True, kw_only=True):
    """Who did what, to what, when, from where, and how it went."""

    id: str
    at: Time
    principal: str
    key_id: str | None
    """The key that was shown; null in open mode, and for what the settings do."""
    action: str
    target: str | None
    """The id or name of what it was done to."""
    tenant: str | None
    origin: str | None
    """The address that the call came from."""
    outcome: str
    """`done`, or `refused: ` and the problem's code."""


class Price(Request, frozen=True, kw_only=True):
    """Money for a million tokens of one model; null where the kind of token has no price."""

    model: ShortText
    input_per_million: Annotated[float, Meta(ge=0)] | None = None
    cache_read_per_million: Annotated[float, Meta(ge=0)] | None = None
    cache_write_per_million: Annotated[float, Meta(ge=0)] | None = None
    output_per_million: Annotated[float, Meta(ge=0)] | None = None
    reasoning_per_million: Annotated[float, Meta(ge=0)] | None = None


class PriceTable(Request, frozen=True, kw_only=True):
    """All prices, in one currency (three letters)."""

    currency: Annotated[str, Meta(pattern=r"^[A-Z]{3}$" + NEWLINE_GUARD)]
    prices: list[Price]


KeyList: TypeAlias = ListAnswer[KeyView]
AuditList: TypeAlias = ListAnswer[AuditEntry]
