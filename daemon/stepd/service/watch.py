"""Who waits for an execution to change, and who is told: views that wait and streams of events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from stepd.service.base import Caller
from stepd.store.base import Tell

CHANGES_MAX: Final = 1_000
"""Executions that an onlooker is told of by their ids; of more it is told that there were some."""


class Follower:
    """One call that follows one execution. Changes between two waits are not lost."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.seq = 0
        """The last event's number, as far as it was told."""
        self.status: str | None = None
        """The execution's last status, as far as it was told."""
        self.ended = False
        """Nothing more will be told: the daemon stops, or the key was revoked."""
        self._changed = asyncio.Event()

    async def changed(self, seconds: float) -> bool:
        """Waits until the execution has changed since the last call, at most ``seconds``; False when it has not."""
        if self.ended:
            return False
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return False
        self._changed.clear()
        return not self.ended

    def note(self, seq: int, status: str) -> None:
        """What a look at the execution showed; what was told meanwhile is newer."""
        if seq >= self.seq:
            self.seq, self.status = seq, status

    def tell(self, seq: int, status: str) -> None:
        """The execution has a new last event and this status."""
        self.note(seq, status)
        self._changed.set()

    def look(self) -> None:
        """The execution may have changed: only a look at it will show."""
        self.status = None
        self._changed.set()

    def end(self) -> None:
        """Ends the waiting for good."""
        self.ended = True
        self._changed.set()


class Onlooker:
    """One stream that hears of every execution that changes. Changes between two waits are not lost."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.ended = False
        """Nothing more will be told: the daemon stops, or the key was revoked."""
        self._ids: set[str] | None = set()
        self._changed = asyncio.Event()

    async def changes(self, seconds: float) -> frozenset[str] | None:
        """The executions that changed since the last call, waited for at most ``seconds``; None: any may have."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return frozenset()
        self._changed.clear()
        ids, self._ids = self._ids, set()
        return None if ids is None else frozenset(ids)

    def tell(self, tell: Tell) -> None:
        """Something was committed."""
        if self._ids is not None:
            self._ids.update(tell.executions)
        if tell.everything or self._ids is None or len(self._ids) > CHANGES_MAX:
            self._ids = None
        if self._ids is None or self._ids:
            self._changed.set()

    def end(self) -> None:
        """Ends the waiting for good."""
        self.ended = True
        self._changed.set()


class Watch:
    """All followers, by execution, and all onlookers. ``tell`` is called once after each commit, on the loop.

    ``admits``: whether a caller is still to be told anything; whoever is not when it comes may not wait.
    """

    def __init__(self, admits: Callable[[Caller], bool] = lambda _: True) -> None:
        self._admits = admits
        self._followers: dict[str, set[Follower]] = {}
        self._onlookers: set[Onlooker] = set()
        self._stopped = False
        self.streams = 0
        """Of those who follow, how many are streams."""

    @contextmanager
    def stream(self, execution_id: str, caller: Caller) -> Iterator[Follower]:
        """Follows an execution for a stream."""
        self.streams += 1
        try:
            with self.follow(execution_id, caller) as follower:
                yield follower
        finally:
            self.streams -= 1

    @contextmanager
    def look_on(self, caller: Caller) -> Iterator[Onlooker]:
        """Hears of every change, for a stream; begin before the first look, so that nothing falls between."""
        onlooker = Onlooker(caller)
        if self._stopped or not self._admits(caller):
            onlooker.end()
        self._onlookers.add(onlooker)
        self.streams += 1
        try:
            yield onlooker
        finally:
            self.streams -= 1
            self._onlookers.discard(onlooker)

    @contextmanager
    def follow(self, execution_id: str, caller: Caller) -> Iterator[Follower]:
        """Follows an execution; begin before the first look at it, so that nothing falls between."""
        follower = Follower(caller)
        if self._stopped or not self._admits(caller):
            follower.end()
        self._followers.setdefault(execution_id, set()).add(follower)
        try:
            yield follower
        finally:
            self._forget(execution_id, follower)

    def tell(self, tell: Tell) -> None:
        """Wakes the followers of the executions that have new events, or all of them where that isn't known."""
        for onlooker in self._onlookers:
            onlooker.tell(tell)
        if not self._followers:
            return
        if tell.everything:
            for follower in [one for followers in self._followers.values() for one in followers]:
                follower.look()
        for execution_id, (seq, status) in tell.executions.items():
            for follower in self._followers.get(execution_id, ()):
                follower.tell(seq, status)

    def drop(self, match: Callable[[Caller], bool]) -> None:
        """Ends the waiting of callers whose key is no longer good."""
        for follower in [one for followers in self._followers.values() for one in followers]:
            if match(follower.caller):
                follower.end()
        for onlooker in [*self._onlookers]:
            if match(onlooker.caller):
                onlooker.end()

    def stop(self) -> None:
        """Ends every waiting: the daemon stops."""
        self._stopped = True
        self.drop(lambda _: True)

    def __len__(self) -> int:
        """How many calls are following."""
        return sum(map(len, self._followers.values())) + len(self._onlookers)

    def _forget(self, execution_id: str, follower: Follower) -> None:
        followers = self._followers[execution_id]
        followers.discard(follower)
        if not followers:
            del self._followers[execution_id]
