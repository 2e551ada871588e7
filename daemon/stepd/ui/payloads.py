"""Shows JSON that passes through: indented, digit for digit, cut where it is long, and nothing in it acts on a page."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from stepd.wording.shown import readable

CUT_AT: Final = 4_000
"""Characters of a payload that are shown among others; the rest is on a page of its own."""
SHOWN_MAX: Final = 2_000_000
"""Characters of a payload that are shown at all."""


class Payload(Struct, frozen=True):
    """One payload as text. ``size`` is that of its JSON, in bytes."""

    name: str
    text: str
    size: int
    is_cut: bool


def payload_of(name: str, raw: bytes, cut_at: int = CUT_AT) -> Payload | None:
    """The payload for a person; None where it is null or an empty object, and there is nothing to be shown."""
    if raw in (b"null", b"{}"):
        return None
    text = readable(msgspec.json.format(raw, indent=2).decode())
    return Payload(name, text[:cut_at], len(raw), len(text) > cut_at)
