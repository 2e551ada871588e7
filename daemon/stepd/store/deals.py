"""Deals work out to waiting claims, and answers a claim that was dealt before with the same leases again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stepd.engine.commands import Granted, Lease, Renew
from stepd.engine.model import Step
from stepd.engine.prefetch import needs_of_lease
from stepd.engine.work import Loaded
from stepd.ids import new_id, new_span_id
from stepd.store.base import Deal, Dealt, Scope
from stepd.store.dealing import Desk
from stepd.store.decisions import Decisions
from stepd.store.transactions import Transaction

LEASES_AT_ONCE: Final = 128
"""More are not dealt in one transaction, since the loop has other work; those who wait are told that there is more."""


class Deals:
    """Deals by the decisions of the machine."""

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions

    async def deal(self, transaction: Transaction, operation: Deal) -> list[Dealt]:
        """What each request of the operation is given, in their order."""
        if operation.only_if is not None and not operation.only_if():
            return [Dealt([]) for _ in operation.requests]
        desks = [Desk(request) for request in operation.requests]
        waiting = [desk for desk in desks if desk.request.looked_up or not await self._deal_again(transaction, desk)]
        if waiting:
            await self._hand_out(transaction, waiting)
        return [desk.dealt for desk in desks]

    async def _deal_again(self, transaction: Transaction, desk: Desk) -> bool:
        """Answers a claim that was dealt leases before with those still alive; False where it was not."""
        request = desk.request
        leases = await transaction.dealt(request.principal, request.claim_id)
        if leases is None:
            request.looked_up = desk.new = True
            return False
        desk.room, desk.dealt = 0, Dealt([], known=True)
        for lease_id in leases:
            granted = await self._decisions.on_attempt(transaction, Renew(lease_id), lease_id, Scope(request.tenants))
            if isinstance(granted, Granted):
                desk.dealt.leases.append(granted)
        return True

    async def _hand_out(self, transaction: Transaction, desks: Sequence[Desk]) -> None:
        """Gives queued steps to the desks, in the order of both."""
        now = transaction.now()
        dealt = 0
        candidates = transaction.candidates(desks)
        while (row := await candidates.next()) is not None:
            dealt += await self._offer(transaction, row, desks, now)
            if dealt == LEASES_AT_ONCE:
                transaction.ready = True
                break
        for desk in desks:
            if desk.dealt.leases and not desk.dealt.known:
                leases = [granted.attempt.id for granted in desk.dealt.leases]
                await transaction.keep_dealt(desk.request.principal, desk.request.claim_id, leases)

    async def _offer(self, transaction: Transaction, row: Step, desks: Sequence[Desk], now: int) -> bool:
        """Leases the step to the first desk that it fits; False where none takes it."""
        for desk in desks:
            if not desk.fits(row, now):
                continue
            # One that has waited since an earlier transaction may have been dealt to under the same id meanwhile.
            if not desk.new and await self._deal_again(transaction, desk):
                continue
            if await self._lease(transaction, row, desk):
                return True
        return False

    async def _lease(self, transaction: Transaction, row: Step, desk: Desk) -> bool:
        """Leases the step to this desk; False where it isn't to be had any more, or is too much for the desk."""
        execution = await transaction.execution(row.execution_id)
        if execution is None:
            return False
        loaded = Loaded(execution)
        loaded.steps[(row.ordinal, row.index)] = row
        definition = await self._decisions.definition(transaction, execution)
        await transaction.load(loaded, needs_of_lease(definition, execution, row))
        request = desk.request
        attempt_id = new_id()
        command = Lease(
            ordinal=row.ordinal,
            index=row.index,
            attempt_id=attempt_id,
            span_id=new_span_id(attempt_id),
            principal=request.principal,
            worker=request.worker,
            instance=request.instance,
        )
        granted, work = await self._decisions.think(transaction, loaded, command)
        if not isinstance(granted, Granted) or not desk.take(granted):
            return False
        await transaction.write(loaded, work.changes)
        return True
