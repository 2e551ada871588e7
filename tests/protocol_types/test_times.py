"""Times: RFC 3339 both ways, the three forms of HTTP dates, whatever the machine's time zone and locale."""

import subprocess
import sys
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepd_protocol.times import TIME_MS_MAX, format_time, parse_http_date, parse_time

# RFC 9110's own example, in its three forms.
HTTP_DATE_MS = 784_111_777_000
HTTP_DATES = [
    "Sun, 06 Nov 1994 08:49:37 GMT",
    "Sunday, 06-Nov-94 08:49:37 GMT",
    "Sun Nov  6 08:49:37 1994",
]
ZONES = ["UTC", "America/New_York", "Asia/Kolkata", "Pacific/Apia", "XYZ+11:30"]

PROBE = """
import locale, os, time
for name in ("de_DE.UTF-8", "tr_TR.UTF-8", "C"):
    try:
        locale.setlocale(locale.LC_ALL, name)
    except locale.Error:
        continue
    break
time.tzset()
from stepd_protocol.times import format_time, parse_http_date, parse_time
dates = ("Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994")
print(format_time(1796040000123), parse_time("2026-11-30T12:00:00.123Z"), *map(parse_http_date, dates))
"""


@given(st.integers(0, TIME_MS_MAX))
def test_a_time_comes_back_equal(ms: int) -> None:
    assert parse_time(format_time(ms)) == ms


@given(st.integers(0, TIME_MS_MAX))
def test_written_times_sort_like_numbers_and_have_one_length(ms: int) -> None:
    text = format_time(ms)
    assert len(text) == len("2026-11-30T12:00:00.000Z")
    assert text >= format_time(max(0, ms - 1))


@given(st.datetimes(datetime(1970, 1, 3), datetime(9999, 12, 29)), st.integers(-23 * 60 - 59, 23 * 60 + 59))  # noqa: DTZ001 — the strategy takes naive bounds
def test_an_offset_is_taken_away(moment: datetime, offset_minutes: int) -> None:
    sign, minutes = ("-" if offset_minutes < 0 else "+"), abs(offset_minutes)
    text = f"{moment:%m-%dT%H:%M:%S}{sign}{minutes // 60:02d}:{minutes % 60:02d}"
    at_utc_ms = (moment.replace(tzinfo=UTC, microsecond=0) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000
    assert parse_time(f"{moment.year:04d}-{text}") == at_utc_ms - offset_minutes * 60_000


@given(st.text())
def test_other_text_is_refused_and_nothing_else_is_raised(text: str) -> None:
    assert parse_http_date(text) is None
    with pytest.raises(ValueError, match=r"must be|is no time|must lie"):
        parse_time(text)


@pytest.mark.parametrize("ms", [-1, TIME_MS_MAX + 1])
def test_times_outside_the_years_are_not_written(ms: int) -> None:
    with pytest.raises(ValueError, match="1970 to 9999"):
        format_time(ms)


@pytest.mark.parametrize("text", HTTP_DATES)
def test_an_http_date_is_read(text: str) -> None:
    assert parse_http_date(text) == HTTP_DATE_MS


@pytest.mark.parametrize(
    ("text", "year"),
    [
        ("Tuesday, 01-Jan-70 00:00:00 GMT", 1970),
        ("Friday, 01-Jan-99 00:00:00 GMT", 1999),
        ("Saturday, 01-Jan-00 00:00:00 GMT", 2000),
        ("Tuesday, 01-Jan-69 00:00:00 GMT", 2069),
    ],
)
def test_a_year_of_two_digits(text: str, year: int) -> None:
    ms = parse_http_date(text)
    assert ms is not None
    assert format_time(ms).startswith(f"{year}-01-01T")


@pytest.mark.parametrize(
    "text",
    [
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 CET",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "sun, 06 nov 1994 08:49:37 gmt",
        "So, 06 Nov 1994 08:49:37 GMT",
        "Sun, 31 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 25:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:61 GMT",
        "Sun, 06 Nov 0001 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT\n",
        "Sun, ٠٦ Nov 1994 08:49:37 GMT",
        "120",
        "",
    ],
)
def test_what_is_no_http_date_is_none(text: str) -> None:
    assert parse_http_date(text) is None


@pytest.mark.parametrize("zone", ZONES)
def test_neither_time_zone_nor_locale_changes_a_time(zone: str) -> None:
    ran = subprocess.run([sys.executable, "-c", PROBE], env={"TZ": zone}, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["2026-11-30T12:00:00.123Z", "1796040000123", *[str(HTTP_DATE_MS)] * 3]
