"""Owns what a daemon does that starts alone, before it serves: every open execution is judged by its `on_restart`."""

import asyncio
import logging
from typing import Final

from stepd.engine.commands import Recover
from stepd.loops.sweeper import jitter
from stepd.store.base import Decide, Store

BATCH: Final = 200

_log = logging.getLogger(__name__)


async def recover(store: Store) -> int:
    """Judges all that stands open, a batch at a time; it can be ended anywhere and run again. Answers how many.

    Raises StoreUnavailable.
    """
    judged, after = 0, ""
    while found := await store.open_executions(after, BATCH):
        await asyncio.gather(*(store.submit(Decide(Recover(jitter()), execution_id=id)) for id in found))
        judged, after = judged + len(found), found[-1]
    if judged:
        _log.info("found %d open executions", judged)
    return judged
