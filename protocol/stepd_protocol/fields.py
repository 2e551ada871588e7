"""Owns the bases and the field types that the wire types share."""

from typing import Annotated, Any, Final, TypeAlias

from msgspec import Meta, Raw, Struct, UnsetType

from stepd_protocol import limits

NULL: Final = Raw(b"null")


class Request(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client sends: a field that isn't known is refused."""


class Answer(Struct, frozen=True, kw_only=True):
    """What the daemon sends: unknown fields are passed over, null fields are written out."""


ShortText: TypeAlias = Annotated[str, Meta(min_length=1, max_length=limits.SHORT_TEXT_LENGTH_MAX)]
ReasonText: TypeAlias = Annotated[str, Meta(min_length=1, max_length=limits.REASON_LENGTH_MAX)]
Time: TypeAlias = Annotated[
    str,
    Meta(
        description="An RFC 3339 time. Answers are in UTC with milliseconds and Z; given ones must carry an offset.",
        extra_json_schema={"format": "date-time"},
    ),
]
Id: TypeAlias = Annotated[str, Meta(description="An id made by the daemon: UUIDv7 text.")]
Fence: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Index: TypeAlias = Annotated[int, Meta(ge=0, lt=limits.FOREACH_ITEMS_MAX)]
Count: TypeAlias = Annotated[int, Meta(ge=0)]
Tokens: TypeAlias = Annotated[int, Meta(ge=0, le=limits.TOKENS_MAX)]
Priority: TypeAlias = Annotated[int, Meta(ge=limits.PRIORITY_MIN, le=limits.PRIORITY_MAX)]
Seconds: TypeAlias = Annotated[float, Meta(ge=limits.SECONDS_MIN, le=limits.SECONDS_MAX)]
SecondsOrZero: TypeAlias = Annotated[float, Meta(ge=0, le=limits.SECONDS_MAX)]
"""Seconds of a field that may be 0; what lies between 0 and the least is refused where it is compiled."""

JsonSchema: TypeAlias = dict[str, Any] | bool
"""A JSON Schema 2020-12 document."""
Cost: TypeAlias = Annotated[
    Raw,
    Meta(
        description="An amount of money in the currency of the prices, with nine decimals at most, read exactly; null "
        "for no bound.",
        extra_json_schema={"type": ["number", "null"], "minimum": 0, "maximum": limits.BUDGET_COST_MAX},
    ),
]
Payload: TypeAlias = Raw | UnsetType
"""JSON that passes through as its own bytes; UNSET where it was left out."""

Money: TypeAlias = Annotated[
    Raw,
    Meta(
        description="An amount of money, exact to nine decimals: a number as its digits came; null where nothing has "
        "a price.",
        extra_json_schema={"type": ["number", "null"]},
    ),
]
