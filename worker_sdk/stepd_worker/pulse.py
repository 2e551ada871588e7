"""Owns the watch over the event loop from another thread: a body that holds it up is named in the log."""

import asyncio
import logging
import sys
import threading
import traceback

logger = logging.getLogger("stepd_worker")


class Pulse:
    """Made on the loop that it watches. `look` is called now and then from one other thread."""

    def __init__(self, still_seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._still_seconds = still_seconds
        self._asked_at: float | None = None
        self._reported = False

    def look(self, now: float) -> None:
        """Asks the loop for a sign, or says where it stands if it gave none for so long."""
        asked_at = self._asked_at
        if asked_at is None:
            self._asked_at, self._reported = now, False
            try:
                self._loop.call_soon_threadsafe(self._turned)
            except RuntimeError:  # the loop is closed: the worker has ended
                pass
        elif now - asked_at >= self._still_seconds and not self._reported:
            self._reported = True
            logger.warning(
                "The event loop stands still since %d s, no other async body runs and no outcome is sent: %s. "
                "Make that body a plain function, or call what blocks by asyncio.to_thread",
                now - asked_at,
                self._where(),
            )

    def _turned(self) -> None:
        self._asked_at = None

    def _where(self) -> str:
        frame = sys._current_frames().get(self._loop_thread)
        if frame is None:
            return "its thread has ended"
        last = traceback.extract_stack(frame)[-1]
        return f"it is in {last.name}, {last.filename}:{last.lineno}"
