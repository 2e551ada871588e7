"""What an operation works with inside a transaction, the same on every store: rows that it holds, and how it writes.

The methods are coroutines, since a store on a network has to wait for rows. One that never waits runs them with
``run_now``.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from stepd.engine.definition import Compiled
from stepd.engine.model import Attempt, Audit, Execution, Idempotency, Step
from stepd.engine.work import Changes, Loaded, Need
from stepd.store.base import ExecutionRows
from stepd.store.dealing import Desk

T = TypeVar("T")


class Candidates(Protocol):
    """Claimable steps in the order in which they are dealt, each once."""

    async def next(self) -> Step | None:
        """The next one that may fit one of the desks that have room; None when there is none."""


class Transaction(Protocol):
    """One transaction. What was written in it before is seen in it, and nothing that others have not committed."""

    ready: bool
    """Whether those who wait for work are told, after the commit, that there is some."""

    def now(self) -> int:
        """The store's clock, ms, read after the rows were locked."""

    async def execution(self, execution_id: str) -> Execution | None:
        """The execution's row, locked; None where there is none."""

    async def attempt(self, attempt_id: str) -> Attempt | None:
        """The attempt's row, its execution locked; None where there is none."""

    async def load(self, loaded: Loaded, needs: Iterable[Need]) -> None:
        """Adds to ``loaded`` what a decision said it needs."""

    async def write(self, loaded: Loaded, changes: Changes) -> None:
        """Writes what a decision changed that saw ``loaded``; nothing where it changed nothing."""

    async def definition(self, workflow: str, version: str) -> Compiled | None:
        """The compiled version; None where there is none."""

    async def definition_for_start(self, workflow: str, version: str | None) -> Compiled | None:
        """What a new execution gets: the version asked for, else the current one; None where there is none."""

    async def occupant(self, exclusive_key: str) -> tuple[str, str] | None:
        """Id and status of the open execution that has this key for itself."""

    async def remembered(self, principal: str, target: str, key: str) -> Idempotency | None:
        """The first answer to a call with this key."""

    async def remember(self, row: Idempotency) -> None:
        """Keeps the first answer to a call with a key."""

    async def audit(self, rows: Sequence[Audit]) -> None:
        """Writes audit rows that belong to no decision."""

    async def view(self, execution_id: str) -> ExecutionRows | None:
        """All that a view without attempts and payloads is made of."""

    async def dealt(self, principal: str, claim_id: str) -> list[str] | None:
        """The leases that a claim was dealt; None where it never was dealt any."""

    async def keep_dealt(self, principal: str, claim_id: str, leases: list[str]) -> None:
        """Remembers the leases that a claim is dealt."""

    def candidates(self, desks: Sequence[Desk]) -> Candidates:
        """Claimable steps that may fit these desks."""


def run_now(coroutine: Coroutine[Any, Any, T]) -> T:
    """The answer of a coroutine that never has to wait. Raises what it raises; RuntimeError where it waits."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        answer: T = stop.value
        return answer
    coroutine.close()
    raise RuntimeError("a coroutine waited that has nothing to wait for")
