"""Calls that bear an ``Idempotency-Key``: what a store keeps of them, and what it answers when they are made again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from stepd.engine.model import Audit, Idempotency


class Remember(msgspec.Struct):
    """Keep the first 2xx answer to this call under its key, in the same transaction."""

    principal: str
    target: str
    key: str
    body_hash: str
    encode: Callable[[Any], tuple[int, str | None, bytes] | None]
    """Makes ``(status, location, body)`` of the operation's answer; None where it isn't a 2xx and nothing is kept."""


class Keep(msgspec.Struct):
    """Keep the answer to a call that was carried out in several transactions, and write its audit rows.

    Answers ``outcome``, or Replayed or KeyConflict where the key was used before.
    """

    outcome: Any
    audit: Sequence[Audit]
    idempotency: Remember | None = None
    answer: Any = None


class Replayed(msgspec.Struct):
    """The call was made before with this key; the first answer."""

    kept: Idempotency


class KeyConflict(msgspec.Struct):
    """The key was used before with another body."""
