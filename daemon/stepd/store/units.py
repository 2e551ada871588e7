"""Units of work that wait for a store's one writer, and the callers that wait for them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any, Final, TypeVar

from stepd.store.base import StoreUnavailable

BATCH_UNITS: Final = 256
"""How many share a transaction at the most."""


class Unit:
    """Something to be run inside a transaction, and the caller that waits for it."""

    __slots__ = ("alone", "answer", "error", "future")

    def __init__(self, future: asyncio.Future[Any]) -> None:
        self.future = future
        self.alone = False
        """Whether it needs a transaction of its own."""
        self.answer: Any = None
        self.error: BaseException | None = None

    def settle(self) -> None:
        """Tells the caller, unless it has gone away."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.answer)


U = TypeVar("U", bound=Unit)


def take(waiting: deque[U]) -> list[U]:
    """Takes the next units that share a transaction: as many as wait, up to a bound, or one that must stand alone."""
    batch: list[U] = []
    while waiting and len(batch) < BATCH_UNITS:
        if waiting[0].alone and batch:
            break
        batch.append(waiting.popleft())
        if batch[-1].alone:
            break
    return batch


def set_apart(waiting: deque[U], batch: list[U], spoiled: U) -> None:
    """Puts the neighbours of a unit that spoiled its transaction back in front, each to have one of its own."""
    neighbours = [unit for unit in batch if unit is not spoiled]
    for unit in neighbours:
        unit.alone = True
    waiting.extendleft(reversed(neighbours))


def failed(units: list[U], error: BaseException) -> list[U]:
    """Gives each unit the error; a copy of its own where it is one for callers, who each add their traceback to it."""
    for unit in units:
        own = StoreUnavailable(str(error), error.retry_seconds) if isinstance(error, StoreUnavailable) else error
        unit.error = own
    return units


def settle(units: Iterable[U]) -> None:
    """Tells each unit's caller."""
    for unit in units:
        unit.settle()
