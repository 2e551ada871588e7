"""One life of a worker: what it serves, until when it counts as live, and its row in the store."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from stepd.store.base import Serve
from stepd.store.records import WorkerRow
from stepd_protocol.limits import WORKER_LIVE_SECONDS


class LifeKey(NamedTuple):
    """One process life of a worker."""

    principal: str
    worker: str
    instance: str


class Work(NamedTuple):
    """One kind of step, as workers serve it."""

    workflow: str
    version: str
    step: str
    tenant: str | None


class Life(msgspec.Struct):
    """What is known of one life. ``seen_at`` is on this process's monotonic clock (s)."""

    key: LifeKey
    serves: tuple[Serve, ...]
    tenants: tuple[str, ...] | None
    seen_at: float
    parked: int = 0
    """Claims that wait."""
    dirty: bool = False
    unservable: dict[tuple[str, str, str], float] = msgspec.field(default_factory=dict)
    """Steps it can't run after all, and until when that counts."""

    def live_until(self, now: float) -> float:
        """Until when it counts as live: now while a claim of it waits, else 90 s after its last call."""
        return now + WORKER_LIVE_SECONDS if self.parked else self.seen_at + WORKER_LIVE_SECONDS

    def last_seen_ms(self, store_now: int, now: float) -> int:
        """When it was last heard of, on the store's clock; a waiting claim is heard of now."""
        return store_now if self.parked else min(store_now, store_now - int((now - self.seen_at) * 1000))

    def is_seen_by(self, tenants: tuple[str, ...] | None) -> bool:
        """Whether a caller of these tenants may know of it: where it works for none but them."""
        return tenants is None or (self.tenants is not None and set(self.tenants) <= set(tenants))

    def works_for(self, tenants: tuple[str, ...] | None) -> bool:
        """Whether it works for any of these tenants."""
        return tenants is None or self.tenants is None or not set(self.tenants).isdisjoint(tenants)

    def serves_work(self, work: Work, now: float) -> bool:
        """Whether it would run such a step."""
        if self.tenants is not None and work.tenant not in self.tenants:
            return False
        if self.unservable.get((work.workflow, work.version, work.step), now) > now:
            return False
        return any(
            entry.workflow == work.workflow
            and entry.version in (None, work.version)
            and (entry.steps is None or work.step in entry.steps)
            for entry in self.serves
        )


def names_version(entry: Serve, workflow: str, version: str) -> bool:
    """Whether an entry of ``serves`` covers any step of the version."""
    return entry.workflow == workflow and entry.version in (None, version)


def row_of(life: Life, store_now: int, now: float) -> WorkerRow:
    """The life as the store keeps it; ``store_now``: the store's clock (ms), ``now``: this process's own (s)."""
    return WorkerRow(
        principal=life.key.principal,
        worker=life.key.worker,
        instance=life.key.instance,
        serves=msgspec.json.encode([_entry(entry) for entry in life.serves]),
        tenants=msgspec.json.encode(["*"] if life.tenants is None else life.tenants),
        last_seen_at=life.last_seen_ms(store_now, now),
    )


def _entry(entry: Serve) -> dict[str, object]:
    steps = None if entry.steps is None else sorted(entry.steps)
    return {"workflow": entry.workflow, "version": entry.version, "steps": steps}


def serves_of(raw: bytes) -> tuple[Serve, ...]:
    """``serves`` as the store keeps it."""
    return msgspec.json.decode(raw, type=tuple[Serve, ...])


def tenants_of(raw: bytes) -> tuple[str, ...] | None:
    """Tenants as the store keeps them; None for all."""
    tenants = msgspec.json.decode(raw, type=tuple[str, ...])
    return None if tenants == ("*",) else tenants
