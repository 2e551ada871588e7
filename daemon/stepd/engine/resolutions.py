"""What an operator can say of an execution that needs reconciliation, and what he is answered."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec


class Result(msgspec.Struct, frozen=True):
    """What an operator says of one step, or of one item of it. ``state`` is None where none was given."""

    step: str
    index: int
    outcome: Literal["succeeded", "as_reported", "absent"]
    output: bytes | None = None
    state: bytes | None = None


class ResumeWith(msgspec.Struct, frozen=True):
    """Let the execution go on with these results."""

    results: tuple[Result, ...]


class Close(msgspec.Struct, frozen=True):
    """End the execution without running anything more."""

    verification: Literal["absent_verified", "compensated_verified", "accepted"]


class Resolved(msgspec.Struct, frozen=True):
    """A resolution was carried out; kept in the ledger for who sends the same again."""

    execution_id: str
    status: str
    direction: str
    revision: int
    standing_writes: tuple[str, ...]
    resolution_id: str
    at: int
    operator: str
    replayed: bool = False
    standing_items: tuple[tuple[str, int], ...] = ()
    """Of the steps in ``standing_writes`` that have items or rounds, those whose write stands."""


class KeyUsed(msgspec.Struct, frozen=True):
    """The call's key belongs to another resolution of this execution, or to another operator's."""


class Unresolvable(msgspec.Struct, frozen=True):
    """A resolution that can't be carried out: ``(JSON Pointer into the request, message)`` each.

    ``only_outputs``: each of them is an output that doesn't fit.
    """

    faults: tuple[tuple[str, str], ...]
    only_outputs: bool


Judgement: TypeAlias = Resolved | KeyUsed | Unresolvable
"""What an operator is answered."""
