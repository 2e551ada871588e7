"""How values become text: nothing in data acts on a terminal, and nothing is lost that a person needs."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepd.wording.shown import (
    cut,
    duration_text,
    json_for_machines,
    json_for_people,
    seconds_between,
    shown,
    time_text,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("plain, ä, 名前, 🙂", "plain, ä, 名前, 🙂"),
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("a\nb\tc\rd", r"a\nb\tc\rd"),
        ("\x00\x07\x08\x7f", r"\x00\x07\x08\x7f"),
        ("\x9b31m", r"\x9b31m"),
        ("abc\u202edef\u2066", r"abc\u202edef\u2066"),
        ("a\u2028b\u200bc\ufeff", r"a\u2028b\u200bc\ufeff"),
        ("\ud800", r"\ud800"),
        ("[bold]x[/bold] :smile:", "[bold]x[/bold] :smile:"),
        (r"C:\new", r"C:\new"),
    ],
)
def test_what_a_terminal_would_obey_is_written_as_an_escape(text: str, safe: str) -> None:
    assert shown(text) == safe


@given(st.text())
def test_shown_text_is_printable_whatever_it_was(text: str) -> None:
    assert shown(text).isprintable()


@given(JSON, st.sampled_from([None, 2]))
def test_json_is_equal_and_harmless(value: object, indent: int | None) -> None:
    for form in (json_for_people, json_for_machines):
        text = form(value, indent=indent)
        assert json.loads(text) == value
        assert not [c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]


def test_json_for_people_keeps_letters_and_json_for_machines_is_ascii() -> None:
    assert json_for_people({"name": "Zoë\u202e", "n": 10**40, "f": 1.0}) == (
        f'{{"name": "Zoë\\u202e", "n": {10**40}, "f": 1.0}}'
    )
    assert json_for_machines("Zoë\x7f") == '"Zo\\u00eb\\u007f"'


def test_a_long_text_is_cut_with_a_mark() -> None:
    assert cut("abcdef", 6) == "abcdef"
    assert cut("abcdefg", 6) == "abcde…"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""),
        (0, "0.00 s"),
        (9.994, "9.99 s"),
        (9.996, "10.0 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 00 s"),
        (3599.4, "59 min 59 s"),
        (3600, "1 h 00 min"),
        (86_399, "23 h 59 min"),
        (86_400 * 4 + 3600 * 6, "4 d 06 h"),
    ],
)
def test_durations_read_well(seconds: float | None, text: str) -> None:
    assert duration_text(seconds) == text


def test_times_are_shown_in_utc_to_the_second() -> None:
    assert time_text("2026-11-30T12:00:01.234Z") == "2026-11-30 12:00:01Z"
    assert time_text(None) == "-"
    assert time_text("\x1b[2J") == r"\x1b[2J"


def test_seconds_between_times_are_never_negative_and_never_invented() -> None:
    early, late = "2026-11-30T12:00:01.234Z", "2026-11-30T12:00:03.734Z"
    assert seconds_between(early, late) == 2.5
    assert seconds_between(late, early) == 0
    assert seconds_between(None, late) is None
    assert seconds_between("soon", late) is None
