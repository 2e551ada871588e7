"""Owns the log: lines on stderr, as text for people or as JSON for programs."""

import logging
import sys
import time
from typing import Any, Final

import msgspec

CHATTY: Final = ("hypercorn", "asyncio", "alembic")
"""Others' loggers, of which only warnings are of interest."""


def set_up_logs(form: str, level: str) -> None:
    """Sends all log lines from `level` up to stderr, in one form: `text` or `json`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)


class TextLines(logging.Formatter):
    """`2026-11-30T12:00:00.000Z warning stepd.loops: what happened`."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 — logging's name
        return _moment(record.created)

    def __init__(self) -> None:
        super().__init__("{asctime} {levelname} {name}: {message}", style="{")


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": _moment(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


def _moment(seconds: float) -> str:
    whole, fraction = divmod(seconds, 1)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{int(fraction * 1000):03d}Z"
