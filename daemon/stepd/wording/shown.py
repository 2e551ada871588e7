"""Owns how values become text for people: escapes, JSON, times, durations. Nothing in data acts on a terminal."""

import json
import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from stepd_protocol.times import parse_time

_UNPRINTABLE: Final = re.compile(r"[^\x20-\x7e]")
_CUT_MARK: Final = "…"


def shown(text: str) -> str:
    """The text on one line, with every control character, escape sequence and invisible mark written as an escape."""
    if text.isprintable():
        return text
    return _UNPRINTABLE.sub(lambda match: _printable(match[0]), text)


def cut(text: str, length: int) -> str:
    """The text, cut to `length` characters with a mark at its end where it is longer."""
    return text if len(text) <= length else text[: length - 1] + _CUT_MARK


def json_for_people(value: Any, *, indent: int | None = None) -> str:
    """JSON in which letters of every script stay readable, and what is not printable is a `\\u` escape."""
    return readable(json.dumps(value, ensure_ascii=False, indent=indent))


def readable(text: str) -> str:
    """JSON text with what is not printable as a `\\u` escape, but for its line breaks."""
    return _UNPRINTABLE.sub(lambda match: match[0] if match[0] == "\n" else _json_printable(match[0]), text)


def json_for_machines(value: Any, *, indent: int | None = None) -> str:
    """JSON of plain ASCII, equal to the value; nothing in it can act on a terminal that it comes to by accident."""
    return json.dumps(value, indent=indent).replace("\x7f", r"\u007f")


def now_text() -> str:
    """This machine's time as the wire has times."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def time_text(time: str | None) -> str:
    """A time of the wire as `2026-11-30 12:00:00Z`; a dash for none."""
    if time is None:
        return "-"
    return f"{shown(time[:10])} {shown(time[11:19])}Z" if len(time) >= 20 else shown(time)


def seconds_between(earlier: str | None, later: str | None) -> float | None:
    """Seconds from one time of the wire to another, at least 0; None where one is missing or is no time."""
    if earlier is None or later is None:
        return None
    try:
        return max(parse_time(later) - parse_time(earlier), 0) / 1000
    except ValueError:
        return None


def duration_text(seconds: float | None) -> str:
    """A duration as a person reads it: `0.42 s`, `12.3 s`, `3 min 05 s`, `2 h 03 min`, `4 d 06 h`; nothing for None."""
    if seconds is None:
        return ""
    if seconds < 59.95:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes:02d} min"
    return f"{hours // 24} d {hours % 24:02d} h"


def amount_text(amount: float, currency: str | None) -> str:
    """An amount of money without an exponent, `0.000002 USD`."""
    return f"{Decimal(repr(amount)):f} {shown(currency or '')}".rstrip()


def _printable(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def _json_printable(character: str) -> str:
    return character if character.isprintable() else json.dumps(character)[1:-1].replace("\x7f", r"\u007f")
