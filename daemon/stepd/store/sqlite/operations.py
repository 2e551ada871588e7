"""Carries out the operations of ``submit`` inside a transaction, and remembers the answers to calls with a key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, assert_never

from msgspec.structs import astuple

from stepd.engine.commands import Conflict, InvalidInput, Start
from stepd.engine.definition import Compiled
from stepd.engine.machine import begin, exclusive_key
from stepd.engine.model import Idempotency
from stepd.store.base import (
    Begin,
    Deal,
    Decide,
    ExecutionRows,
    KeyConflict,
    Operation,
    Remember,
    Replayed,
    Scope,
    Started,
    UnknownWorkflow,
)
from stepd.store.sqlite.deals import Deals
from stepd.store.sqlite.decisions import Decisions
from stepd.store.sqlite.rows import IDEMPOTENCY
from stepd.store.sqlite.transaction import Transaction
from stepd.store.sqlite.writing import write

KEPT: Final = f"{IDEMPOTENCY.select} where principal = ? and target = ? and key = ?"
OCCUPIED: Final = "select id, status from executions where exclusive_key = ?"


class Operations:
    """Runs operations by the decisions of the machine."""

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions
        self._deals = Deals(decisions)

    def run(self, transaction: Transaction, operations: Sequence[Operation]) -> list[Any]:
        """Carries the operations out in order; each one's answer stands in it for those behind it."""
        for operation in operations:
            match operation:
                case Decide():
                    operation.answer = _remembered(transaction, operation) or self._decide(transaction, operation)
                case Deal():
                    operation.answer = self._deals.deal(transaction, operation)
                case Begin():
                    operation.answer = _remembered(transaction, operation) or self._begin(transaction, operation)
                case _:
                    assert_never(operation)
        return [operation.answer for operation in operations]

    def _decide(self, transaction: Transaction, operation: Decide) -> Any:
        scope = Scope(operation.tenants, operation.started_by)
        if operation.attempt_id is not None:
            answer = self._decisions.on_attempt(transaction, operation.command, operation.attempt_id, scope)
        else:
            answer = self._decisions.on_execution(transaction, operation.command, operation.execution_id or "", scope)
        _remember(transaction, operation.idempotency, answer)
        return answer

    def _begin(self, transaction: Transaction, operation: Begin) -> Any:
        answer = self._start(transaction, operation.start, operation.version)
        _remember(transaction, operation.idempotency, answer)
        return answer

    def _start(
        self, transaction: Transaction, start: Start, version: str | None
    ) -> Started | UnknownWorkflow | Conflict | InvalidInput:
        decisions = self._decisions
        definition = decisions.definitions.for_start(transaction.connection, start.workflow, version)
        if definition is None:
            return UnknownWorkflow()
        occupied = _occupied(transaction, definition, start)
        if occupied is not None:
            return occupied
        work = begin(definition, decisions.settings, start, transaction.now())
        if isinstance(work, InvalidInput):
            return work
        write(transaction, work.loaded, work.changes)
        payloads = {"input": start.input, "state": start.state} | work.changes.payloads
        return Started(ExecutionRows(work.execution, list(work.changes.steps.values()), [], payloads), definition)


def _occupied(transaction: Transaction, definition: Compiled, start: Start) -> Conflict | None:
    """The open execution that an exclusive start would stand beside."""
    exclusive = definition.exclusive if start.exclusive is None else start.exclusive
    if not exclusive or start.correlation is None:
        return None
    key = exclusive_key(start.workflow, start.tenant, start.correlation)
    found = transaction.connection.execute(OCCUPIED, (key,)).fetchone()
    return None if found is None else Conflict("occupied", status=found[1], execution_id=found[0])


def _remembered(transaction: Transaction, operation: Decide | Begin) -> Replayed | KeyConflict | None:
    """What a call with this key is answered where it was made before."""
    call = operation.idempotency
    if call is None:
        return None
    values = transaction.connection.execute(KEPT, (call.principal, call.target, call.key)).fetchone()
    if values is None:
        return None
    kept = IDEMPOTENCY.read(values)
    return Replayed(kept) if kept.body_hash == call.body_hash else KeyConflict()


def _remember(transaction: Transaction, call: Remember | None, answer: Any) -> None:
    """Keeps the answer where it is one to keep."""
    encoded = None if call is None else call.encode(answer)
    if call is None or encoded is None:
        return
    status, location, body = encoded
    row = Idempotency(call.principal, call.target, call.key, call.body_hash, status, location, body, transaction.now())
    transaction.connection.execute(IDEMPOTENCY.insert, astuple(row))
