"""A transaction on the file as the operations of all stores see it. Nothing here ever waits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import astuple

from stepd.engine.definition import Compiled
from stepd.engine.model import Attempt, Audit, Execution, Idempotency, Step
from stepd.engine.work import Changes, Loaded, Need
from stepd.store.base import ExecutionRows, Scope
from stepd.store.dealing import Desk
from stepd.store.sqlite import definitions, loading, records, views
from stepd.store.sqlite.queue import candidates
from stepd.store.sqlite.rows import IDEMPOTENCY
from stepd.store.sqlite.transaction import Transaction
from stepd.store.sqlite.writing import write
from stepd.store.versions import Definitions

OCCUPANT: Final = "select id, status from executions where exclusive_key = ?"
KNOWN_CLAIM: Final = "select leases from claims where principal = ? and claim_id = ?"
INSERT_CLAIM: Final = "insert into claims (principal, claim_id, leases, dealt_at) values (?, ?, ?, ?)"


class _Candidates:
    """The claimable steps that a generator finds."""

    def __init__(self, rows: Iterator[Step]) -> None:
        self._rows = rows

    async def next(self) -> Step | None:
        return next(self._rows, None)


class Operating:
    """What ``stepd.store.transactions.Transaction`` promises, on a connection inside a transaction."""

    def __init__(self, transaction: Transaction, known: Definitions) -> None:
        self._transaction = transaction
        self._connection = transaction.connection
        self._definitions = known

    @property
    def ready(self) -> bool:
        return self._transaction.ready

    @ready.setter
    def ready(self, ready: bool) -> None:
        self._transaction.ready = ready

    def now(self) -> int:
        return self._transaction.now()

    async def execution(self, execution_id: str) -> Execution | None:
        return loading.execution(self._transaction, execution_id)

    async def attempt(self, attempt_id: str) -> Attempt | None:
        return loading.attempt(self._transaction, attempt_id)

    async def load(self, loaded: Loaded, needs: Iterable[Need]) -> None:
        loading.load(self._transaction, loaded, needs)

    async def write(self, loaded: Loaded, changes: Changes) -> None:
        write(self._transaction, loaded, changes)

    async def definition(self, workflow: str, version: str) -> Compiled | None:
        return definitions.find(self._definitions, self._connection, workflow, version)

    async def definition_for_start(self, workflow: str, version: str | None) -> Compiled | None:
        return definitions.for_start(self._definitions, self._connection, workflow, version)

    async def occupant(self, exclusive_key: str) -> tuple[str, str] | None:
        found: tuple[str, str] | None = self._connection.execute(OCCUPANT, (exclusive_key,)).fetchone()
        return found

    async def remembered(self, principal: str, target: str, key: str) -> Idempotency | None:
        return records.remembered(self._connection, principal, target, key)

    async def remember(self, row: Idempotency) -> None:
        self._connection.execute(IDEMPOTENCY.insert, astuple(row))

    async def audit(self, rows: Sequence[Audit]) -> None:
        records.audit(self._transaction, rows)

    async def view(self, execution_id: str) -> ExecutionRows | None:
        return views.view(self._connection, execution_id, Scope(), attempts=False, payloads=False)

    async def dealt(self, principal: str, claim_id: str) -> list[str] | None:
        values = self._connection.execute(KNOWN_CLAIM, (principal, claim_id)).fetchone()
        return None if values is None else msgspec.json.decode(values[0], type=list[str])

    async def keep_dealt(self, principal: str, claim_id: str, leases: list[str]) -> None:
        encoded = msgspec.json.encode(leases).decode()
        self._connection.execute(INSERT_CLAIM, (principal, claim_id, encoded, self.now()))

    def candidates(self, desks: Sequence[Desk]) -> _Candidates:
        return _Candidates(candidates(self._connection, desks))
