"""Owns the protocol's times: integer milliseconds since the epoch inside, RFC 3339 on the wire, HTTP dates as given."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

YEAR_MIN: Final = 1970
YEAR_MAX: Final = 9999
TIME_MS_MAX: Final = 253_402_300_799_999
"""9999-12-31T23:59:59.999Z."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_RFC3339 = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})[Tt ](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?([Zz]|[+-]\d{2}:\d{2})",
    re.ASCII,
)
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_MONTH = "(?P<month>" + "|".join(_MONTHS) + ")"
_CLOCK = r"(?P<hour>\d{2}):(?P<minute>\d{2}):(?P<second>\d{2})"
_HTTP_DATES = (
    # The preferred form, RFC 850's, and asctime's.
    rf"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), (?P<day>\d{{2}}) {_MONTH} (?P<year>\d{{4}}) {_CLOCK} GMT",
    rf"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, (?P<day>\d{{2}})-{_MONTH}-(?P<year>\d{{2}}) {_CLOCK} GMT",
    rf"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) {_MONTH} (?P<day>[ \d]\d) {_CLOCK} (?P<year>\d{{4}})",
)
_HTTP_DATE_FORMS = tuple(re.compile(form, re.ASCII) for form in _HTTP_DATES)


def format_time(ms: int) -> str:
    """Milliseconds since the epoch as RFC 3339 in UTC with three decimals and `Z`.

    Raises ValueError outside the years 1970 to 9999.
    """
    if not 0 <= ms <= TIME_MS_MAX:
        raise ValueError(f"{ms} ms lies outside the years {YEAR_MIN} to {YEAR_MAX}")
    return (_EPOCH + ms * _MILLISECOND).strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03d}Z"


def parse_time(text: str) -> int:
    """An RFC 3339 time with an offset as milliseconds since the epoch; finer fractions are cut.

    Raises ValueError, with a message for the sender, for anything else and outside the years 1970 to 9999.
    """
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError("must be an RFC 3339 time with an offset, like 2026-11-30T12:00:00.000Z")
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction_ms = int((match[7] or "0").ljust(3, "0")[:3])
    offset_minutes = _offset_minutes(match[8])
    try:
        moment = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC)
    except ValueError as fault:
        raise ValueError(f"is no time: {fault}") from None
    if second > 60:
        raise ValueError("is no time: second must be in 0..60")
    # A leap second is the first instant of the next minute.
    leap_ms = 1000 if second == 60 else 0
    ms = _to_ms(moment) + leap_ms + fraction_ms - offset_minutes * 60_000
    if not 0 <= ms <= TIME_MS_MAX:
        raise ValueError(f"must lie in the years {YEAR_MIN} to {YEAR_MAX}")
    return ms


def parse_http_date(text: str) -> int | None:
    """An HTTP date in one of its three forms as milliseconds since the epoch, read as UTC; None for anything else.

    The name of the weekday is not compared with the date. A two-digit year means 1970 to 2069.
    """
    for form in _HTTP_DATE_FORMS:
        match = form.fullmatch(text)
        if match is not None:
            return _http_date_ms(match)
    return None


def _http_date_ms(match: re.Match[str]) -> int | None:
    year = int(match["year"])
    if len(match["year"]) == 2:
        year += 1900 if year >= 70 else 2000
    second = int(match["second"])
    if second > 60:
        return None
    month = _MONTHS.index(match["month"]) + 1
    hour, minute = int(match["hour"]), int(match["minute"])
    try:
        moment = datetime(year, month, int(match["day"]), hour, minute, min(second, 59), tzinfo=UTC)
    except ValueError:
        return None
    ms = _to_ms(moment) + (1000 if second == 60 else 0)
    return ms if 0 <= ms <= TIME_MS_MAX else None


def _offset_minutes(offset: str) -> int:
    if offset in "Zz":
        return 0
    hours, minutes = int(offset[1:3]), int(offset[4:6])
    if hours > 23 or minutes > 59:
        raise ValueError(f"is no time: the offset {offset} does not exist")
    return (hours * 60 + minutes) * (-1 if offset[0] == "-" else 1)


def _to_ms(moment: datetime) -> int:
    return (moment - _EPOCH) // _MILLISECOND
