"""One claim that waits: what it wants, how long, and where its answer goes."""

from __future__ import annotations

import asyncio
from typing import Protocol, TypeAlias

from stepd.service.base import Caller
from stepd.store.base import Dealt, Request

Key: TypeAlias = tuple[str, str]
"""Principal and claim id."""


class Gone(Protocol):
    """Whether the client has gone away; an event of asyncio or anyio will do."""

    def is_set(self) -> bool:
        """Whether it has."""

    async def wait(self) -> object:
        """Waits until it has."""


class Waiter:
    """One claim that waits. ``answer`` has what it was dealt, and for how long (s) the daemon held it."""

    __slots__ = (
        "answer",
        "arrived",
        "caller",
        "deadline",
        "dealing",
        "gone",
        "kind",
        "number",
        "request",
        "timer",
        "watcher",
    )

    def __init__(self, caller: Caller, request: Request, gone: Gone, number: int, arrived: float) -> None:
        self.caller = caller
        self.request = request
        self.gone = gone
        self.kind = (request.serves, request.tenants)
        self.number = number
        self.arrived = arrived
        self.deadline = arrived
        self.dealing = False
        """A look for work that includes it is under way."""
        self.answer: asyncio.Future[tuple[Dealt, float]] = asyncio.get_running_loop().create_future()
        self.timer: asyncio.TimerHandle | None = None
        self.watcher: asyncio.Future[object] | None = None

    @property
    def key(self) -> Key:
        """What makes two calls the same claim."""
        return self.request.principal, self.request.claim_id

    def resolve(self, dealt: Dealt, at: float) -> None:
        """Answers the claim, unless it is answered."""
        if not self.answer.done():
            self.answer.set_result((dealt, max(0.0, at - self.arrived)))
