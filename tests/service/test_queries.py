"""Query strings: what is unknown, repeated or unreadable is refused, all at once."""

import pytest

from stepd.service.cursors import decode_cursor, encode_cursor
from stepd.service.queries import QueryReader, choices, flag, label, name, seconds, time, whole


def test_unknown_and_repeated_parameters_are_refused_together() -> None:
    reader = QueryReader([("limit", "1"), ("limit", "2"), ("colour", "red"), ("status", "a")], single={"limit"})
    assert reader.problem is not None
    assert isinstance(reader.problem.errors, list)
    assert {fault.path for fault in reader.problem.errors} == {"/limit", "/colour", "/status"}


def test_what_may_be_repeated_keeps_its_order() -> None:
    reader = QueryReader([("label", "b:1"), ("label", "a:2")], many={"label"})
    assert reader.all("label", label) == [("b", "1"), ("a", "2")]
    assert reader.problem is None


def test_a_parameter_left_out_is_none() -> None:
    reader = QueryReader([], single={"limit"})
    assert reader.one("limit", whole(1, 200)) is None
    assert reader.problem is None


@pytest.mark.parametrize("text", ["0", "201", "-1", "1.5", "", "x", "١", "1" * 30, " 5", "+5"])
def test_a_whole_number_is_digits_within_its_bounds(text: str) -> None:
    with pytest.raises(ValueError, match="from 1 to 200"):
        whole(1, 200)(text)
    assert whole(1, 200)("200") == 200


@pytest.mark.parametrize("text", ["-1", "61", "nan", "inf", "", "x", "1e400"])
def test_seconds_are_a_finite_number_within_their_bounds(text: str) -> None:
    with pytest.raises(ValueError, match="from 0 to 60"):
        seconds(60)(text)
    assert seconds(60)("0.5") == 0.5


def test_a_label_ends_its_key_at_the_first_colon() -> None:
    assert label("team:a:b") == ("team", "a:b")
    for text in ("team", "team:", ":x", "a b:x", "k:" + "v" * 257):
        with pytest.raises(ValueError, match="key:value"):
            label(text)


def test_an_offset_whose_plus_became_a_space_is_read() -> None:
    assert time("2026-11-30T12:00:00 01:00") == time("2026-11-30T11:00:00Z")
    with pytest.raises(ValueError, match="offset"):
        time("2026-11-30T12:00:00")


def test_words_are_of_their_lists() -> None:
    assert flag("true")
    assert not flag("false")
    assert choices(("a", "b"))("b,a") == {"a", "b"}
    for read, text in ((flag, "yes"), (choices(("a", "b")), "a,,b"), (name, "a b")):
        with pytest.raises(ValueError, match="must be"):
            read(text)


@pytest.mark.parametrize("text", ["", "!", "é", "AAAA", encode_cursor("x") + "x", "A" * 30_000])
def test_a_cursor_that_was_not_given_out_is_refused(text: str) -> None:
    assert decode_cursor(encode_cursor("billing"), str) == "billing"
    with pytest.raises(ValueError, match="must be a cursor"):
        decode_cursor(text, str)
