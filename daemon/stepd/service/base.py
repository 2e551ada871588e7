"""What every capability of the service shares: who calls, what is answered, and what a daemon consists of."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import msgspec

from stepd.engine.commands import Refused
from stepd.service.readlog import ReadLog
from stepd.store.base import Scope, Store
from stepd_protocol.problems import Problem

if TYPE_CHECKING:
    from stepd.service.directory import Directory
    from stepd.service.dispatcher import Dispatcher
    from stepd.service.keyring import Keyring
    from stepd.service.otlp import Sent
    from stepd.service.prices import Prices
    from stepd.service.watch import Watch
    from stepd.settings import Settings


class Caller(msgspec.Struct, frozen=True):
    """Who calls, as the door has found out from the key."""

    principal: str
    key_id: str | None
    scopes: frozenset[str]
    """Effective scopes, the ``write`` fallback already worked out."""
    tenants: tuple[str, ...] | None
    """None for all, also null."""
    remote: str | None = None

    def may(self, scope: str) -> bool:
        """Whether the caller has the scope (``admin`` has all; ``write`` and ``operate`` have ``read``)."""
        return (
            scope in self.scopes
            or "admin" in self.scopes
            or (scope == "read" and bool(self.scopes & {"write", "operate"}))
        )

    def sees(self) -> Scope:
        """What of the executions exists for this caller: a key that may not read sees what its principal started."""
        return Scope(self.tenants, None if self.may("read") else self.principal)


class Reply(msgspec.Struct):
    """A 2xx answer, ready to be sent."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    leases: tuple[str, ...] = ()
    """Leases this answer hands over: given back when it can't be delivered."""


Answer: TypeAlias = "Reply | Problem"


WorkerCall: TypeAlias = Literal["heartbeat", "complete", "fail"]


class Telemetry(Protocol):
    """Who hears of what happens here and leaves no trace in the store. Hearing it neither waits nor fails."""

    def refused(self, call: WorkerCall, lease_id: str, refused: Refused) -> None:
        """A worker's call was refused."""

    def received(self, span: Sent) -> None:
        """A worker exported a span that was not known before."""


class Silent:
    """Telemetry that keeps nothing."""

    def refused(self, call: WorkerCall, lease_id: str, refused: Refused) -> None:
        """Nobody wants to know."""

    def received(self, span: Sent) -> None:
        """Nor that."""


class Daemon(msgspec.Struct):
    """The parts a call may use; put together in ``main``."""

    settings: Settings
    store: Store
    dispatcher: Dispatcher
    watch: Watch
    directory: Directory
    service_id: str
    service_name: str
    keyring: Keyring
    prices: Prices
    reads: ReadLog = msgspec.field(default_factory=ReadLog)
    simulating: asyncio.Semaphore = msgspec.field(default_factory=lambda: asyncio.Semaphore(1))
    """One simulation is computed at a time."""
    reading: asyncio.Semaphore = msgspec.field(default_factory=lambda: asyncio.Semaphore(1))
    """One export of traces is read at a time."""
    telemetry: Telemetry = msgspec.field(default_factory=Silent)
