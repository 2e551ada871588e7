"""One queue for all waiting claims: who waits, when work is looked for, and what becomes of leases nobody takes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from stepd.engine.commands import GiveBack
from stepd.service.base import Caller
from stepd.service.waiters import Gone, Key, Waiter
from stepd.store.base import Deal, Dealt, Decide, Request, Store, StoreUnavailable

LOOK_SECONDS = 0.5
"""Without a wake the queue is looked through this often, for what no wake tells: a step that is offered again."""
ALIKE_MAX = 32
"""Of claims that want the same, so many are looked at for one wake: a few at the front take what there is."""
GIVE_BACK_TRIES = 10
GIVE_BACK_PAUSE_SECONDS = 1.0

logger = logging.getLogger(__name__)


class Dispatcher:
    """Deals work out to waiting claims, first come first served, with one operation of the store for all of them.

    ``admits``: whether a caller may still be given work; whoever may not when it comes gets none.
    """

    def __init__(self, store: Store, admits: Callable[[Caller], bool] = lambda _: True) -> None:
        self._store = store
        self._admits = admits
        self._waiting: dict[Key, Waiter] = {}
        self._kinds: dict[object, dict[Key, Waiter]] = {}
        self._fresh: list[Waiter] = []
        """Claims that were not looked at yet: their claim id may have been dealt leases before."""
        self._wanted = asyncio.Event()
        self._number = 0
        self._turn = 0
        self._runner: asyncio.Task[None] | None = None
        self._returns: set[asyncio.Task[None]] = set()
        self.stopped = False

    def __len__(self) -> int:
        """How many claims wait."""
        return len(self._waiting)

    async def wait(self, caller: Caller, request: Request, wait_seconds: float, gone: Gone) -> tuple[Dealt, float]:
        """Waits until work came or ``wait_seconds`` have passed; answers what was dealt and how long it was held (s).

        A newer call with the same principal and claim id takes the older one's place. Raises StoreUnavailable.
        """
        loop = asyncio.get_running_loop()
        arrived = loop.time()
        if self.stopped or not self._admits(caller):
            return Dealt([]), 0.0
        self._number += 1
        waiter = Waiter(caller, request, gone, self._number, arrived)
        waiter.deadline += wait_seconds
        self._enter(waiter)
        try:
            return await waiter.answer
        except asyncio.CancelledError:
            if waiter.answer.done() and not waiter.answer.cancelled() and waiter.answer.exception() is None:
                self._return(waiter, waiter.answer.result()[0])
            raise
        finally:
            self._leave(waiter)

    def displace(self, principal: str, claim_id: str) -> None:
        """Answers the claim with this id empty, if it waits: a newer call takes its place."""
        older = self._waiting.get((principal, claim_id))
        if older is not None:
            self._dismiss(older)

    def wake(self) -> None:
        """Work may have become ready: look for it as soon as the look under way, if any, is done."""
        self._wanted.set()

    def drop(self, match: Callable[[Caller], bool]) -> None:
        """Answers the claims of these callers empty; they take nothing, also not from a look under way."""
        for waiter in list(self._waiting.values()):
            if match(waiter.caller):
                self._dismiss(waiter)

    def stop(self) -> None:
        """Answers every waiting claim: with what a look under way deals it, else empty. Later claims get nothing."""
        self.stopped = True
        for waiter in list(self._waiting.values()):
            waiter.deadline = 0.0
            if not waiter.dealing:
                self._dismiss(waiter)

    async def give_back(self, lease_ids: Iterable[str]) -> None:
        """Gives leases back whose answer reached nobody. The store keeps those that a later call has named."""
        operations = [Decide(GiveBack(lease_id), attempt_id=lease_id) for lease_id in lease_ids]
        for _ in range(GIVE_BACK_TRIES if operations else 0):
            try:
                await self._store.submit(*operations)
                return
            except StoreUnavailable:
                await asyncio.sleep(GIVE_BACK_PAUSE_SECONDS)

    # -- coming and going ---------------------------------------------------------------------------------------

    def _enter(self, waiter: Waiter) -> None:
        self.displace(*waiter.key)
        self._waiting[waiter.key] = waiter
        self._kinds.setdefault(waiter.kind, {})[waiter.key] = waiter
        self._fresh.append(waiter)
        self._wanted.set()
        if self._runner is None:
            self._runner = asyncio.get_running_loop().create_task(self._run())

    def _park(self, waiter: Waiter) -> None:
        """Nothing came at the first look: from now on its time-out and its client are watched."""
        loop = asyncio.get_running_loop()
        waiter.timer = loop.call_at(waiter.deadline, self._time_out, waiter)
        waiter.watcher = asyncio.ensure_future(waiter.gone.wait())
        waiter.watcher.add_done_callback(lambda _: self._dismiss(waiter))

    def _leave(self, waiter: Waiter) -> None:
        if waiter.timer is not None:
            waiter.timer.cancel()
        if waiter.watcher is not None:
            waiter.watcher.cancel()
        if self._waiting.get(waiter.key) is waiter:
            del self._waiting[waiter.key]
            alike = self._kinds[waiter.kind]
            del alike[waiter.key]
            if not alike:
                del self._kinds[waiter.kind]

    def _dismiss(self, waiter: Waiter) -> None:
        self._leave(waiter)
        waiter.resolve(Dealt([]), asyncio.get_running_loop().time())

    def _time_out(self, waiter: Waiter) -> None:
        if not waiter.dealing:
            self._dismiss(waiter)

    # -- looking for work ---------------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Looks for work while anybody waits: at every wake, and twice a second without one."""
        try:
            while self._waiting:
                woken = await self._woken()
                self._wanted.clear()
                await self._look(self._chosen(woken))
        finally:
            self._runner = None

    async def _woken(self) -> bool:
        if self._wanted.is_set():
            return True
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await self._wanted.wait()
        except TimeoutError:
            return False
        return True

    def _chosen(self, woken: bool) -> list[Waiter]:
        """The claims to look at: new ones, and of those that want the same the first few, or one in turn."""
        chosen = {waiter.number: waiter for waiter in self._fresh if self._waiting.get(waiter.key) is waiter}
        self._fresh.clear()
        self._turn += 1
        for alike in self._kinds.values():
            start = 0 if woken else self._turn % len(alike)
            for waiter in islice(alike.values(), start, start + (ALIKE_MAX if woken else 1)):
                chosen[waiter.number] = waiter
        return [chosen[number] for number in sorted(chosen)]

    async def _look(self, chosen: Sequence[Waiter]) -> None:
        if not chosen:
            return
        started = asyncio.get_running_loop().time()
        for waiter in chosen:
            waiter.dealing = True
        try:
            (answers,) = await self._store.submit(Deal([waiter.request for waiter in chosen]))
        except Exception as error:  # noqa: BLE001 — every claim of this look is told, and the queue goes on
            self._fail(chosen, error)
            return
        filled: set[object] = set()
        unfilled: set[object] = set()
        for waiter, dealt in zip(chosen, answers, strict=True):
            self._hand_over(waiter, dealt, started)
            (filled if dealt.leases else unfilled).add(waiter.kind)
        if any(kind in self._kinds for kind in filled - unfilled):
            self._wanted.set()

    def _hand_over(self, waiter: Waiter, dealt: Dealt, started: float) -> None:
        """Answers a claim that was looked at; the time it was held ends where the look began, so never too late."""
        waiter.dealing = False
        if waiter.answer.done() or waiter.gone.is_set():
            self._dismiss(waiter)
            self._return(waiter, dealt)
        elif dealt.leases or dealt.known:
            self._leave(waiter)
            waiter.resolve(dealt, started)
        elif waiter.deadline <= asyncio.get_running_loop().time():
            self._dismiss(waiter)
        elif waiter.watcher is None:
            self._park(waiter)

    def _fail(self, chosen: Sequence[Waiter], error: Exception) -> None:
        if not isinstance(error, StoreUnavailable):
            logger.error("a look for work failed", exc_info=error)
        for waiter in chosen:
            waiter.dealing = False
            self._leave(waiter)
            if not waiter.answer.done():
                waiter.answer.set_exception(error)

    def _return(self, waiter: Waiter, dealt: Dealt) -> None:
        """The claim has gone: a newer call with its id is answered with its leases, else they go back."""
        if not dealt.leases:
            return
        if waiter.key in self._waiting:
            self._wanted.set()
            return
        returning = self.give_back([granted.attempt.id for granted in dealt.leases])
        task = asyncio.get_running_loop().create_task(returning)
        self._returns.add(task)
        task.add_done_callback(self._returns.discard)
