"""Reading usage and spans: good ones are kept whole, bad ones are dropped with a warning, nothing is ever raised."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from stepd_protocol import limits as bounds
from stepd_protocol.leases import Span, Usage
from stepd_protocol.limits import Limits
from stepd_protocol.telemetry import UNKNOWN_MODEL, read_spans, read_usage, usage_from_attributes

LIMITS = Limits()
COUNTS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
FIELDS = st.sampled_from([*Usage.__struct_fields__, *Span.__struct_fields__, "gen_ai.usage.input_tokens", "other"])
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(FIELDS | st.text(), inner), max_leaves=20)
COUNT = st.integers(0, bounds.TOKENS_MAX)
USAGE = st.fixed_dictionaries({"model": st.text("abc", min_size=1)}, optional=dict.fromkeys(COUNTS, COUNT))
SPAN_IDS = st.text("0123456789abcdef", min_size=16, max_size=16).filter(lambda text: text.strip("0"))


def span(**fields: Any) -> dict[str, Any]:
    frame = {"span_id": "00f067aa0ba902b7", "name": "call", "start_unix_nano": "10", "end_unix_nano": "20"}
    return {**frame, **fields}


def raw(value: Any) -> Raw:
    return Raw(msgspec.json.encode(value))


@given(st.binary())
def test_any_bytes_are_read_without_an_exception(content: bytes) -> None:
    for text in (content, b"[" + content + b"]", b'[{"model":' + content + b"}]"):
        assert read_usage(Raw(text), LIMITS) is not None
        assert read_spans(Raw(text), LIMITS) is not None


@given(JSON)
def test_any_json_is_read_without_an_exception_and_what_is_kept_is_valid(value: Any) -> None:
    for candidate in (value, [value], [span(attributes=value)], [span(usage=value)]):
        usage, _ = read_usage(raw(candidate), LIMITS)
        spans, warnings = read_spans(raw(candidate), LIMITS)
        assert usage is None or msgspec.convert(msgspec.to_builtins(usage), list[Usage]) == usage
        assert msgspec.convert(msgspec.to_builtins(spans), list[Span]) == spans
        assert len(warnings) <= bounds.WARNINGS_MAX + 1
        assert all(len(warning) <= bounds.WARNING_LENGTH_MAX for warning in warnings)


@given(st.lists(USAGE, max_size=5))
def test_good_usage_is_kept_whole(entries: list[dict[str, Any]]) -> None:
    usage, warnings = read_usage(raw(entries), LIMITS)
    assert usage == [Usage(**entry) for entry in entries]
    assert warnings == []


@given(st.lists(SPAN_IDS, max_size=5))
def test_good_spans_are_kept_each_id_once(ids: list[str]) -> None:
    spans, warnings = read_spans(raw([span(span_id=id_, name=f"n{at}") for at, id_ in enumerate(ids)]), LIMITS)
    last = {id_: f"n{at}" for at, id_ in enumerate(ids)}
    assert {one.span_id: one.name for one in spans} == last
    assert len(spans) == len(last)
    assert warnings == []


@pytest.mark.parametrize("given_raw", [UNSET, Raw(b"null")])
def test_nothing_given_is_none_without_a_warning(given_raw: Any) -> None:
    assert read_usage(given_raw, LIMITS) == (None, [])
    assert read_spans(given_raw, LIMITS) == ([], [])


def test_an_empty_usage_is_given_and_stays_empty() -> None:
    assert read_usage(Raw(b"[]"), LIMITS) == ([], [])


def test_usage_of_which_nothing_can_be_read_counts_as_not_given() -> None:
    usage, warnings = read_usage(raw([{"model": "m", "input_tokens": -1}]), LIMITS)
    assert usage is None
    assert len(warnings) == 1


@pytest.mark.parametrize(
    "bad",
    [
        {"model": "m", "input_tokens": -1},
        {"model": "m", "input_tokens": 2**53 + 1},
        {"model": "m", "input_tokens": 1.5},
        {"model": "m", "input_tokens": "5"},
        {"model": "m", "input_tokens": True},
        {"model": "m", "input_token": 5},
        {"model": "", "input_tokens": 5},
        {"input_tokens": 5},
        5,
        None,
        [],
    ],
)
def test_a_bad_entry_is_dropped_and_its_neighbours_stay(bad: Any) -> None:
    usage, warnings = read_usage(raw([{"model": "a"}, bad, {"model": "b"}]), LIMITS)
    assert usage is not None
    assert [one.model for one in usage] == ["a", "b"]
    assert [warning.split(" ")[0] for warning in warnings] == ["usage[1]"]


def test_a_number_beyond_a_double_drops_its_entry_only() -> None:
    usage, warnings = read_usage(Raw(b'[{"model":"a"},{"model":"b","input_tokens":1e400}]'), LIMITS)
    assert usage == [Usage(model="a")]
    assert len(warnings) == 1


@pytest.mark.parametrize(
    "bad",
    [
        span(span_id="abc"),
        span(span_id="0" * 16),
        span(span_id="00f067aa0ba902b7\n"),
        span(kind="remote"),
        span(status="bad"),
        span(start_unix_nano=10),
        span(end_unix_nano=str(2**63)),
        span(name=""),
        span(attributes=[]),
        span(surprise=1),
        span(attributes={"a": "x" * bounds.SPAN_BYTES_MAX}),
        {"span_id": "00f067aa0ba902b7"},
    ],
)
def test_a_bad_span_is_dropped_and_its_neighbours_stay(bad: Any) -> None:
    good = span(span_id="1" * 16)
    spans, warnings = read_spans(raw([good, bad]), LIMITS)
    assert [one.span_id for one in spans] == ["1" * 16]
    assert [warning.split(" ")[0] for warning in warnings] == ["spans[1]"]


def test_a_warning_echoes_a_short_piece_only() -> None:
    _, warnings = read_spans(raw([span(kind="secret" * 1000), span(attributes={"k" * 5000: {}})]), LIMITS)
    assert [len(warning) <= bounds.WARNING_LENGTH_MAX for warning in warnings] == [True, True]


def test_warnings_are_bounded_and_the_rest_is_counted() -> None:
    _, warnings = read_usage(raw([5] * 100), LIMITS)
    assert len(warnings) == bounds.WARNINGS_MAX + 1
    assert warnings[-1] == "… and 80 more"


def test_more_than_the_limit_is_cut_with_a_warning() -> None:
    limits = Limits(spans_per_call=2, usage_per_call=1)
    spans, span_warnings = read_spans(raw([span(span_id=f"{at:016x}") for at in range(1, 5)]), limits)
    usage, usage_warnings = read_usage(raw([{"model": "a"}, {"model": "b"}]), limits)
    assert (len(spans), len(span_warnings)) == (2, 1)
    assert (usage, len(usage_warnings)) == ([Usage(model="a")], 1)


def test_ids_are_read_in_either_case_and_kept_in_one() -> None:
    spans, _ = read_spans(raw([span(span_id="00F067AA0BA902B7", parent_span_id="AAAAAAAAAAAAAAAA")]), LIMITS)
    assert (spans[0].span_id, spans[0].parent_span_id) == ("00f067aa0ba902b7", "a" * 16)


def test_a_span_that_ends_before_it_starts_keeps_its_usage() -> None:
    spans, warnings = read_spans(raw([span(end_unix_nano="5", usage=[{"model": "m"}])]), LIMITS)
    assert (spans[0].start_unix_nano, spans[0].end_unix_nano, spans[0].usage) == ("10", "10", [Usage(model="m")])
    assert len(warnings) == 1


def test_nested_attributes_are_dropped_by_name() -> None:
    spans, warnings = read_spans(raw([span(attributes={"a": 1, "b": {}, "c": [1, None], "d": [[]]})]), LIMITS)
    assert spans[0].attributes == {"a": 1, "c": [1, None]}
    assert len(warnings) == 2


@pytest.mark.parametrize("given_usage", [{"model": "m", "output_tokens": 3}, [{"model": "m", "output_tokens": 3}]])
def test_a_spans_own_usage_wins_over_its_attributes(given_usage: Any) -> None:
    attributes = {"gen_ai.usage.input_tokens": 99}
    spans, warnings = read_spans(raw([span(usage=given_usage, attributes=attributes)]), LIMITS)
    assert spans[0].usage == [Usage(model="m", output_tokens=3)]
    assert warnings == []


def test_a_span_whose_own_usage_is_bad_is_kept_and_its_attributes_are_read() -> None:
    attributes = {"gen_ai.usage.input_tokens": 99}
    spans, warnings = read_spans(raw([span(usage=[{"model": 5}], attributes=attributes)]), LIMITS)
    assert spans[0].usage == [Usage(model=UNKNOWN_MODEL, input_tokens=99)]
    assert len(warnings) == 1


@pytest.mark.parametrize("written", ["cache_write.input_tokens", "cache_creation.input_tokens"])
def test_cached_and_reasoning_tokens_are_taken_out_of_the_sums(written: str) -> None:
    usage = usage_from_attributes(
        {
            "gen_ai.request.model": "m",
            "gen_ai.response.model": "m-2026",
            "gen_ai.usage.input_tokens": 1000,
            "gen_ai.usage.cache_read.input_tokens": 600,
            f"gen_ai.usage.{written}": 300,
            "gen_ai.usage.output_tokens": 64,
            "gen_ai.usage.reasoning.output_tokens": 24,
        }
    )
    assert usage == Usage(
        model="m-2026",
        input_tokens=100,
        cache_read_tokens=600,
        cache_write_tokens=300,
        output_tokens=40,
        reasoning_tokens=24,
    )


def test_earlier_names_are_read_and_current_ones_win() -> None:
    earlier = {"gen_ai.request.model": "m", "gen_ai.usage.prompt_tokens": 10, "gen_ai.usage.completion_tokens": 5}
    assert usage_from_attributes(earlier) == Usage(model="m", input_tokens=10, output_tokens=5)
    both = {**earlier, "gen_ai.usage.input_tokens": 11}
    assert usage_from_attributes(both) == Usage(model="m", input_tokens=11, output_tokens=5)


NAMES = {
    "cache_read_tokens": """cache_read.input_tokens cache_read_input_tokens input_tokens.cached cached_input_tokens
        details.cache_read_tokens cache_read_tokens cached_tokens""",
    "cache_write_tokens": """cache_write.input_tokens cache_creation.input_tokens cache_creation_input_tokens
        cache_write_input_tokens input_tokens.cache_write details.cache_write_tokens cache_write_tokens""",
    "reasoning_tokens": """reasoning.output_tokens reasoning_tokens output_tokens.reasoning
        details.reasoning_tokens""",
}


@pytest.mark.parametrize(("count", "name"), [(count, name) for count, names in NAMES.items() for name in names.split()])
def test_a_part_is_taken_out_of_its_total_under_any_name(count: str, name: str) -> None:
    attributes = {"gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 50}
    usage = usage_from_attributes({**attributes, f"gen_ai.usage.{name}": 30})
    assert usage is not None
    total, rest = ("output_tokens", 20) if count == "reasoning_tokens" else ("input_tokens", 70)
    assert (getattr(usage, count), getattr(usage, total)) == (30, rest)


def test_the_current_name_counts_where_one_is_sent_under_two() -> None:
    attributes = {"gen_ai.usage.cache_write.input_tokens": 7, "gen_ai.usage.cache_creation.input_tokens": 9}
    assert usage_from_attributes(attributes) == Usage(model=UNKNOWN_MODEL, cache_write_tokens=7)


def test_a_sum_without_its_cached_part_never_turns_negative() -> None:
    usage = usage_from_attributes({"gen_ai.usage.input_tokens": 10, "gen_ai.usage.cache_read.input_tokens": 600})
    assert usage == Usage(model=UNKNOWN_MODEL, cache_read_tokens=600)


@pytest.mark.parametrize(
    ("value", "count"),
    [(7, 7), (7.0, 7), ("7", 7), (0, 0), (True, None), (7.5, None), (-7, None), ("x", None), ([7], None)],
)
def test_counts_in_every_form_that_exporters_write(value: Any, count: int | None) -> None:
    usage = usage_from_attributes({"gen_ai.usage.output_tokens": value})
    assert (None if usage is None else usage.output_tokens) == count


def test_a_span_without_counts_counts_nothing() -> None:
    assert usage_from_attributes({"gen_ai.request.model": "m", "http.status": 200}) is None
