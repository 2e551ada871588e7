"""Owns the messages of administration: resolutions, keys, the audit log, prices."""

from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, field

from stepd_protocol.executions import ListAnswer, StandingWrite
from stepd_protocol.fields import (
    Answer,
    Count,
    Id,
    Index,
    Money,
    Payload,
    ReasonText,
    Request,
    ShortText,
    Time,
)
from stepd_protocol.limits import PRICES_MAX
from stepd_protocol.names import Direction, ExecutionStatus, Name, Scope

PriceAmount: TypeAlias = Annotated[
    Payload,
    Meta(
        description="Units of the currency, at most nine decimals: a number, or the same as text.",
        extra_json_schema={"type": ["number", "string", "null"]},
    ),
]
ValidFrom: TypeAlias = Annotated[
    str | None, Meta(description="An RFC 3339 time with an offset, or a date, which begins at midnight in UTC.")
]


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


AuditOutcome: TypeAlias = Literal["done", "refused"]
"""What the audit log can be asked for: what was done, or what was refused."""


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
    """What a million tokens of a model cost from a time on; a kind of token that is left out, or null, has no price."""

    model: ShortText
    """A model's name, or the beginning of names and `*`: its own price comes before that of the longest beginning."""
    valid_from: ValidFrom = None
    """Left out: always. Of several prices of one model the latest counts that is valid."""
    input: PriceAmount = UNSET
    cache_read: PriceAmount = UNSET
    cache_write: PriceAmount = UNSET
    output: PriceAmount = UNSET
    reasoning: PriceAmount = UNSET


class PriceTable(Request, frozen=True, kw_only=True):
    """All prices, in one currency (three capital letters)."""

    currency: Annotated[str, Meta(extra_json_schema={"pattern": "^[A-Z]{3}$"})]
    prices: Annotated[list[Price], Meta(max_length=PRICES_MAX)]


class PriceView(Answer, frozen=True, kw_only=True):
    """A price as it stands in a version of the table."""

    model: str
    valid_from: Time | None
    input: Money
    cache_read: Money
    cache_write: Money
    output: Money
    reasoning: Money


class PriceTableView(Answer, frozen=True, kw_only=True):
    """A version of the table of prices; without one, `version` and `currency` are null."""

    version: int | None
    currency: str | None
    created_at: Time | None
    principal: str | None
    """Who put it."""
    prices: list[PriceView]


KeyList: TypeAlias = ListAnswer[KeyView]
AuditList: TypeAlias = ListAnswer[AuditEntry]
