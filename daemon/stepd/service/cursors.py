"""Cursors: opaque text that holds where a list goes on and which filters it began with."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Annotated, TypeAlias, TypeVar

import msgspec

T = TypeVar("T")

StoredInt: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""A number that a store can compare with."""

CURSOR_LENGTH_MAX = 20_000


def encode_cursor(value: msgspec.Struct | str) -> str:
    """The cursor that holds ``value``."""
    return urlsafe_b64encode(msgspec.json.encode(value)).rstrip(b"=").decode()


def decode_cursor(text: str, type_: type[T]) -> T:
    """What a cursor holds. Raises ValueError for anything that this daemon did not give out in this form."""
    try:
        if len(text) > CURSOR_LENGTH_MAX:
            raise ValueError
        raw = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        return msgspec.json.decode(raw, type=type_)
    except (ValueError, msgspec.MsgspecError):
        raise ValueError("must be a cursor from the next of an earlier answer") from None
