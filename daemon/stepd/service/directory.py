"""Who is there: the lives of workers, what each serves, and which work nobody serves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from stepd.engine.model import Parked, Step
from stepd.service.lives import Life, LifeKey, Work, names_version, row_of, serves_of, tenants_of
from stepd.store.base import Serve, Store, StoreUnavailable
from stepd.store.records import WorkerRow
from stepd_protocol.executions import BlockedView
from stepd_protocol.limits import UNSERVABLE_SECONDS
from stepd_protocol.times import format_time

FLUSH_SECONDS = 5.0
"""Lives are written to the store at most this often."""
REFRESH_SECONDS = 5.0
"""Lives seen by other daemons on the same store are read at most this often."""
FORGET_SECONDS = 3_600.0
LEASES_MAX = 100_000
"""Leases whose life is remembered; those that were never settled go first."""

logger = logging.getLogger(__name__)


class _Held(NamedTuple):
    life: Life
    work: tuple[str, str, str]


class Directory:
    """The lives of workers as this daemon hears of them, joined with what others on the same store have written."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lives: dict[LifeKey, Life] = {}
        self._leases: dict[str, _Held] = {}
        self._found_holding: dict[str, list[Life]] = {}
        """Lives by principal that held leases when this daemon started: it doesn't know which."""
        self._flusher: asyncio.Task[None] | None = None
        self._read_at = float("-inf")

    # -- what calls tell ----------------------------------------------------------------------------------------

    async def load(self) -> None:
        """Reads the lives that the store knows; called once before serving. Raises StoreUnavailable."""
        await self.refresh()
        for holder in await self._store.held_leases():
            life = self._lives.get(LifeKey(*holder))
            if life is not None:
                self._found_holding.setdefault(life.key.principal, []).append(life)

    def claims(self, key: LifeKey, serves: tuple[Serve, ...], tenants: tuple[str, ...] | None) -> Life:
        """A claim came: this life serves that now."""
        life = self._lives.get(key)
        if life is None:
            life = self._lives[key] = Life(key, serves, tenants, 0.0)
        life.serves, life.tenants = serves, tenants
        self._touch(life)
        return life

    @contextmanager
    def parked(self, life: Life) -> Iterator[None]:
        """A claim of this life waits."""
        life.parked += 1
        try:
            yield
        finally:
            life.parked -= 1
            self._touch(life)

    def holds(self, life: Life, lease_id: str, workflow: str, version: str, step: str) -> None:
        """The life was dealt a lease: calls on it are its calls."""
        self._leases[lease_id] = _Held(life, (workflow, version, step))
        if len(self._leases) > LEASES_MAX:
            del self._leases[next(iter(self._leases))]

    def beats(self, lease_id: str, principal: str) -> None:
        """A call came for a lease."""
        held = self._leases.get(lease_id)
        if held is not None:
            self._touch(held.life)
            return
        for life in self._found_holding.get(principal, ()):
            self._touch(life)

    def ends(self, lease_id: str, *, unservable: bool = False) -> None:
        """A lease is over; ``unservable``: its life can't run that step for now."""
        held = self._leases.pop(lease_id, None)
        if held is not None and unservable:
            now = _now()
            kept = {work: until for work, until in held.life.unservable.items() if until > now}
            held.life.unservable = {**kept, held.work: now + UNSERVABLE_SECONDS}

    def _touch(self, life: Life) -> None:
        life = self._lives.setdefault(life.key, life)
        life.seen_at = _now()
        life.dirty = True
        if self._flusher is None:
            self._flusher = asyncio.get_running_loop().create_task(self._flush_soon())

    # -- what others ask ----------------------------------------------------------------------------------------

    def lives(self) -> list[Life]:
        """Every life heard of within the last hour."""
        return list(self._lives.values())

    def is_live(self, life: Life) -> bool:
        """Whether the life counts as live."""
        now = _now()
        return life.live_until(now) > now

    def is_served(self, work: Work) -> bool:
        """Whether a live worker serves such a step."""
        now = _now()
        return any(life.live_until(now) > now and life.serves_work(work, now) for life in self._lives.values())

    def are_served(self, works: Iterable[Work]) -> list[bool]:
        """The same for many of them; what that costs doesn't grow with the lives that serve other workflows."""
        now = _now()
        by_workflow: dict[str, list[Life]] = {}
        for life in self._lives.values():
            if life.live_until(now) > now:
                for workflow in {entry.workflow for entry in life.serves}:
                    by_workflow.setdefault(workflow, []).append(life)
        return [any(life.serves_work(work, now) for life in by_workflow.get(work.workflow, ())) for work in works]

    def is_version_served(self, workflow: str, version: str, tenants: tuple[str, ...] | None = None) -> bool:
        """Whether a live worker serves any step of the version, for any of these tenants."""
        return any(
            self.is_live(life)
            and life.works_for(tenants)
            and any(names_version(entry, workflow, version) for entry in life.serves)
            for life in self._lives.values()
        )

    def unserved_seconds(self, work: Work, shunned: bytes | None, now_ms: int) -> float | None:
        """For how long nobody has served such a step; None while somebody does, infinity where nobody ever did.

        ``shunned``: who was told not to be offered this very step, and until when (ms, the store's clock).
        """
        now = _now()
        away = _away(shunned, now_ms)
        last = float("-inf")
        for life in self._lives.values():
            if (life.key.principal, life.key.instance) in away or not life.serves_work(work, now):
                continue
            until = life.live_until(now)
            if until > now:
                return None
            last = max(last, until)
        return now - last

    def blocked(self, row: Step, now_ms: int) -> BlockedView | None:
        """Why a step stands: it is claimable, and no live worker serves it. ``now_ms`` is the store's time."""
        if row.status != "queued" or row.parked != Parked.FREE:
            return None
        work = Work(row.workflow, row.version, row.step, row.tenant)
        return self.blocked_work(work, row.queued_at or row.due_at or now_ms, now_ms, row.shunned)

    def blocked_work(self, work: Work, since_ms: int, now_ms: int, shunned: bytes | None = None) -> BlockedView | None:
        """The same for a step that has been claimable since ``since_ms``."""
        unserved = self.unserved_seconds(work, shunned, now_ms)
        if unserved is None:
            return None
        if unserved != float("inf"):
            since_ms = max(since_ms, now_ms - int(unserved * 1000))
        whose = "" if work.tenant is None else f" for tenant {work.tenant}"
        detail = f"no live worker serves {work.workflow} {work.version}, step {work.step}{whose}"
        return BlockedView(code="no_worker", since=format_time(since_ms), detail=detail)

    # -- the store ----------------------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Reads what other daemons have written, at most every few seconds. Raises StoreUnavailable."""
        now = _now()
        if now - self._read_at < REFRESH_SECONDS:
            return
        self._read_at = now
        store_now = await self._store.now()
        for row in await self._store.workers(store_now - int(FORGET_SECONDS * 1000)):
            self._meet(row, now - (store_now - row.last_seen_at) / 1000)
        self._forget(now)

    async def flush(self) -> None:
        """Writes the lives that were heard of since the last time. Raises StoreUnavailable."""
        dirty = [life for life in self._lives.values() if life.dirty]
        if not dirty:
            return
        now, store_now = _now(), await self._store.now()
        for life in dirty:
            life.dirty = False
        await self._store.seen([row_of(life, store_now, now) for life in dirty])
        self._forget(now)

    async def close(self) -> None:
        """Writes what is left to write, and waits for no more. Raises nothing: what is lost is seen again soon."""
        if self._flusher is not None:
            self._flusher.cancel()
        try:
            await self.flush()
        except StoreUnavailable:
            logger.info("the store is away: workers' lives are not written")

    async def _flush_soon(self) -> None:
        try:
            await asyncio.sleep(FLUSH_SECONDS)
        finally:
            self._flusher = None
        try:
            await self.flush()
        except StoreUnavailable:
            logger.info("the store is away: workers' lives are written later")

    def _meet(self, row: WorkerRow, seen_at: float) -> None:
        key = LifeKey(row.principal, row.worker, row.instance)
        known = self._lives.get(key)
        if known is None:
            known = self._lives[key] = Life(key, (), None, float("-inf"))
        if seen_at > known.seen_at and not known.parked:
            known.seen_at = seen_at
            known.serves = serves_of(row.serves)
            known.tenants = tenants_of(row.tenants)

    def _forget(self, now: float) -> None:
        for key, life in list(self._lives.items()):
            if not life.parked and not life.dirty and now - life.seen_at > FORGET_SECONDS:
                del self._lives[key]


def _now() -> float:
    return asyncio.get_running_loop().time()


def _away(shunned: bytes | None, now_ms: int) -> frozenset[tuple[str, str]]:
    if shunned is None:
        return frozenset()
    entries: Sequence[tuple[str, str, int]] = msgspec.json.decode(shunned, type=list[tuple[str, str, int]])
    return frozenset((principal, instance) for principal, instance, until in entries if until > now_ms)
