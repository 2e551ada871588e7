"""Owns the form of the log: lines on stderr, as text for people or as JSON for programs, without what users pass in."""

import logging
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Final

import msgspec

from stepd.wording.shown import shown

CHATTY: Final = ("hypercorn", "asyncio", "alembic", "asyncpg", "opentelemetry", "urllib3")
"""Others' loggers, of which only warnings are of interest."""
ABOUT: Final = "about"
"""The key in a line's ``extra`` under which stands what it concerns: execution, workflow, step, index, attempt, worker,
trace_id, span_id."""
SPEAKING: Final = (OSError, RuntimeError)
"""Errors of others whose text says what is wrong with the machine or the program. That of any other may have in it
whatever it stumbled over, such as a payload or a row, and is left out."""
OURS: Final = "stepd"


def set_up_logs(form: str, level: str) -> None:
    """Sends all log lines from `level` up to stderr, in one form: `text` or `json`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)


class TextLines(logging.Formatter):
    """`2026-11-30T12:00:00.000Z WARNING stepd.loops: what happened (execution=… step=…)`; below it a failure's way."""

    def format(self, record: logging.LogRecord) -> str:
        about = " ".join(f"{name}={value}" for name, value in _about(record).items())
        text = f"{_moment(record.created)} {record.levelname} {record.name}: {record.getMessage()}"
        line = shown(f"{text} ({about})" if about else text)
        return "\n".join([line, *map(shown, failure_lines(_error(record)))])


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": _moment(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_about(record),
        }
        if (error := _error(record)) is not None:
            line["exception"] = "\n".join(failure_lines(error))
        return msgspec.json.encode(line).decode()


def failure_lines(error: BaseException | None) -> Iterator[str]:
    """Where and as what an error was raised, with what led to it first; its text only where that is ours to tell."""
    if error is None:
        return
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None:
        yield from failure_lines(before)
        yield "which led to:"
    yield from _way(error.__traceback__)
    kind = type(error)
    speaks = kind.__module__.partition(".")[0] == OURS or isinstance(error, SPEAKING)
    yield f"{kind.__module__}.{kind.__qualname__}: {error if speaks else 'its text is left out'}"


def _way(taken: TracebackType | None) -> Iterator[str]:
    for frame in traceback.extract_tb(taken):
        yield f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}'


def _error(record: logging.LogRecord) -> BaseException | None:
    return record.exc_info[1] if record.exc_info else None


def _about(record: logging.LogRecord) -> Mapping[str, Any]:
    about: Mapping[str, Any] = getattr(record, ABOUT, {})
    return {name: value for name, value in about.items() if value is not None}


def _moment(seconds: float) -> str:
    whole, fraction = divmod(seconds, 1)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{int(fraction * 1000):03d}Z"
