"""Carries out the operations of ``submit`` inside a transaction, and remembers the answers to calls with a key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

from stepd.engine.children import start_of
from stepd.engine.commands import Answer, Conflict, Done, InvalidInput, NotFound, Start
from stepd.engine.definition import Compiled
from stepd.engine.machine import begin, exclusive_key
from stepd.engine.model import Idempotency, input_name
from stepd.engine.work import Loaded, Need, Settings
from stepd.store.base import (
    Begin,
    BeginChild,
    Deal,
    Decide,
    ExecutionRows,
    Operation,
    Scope,
    Started,
    UnknownWorkflow,
    Viewed,
)
from stepd.store.children import told_of_start
from stepd.store.deals import Deals
from stepd.store.decisions import Decisions
from stepd.store.keeping import Keep, KeyConflict, Remember, Replayed
from stepd.store.scope import sees
from stepd.store.transactions import Transaction


class Operations:
    """Runs operations by the decisions of the machine."""

    def __init__(self, settings: Settings) -> None:
        self._decisions = Decisions(settings)
        self._deals = Deals(self._decisions)

    async def run(self, transaction: Transaction, operations: Sequence[Operation]) -> list[Any]:
        """Carries the operations out in order; each one's answer stands in it for those behind it."""
        for operation in operations:
            match operation:
                case Decide():
                    known = await _remembered(transaction, operation.idempotency)
                    operation.answer = known or await self._decide(transaction, operation)
                case Deal():
                    operation.answer = await self._deals.deal(transaction, operation)
                case Begin():
                    known = await _remembered(transaction, operation.idempotency)
                    operation.answer = known or await self._begin(transaction, operation)
                case BeginChild():
                    operation.answer = await self._begin_child(transaction, operation)
                case Keep():
                    known = await _remembered(transaction, operation.idempotency)
                    operation.answer = known or await _keep(transaction, operation)
                case _:
                    assert_never(operation)
        return [operation.answer for operation in operations]

    async def _decide(self, transaction: Transaction, operation: Decide) -> Any:
        scope = Scope(operation.tenants, operation.started_by)
        command, decisions = operation.command, self._decisions
        answer: Any
        if operation.attempt_id is not None:
            answer = await decisions.on_attempt(transaction, command, operation.attempt_id, scope)
        else:
            answer = await decisions.on_execution(transaction, command, operation.execution_id or "", scope)
        if operation.seen_by is not None and operation.execution_id is not None and isinstance(answer, Done):
            answer = await self._viewed(transaction, operation.execution_id, answer.status, operation.seen_by)
        await _remember(transaction, operation.idempotency, answer)
        return answer

    async def _viewed(self, transaction: Transaction, execution_id: str, status: str, scope: Scope) -> Viewed:
        execution = await transaction.execution(execution_id)
        assert execution is not None
        rows = await transaction.view(execution_id) if sees(scope, execution) else None
        return Viewed(execution_id, status, rows, await self._decisions.definition(transaction, execution))

    async def _begin(self, transaction: Transaction, operation: Begin) -> Any:
        answer = await self._start(transaction, operation.start, operation.version)
        await _remember(transaction, operation.idempotency, answer)
        return answer

    async def _start(
        self, transaction: Transaction, start: Start, version: str | None
    ) -> Started | UnknownWorkflow | Conflict | InvalidInput:
        definition = await transaction.definition_for_start(start.workflow, version)
        if definition is None:
            return UnknownWorkflow()
        occupied = await _occupied(transaction, definition, start)
        if occupied is not None:
            return occupied
        work = begin(definition, self._decisions.settings, start, transaction.now())
        if isinstance(work, InvalidInput):
            return work
        await transaction.write(work.loaded, work.changes)
        payloads = {"input": start.input, "state": start.state} | work.changes.payloads
        return Started(ExecutionRows(work.execution, list(work.changes.steps.values()), [], payloads), definition)

    async def _begin_child(self, transaction: Transaction, operation: BeginChild) -> Answer:
        parent = await transaction.execution(operation.execution_id)
        if parent is None:
            return NotFound()
        key = (operation.ordinal, operation.index)
        loaded = Loaded(parent)
        await transaction.load(loaded, [Need("step", "", *key)])
        row = loaded.steps[key]
        if row is None or row.errand != "start":
            return Done(parent.status)
        input_ = input_name(*key) if row.own_input else "input"
        await transaction.load(loaded, [Need("payload", input_)])
        definition = await self._decisions.definition(transaction, parent)
        start, version = start_of(definition, parent, row, loaded.payloads[input_] or b"null")
        told = told_of_start(row, start.workflow, version, await self._start(transaction, start, version))
        return await self._decisions.on_execution(transaction, told, parent.id)


async def _occupied(transaction: Transaction, definition: Compiled, start: Start) -> Conflict | None:
    """The open execution that an exclusive start would stand beside."""
    exclusive = definition.exclusive if start.exclusive is None else start.exclusive
    if not exclusive or start.correlation is None:
        return None
    found = await transaction.occupant(exclusive_key(start.workflow, start.tenant, start.correlation))
    return None if found is None else Conflict("occupied", status=found[1], execution_id=found[0])


async def _remembered(transaction: Transaction, call: Remember | None) -> Replayed | KeyConflict | None:
    """What a call with this key is answered where it was made before."""
    if call is None:
        return None
    kept = await transaction.remembered(call.principal, call.target, call.key)
    if kept is None:
        return None
    return Replayed(kept) if kept.body_hash == call.body_hash else KeyConflict()


async def _keep(transaction: Transaction, operation: Keep) -> Any:
    await transaction.audit(operation.audit)
    await _remember(transaction, operation.idempotency, operation.outcome)
    return operation.outcome


async def _remember(transaction: Transaction, call: Remember | None, answer: Any) -> None:
    """Keeps the answer where it is one to keep."""
    encoded = None if call is None else call.encode(answer)
    if call is None or encoded is None:
        return
    status, location, body = encoded
    now = transaction.now()
    await transaction.remember(
        Idempotency(call.principal, call.target, call.key, call.body_hash, status, location, body, now)
    )
