"""Who gets which step: waiting claims as desks that take what fits them, the same for every store."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from stepd.engine.commands import Granted
from stepd.engine.model import Step
from stepd.store.base import Dealt, Request, Serve

Order: TypeAlias = tuple[int, int, int, str, int, int]


def order_of(row: Step) -> Order:
    """Sorts queued steps: priority (high first), since when they are due, creation, execution, ordinal, index."""
    return -row.priority, row.due_at or 0, row.execution_created_at, row.execution_id, row.ordinal, row.index


class Desk:
    """One waiting claim and what it has been given so far."""

    __slots__ = ("dealt", "new", "request", "room", "weight")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.dealt = Dealt([])
        self.room = request.max
        self.weight = 0
        self.new = False
        """This transaction has seen that its claim id was never dealt leases."""

    def fits(self, row: Step, now: int) -> bool:
        """Whether the claim has room for this step, serves it, may see it, and hasn't just called it unservable."""
        if self.room <= 0:
            return False
        tenants = self.request.tenants
        if tenants is not None and row.tenant not in tenants:
            return False
        if row.shunned is not None and self._shunned(row.shunned, now):
            return False
        return any(_serves(serve, row) for serve in self.request.serves)

    def take(self, granted: Granted) -> bool:
        """Takes a lease. False, and no room from then on, where the answer would grow too heavy; one always fits."""
        weight = sum(len(body) for body in granted.payloads.values() if body is not None)
        if self.dealt.leases and self.weight + weight > self.request.answer_bytes:
            self.room = 0
            return False
        self.dealt.leases.append(granted)
        self.weight += weight
        self.room -= 1
        return True

    def _shunned(self, shunned: bytes, now: int) -> bool:
        entries: list[tuple[str, str, int]] = msgspec.json.decode(shunned)
        me = (self.request.principal, self.request.instance)
        return any((principal, instance) == me and until > now for principal, instance, until in entries)


def _serves(serve: Serve, row: Step) -> bool:
    return (
        serve.workflow == row.workflow
        and (serve.version is None or serve.version == row.version)
        and (serve.steps is None or row.step in serve.steps)
    )
