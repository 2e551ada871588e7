"""Calls that bear an ``Idempotency-Key``: which keys are taken, what is kept under one, and the answer given again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from stepd.engine import canonical
from stepd.engine.model import Idempotency
from stepd.service.base import Caller, Reply
from stepd.service.decoding import shown
from stepd.store.keeping import Remember
from stepd_protocol.limits import IDEMPOTENCY_KEY_LENGTH_MAX
from stepd_protocol.problems import Problem, make_problem

REPLAYED: Final = ("Idempotency-Replayed", "true")
"""The header of a first answer that is given again."""


def key_fault(key: str) -> Problem | None:
    """422 where an ``Idempotency-Key`` is not 1 to 255 visible ASCII characters."""
    if 1 <= len(key) <= IDEMPOTENCY_KEY_LENGTH_MAX and all("!" <= character <= "~" for character in key):
        return None
    detail = f"Idempotency-Key must be 1 to {IDEMPOTENCY_KEY_LENGTH_MAX} visible ASCII characters, not {shown(key)}"
    return make_problem("invalid_request", detail)


def remember(
    caller: Caller,
    target: str,
    key: str | None,
    body: bytes,
    encode: Callable[[Any], tuple[int, str | None, bytes] | None],
) -> Remember | None:
    """What the store is to keep of a call, with what ``encode`` makes of its answer; None for a call without a key."""
    return None if key is None else Remember(caller.principal, target, key, canonical.digest(body), encode)


def replayed(kept: Idempotency, body: bytes | None = None) -> Reply:
    """The first answer once more; with another ``body`` where not all of its own is for the caller."""
    location = () if kept.location is None else (("Location", kept.location),)
    return Reply(kept.status, kept.body if body is None else body, (*location, REPLAYED))
