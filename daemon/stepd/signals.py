"""Owns the signals that ask the daemon to stop: the first one lets it drain, the second one ends it at once."""

import asyncio
import os
import signal
from types import TracebackType
from typing import Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
FORCED_SECONDS: Final = 1.0
"""After the second signal the process ends by then, whatever still holds it."""
FORCED_EXIT: Final = 1


class StopSignals:
    """Listens for signals inside `with`. `asked` is set by the first, `forced` by the second."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.forced = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def __enter__(self) -> "StopSignals":
        for number in SIGNALS:
            self._loop.add_signal_handler(number, self._heard)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in SIGNALS:
            self._loop.remove_signal_handler(number)

    def _heard(self) -> None:
        if self.asked.is_set() and not self.forced.is_set():
            self.forced.set()
            self._loop.call_later(FORCED_SECONDS, os._exit, FORCED_EXIT)
        self.asked.set()
