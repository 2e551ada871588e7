"""A store for tests of what waits on it: it keeps nothing, and answers what the test has laid ready."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

from stepd.engine.commands import GiveBack, Granted
from stepd.store.base import Deal, Dealt, Decide, Operation, Request, Store
from stepd.store.records import WorkerRow
from tests.service.rows import attempt, execution, step


class FakeStore:
    """Deals to claims what ``deal`` says, and notes what was given back and written."""

    def __init__(self, deal: Callable[[Request], Dealt] | None = None) -> None:
        self.deal = deal or (lambda request: Dealt([]))
        self.looks: list[Sequence[Request]] = []
        self.given_back: list[str] = []
        self.rows: list[WorkerRow] = []
        self.held: dict[tuple[str, str, str], int] = {}
        self.clock = 1_000_000_000
        self.gate = asyncio.Event()
        """While it is not set, looks for work take their time."""
        self.gate.set()
        self.fails: Exception | None = None

    def as_store(self) -> Store:
        return cast(Store, self)

    async def submit(self, *operations: Operation) -> list[Any]:
        answers: list[Any] = []
        for operation in operations:
            if isinstance(operation, Deal):
                self.looks.append(operation.requests)
                await self.gate.wait()
                if self.fails is not None:
                    raise self.fails
                answers.append([self.deal(request) for request in operation.requests])
            elif isinstance(operation, Decide) and isinstance(operation.command, GiveBack):
                self.given_back.append(operation.command.attempt_id)
                answers.append(None)
        return answers

    async def now(self) -> int:
        return self.clock

    async def workers(self, since: int) -> list[WorkerRow]:
        return [row for row in self.rows if row.last_seen_at >= since]

    async def held_leases(
        self, tenants: tuple[str, ...] | None = None, *, until: int | None = None
    ) -> dict[tuple[str, str, str], int]:
        return self.held

    async def seen(self, rows: Sequence[WorkerRow]) -> None:
        self.rows = [*rows, *(row for row in self.rows if all(_life(row) != _life(new) for new in rows))]


def granted(*lease_ids: str) -> list[Granted]:
    """Leases of which only the id matters."""
    return [Granted(execution(), step(), attempt(id=lease_id), {}, 1) for lease_id in lease_ids]


def _life(row: WorkerRow) -> tuple[str, str, str]:
    return row.principal, row.worker, row.instance
