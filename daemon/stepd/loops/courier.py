"""Owns what parents and children tell each other: starts, cancels and news are carried until they have arrived."""

import asyncio
import logging
from typing import Final, assert_never

from stepd.engine.commands import Cancel, ErrandDone, NewsTaken
from stepd.engine.kinship import news_of
from stepd.store.base import BeginChild, Decide, Errand, Store, StoreUnavailable

BATCH: Final = 256
LOOK_SECONDS: Final = 1.0
"""It looks at least this often: a daemon that was killed leaves errands, and nobody tells of those."""
REASON: Final = "the execution that started it is ending, or its step's time is over"

_log = logging.getLogger(__name__)


class Courier:
    """Carries each errand right after the commit that left it. Carrying one twice changes nothing more."""

    name = "courier"

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last: frozenset[Errand] = frozenset()
        self.wake = asyncio.Event()

    async def run_once(self) -> float:
        """Carries what stands now, as far as one batch goes. Raises StoreUnavailable."""
        errands = await self._store.errands(BATCH)
        results = await asyncio.gather(*(self._carry(errand) for errand in errands), return_exceptions=True)
        away: StoreUnavailable | None = None
        for errand, result in zip(errands, results, strict=True):
            if isinstance(result, StoreUnavailable):
                away = result
            elif isinstance(result, BaseException):
                about = {"execution": errand.execution_id}
                _log.error("an errand failed: %s", errand.kind, exc_info=result, extra={"about": about})
        if away is not None:
            raise away
        return self._pause(frozenset(errands))

    def _pause(self, carried: frozenset[Errand]) -> float:
        """Looks again at once for more, unless all that stood had stood there before."""
        stuck = carried <= self._last
        self._last = carried
        return LOOK_SECONDS if stuck else 0.0

    async def _carry(self, errand: Errand) -> None:
        match errand.kind:
            case "start":
                await self._store.submit(BeginChild(errand.execution_id, errand.ordinal, errand.index))
            case "cancel" | "force":
                cancel = Cancel(None, REASON, errand.kind == "force")
                await self._store.submit(Decide(cancel, execution_id=errand.child_id))
                done = ErrandDone(errand.ordinal, errand.index, errand.child_id, errand.kind)
                await self._store.submit(Decide(done, execution_id=errand.execution_id))
            case "tell":
                await self._tell(errand.execution_id)
            case _:
                assert_never(errand.kind)

    async def _tell(self, child_id: str) -> None:
        found = await self._store.news(child_id)
        if found is None or (parent_id := found[0].parent_id) is None:
            return
        news = news_of(*found)
        await self._store.submit(Decide(news, execution_id=parent_id))
        await self._store.submit(Decide(NewsTaken(news.seq, news.usage_seq), execution_id=child_id))
