"""The timeline: what each event and span shows as, in percent of the whole."""

from __future__ import annotations

from typing import Any

from stepd.ui.timeline import ITEMS_MAX, ROWS_MAX, SPANS_MAX, Timeline, duration, lay_out
from stepd_protocol.times import format_time

START = 1_764_504_000_000


def event(at: int, type_: str, step: str | None = None, index: int | None = None, attempt: int | None = None) -> Any:
    worker = None if attempt is None else "w1"
    when = format_time(START + at)
    return {
        "at": when,
        "at_ms": START + at,
        "type": type_,
        "step": step,
        "index": index,
        "attempt": attempt,
        "worker": worker,
        "data": {},
    }


def span(id_: str, parent: str, start: int, end: int | None, **more: Any) -> Any:
    return {
        "span_id": id_,
        "parent_span_id": parent,
        "name": f"span {id_}",
        "start_unix_nano": str((START + start) * 1_000_000),
        "end_unix_nano": None if end is None else str((START + end) * 1_000_000),
        "status": "unset",
        "attributes": {},
        "step": "a",
        "index": None,
        **more,
    }


def laid(
    events: list[Any], spans: list[Any] | None = None, now: int = 1_000, steps: tuple[str, ...] = ("a",)
) -> Timeline:
    return lay_out(steps, events, spans or [], START + now)


def bars(timeline: Timeline, row: int = 0) -> list[tuple[str, str, str]]:
    return [(bar.kind, bar.left, bar.width) for bar in timeline.lines[row].bars]


def test_an_attempt_takes_the_colour_of_its_outcome() -> None:
    timeline = laid(
        [
            event(0, "execution.created"),
            event(0, "step.queued", "a"),
            event(100, "attempt.leased", "a", attempt=1),
            event(500, "attempt.failed", "a", attempt=1),
            event(500, "step.retry_scheduled", "a", attempt=1),
            event(700, "step.queued", "a"),
            event(800, "attempt.leased", "a", attempt=2),
            event(1_000, "step.succeeded", "a", attempt=2),
            event(1_000, "execution.completed"),
        ],
        now=99_000,
    )
    assert bars(timeline) == [
        ("queued", "0.000%", "10.000%"),
        ("failed", "10.000%", "40.000%"),
        ("retry_wait", "50.000%", "20.000%"),
        ("queued", "70.000%", "10.000%"),
        ("succeeded", "80.000%", "20.000%"),
    ]
    assert timeline.lines[0].bars[1].title == "attempt 1 running on w1, failed, 400 ms"
    assert not any(bar.is_open for bar in timeline.lines[0].bars)


def test_what_goes_on_reaches_to_now() -> None:
    timeline = laid([event(0, "execution.created"), event(500, "attempt.leased", "a", attempt=1)])
    assert bars(timeline) == [("running", "50.000%", "50.000%")]
    assert timeline.lines[0].bars[0].is_open


def test_a_lapse_shows_apart_from_the_time_before_it() -> None:
    events = [
        event(0, "attempt.leased", "a", attempt=1),
        event(400, "attempt.orphaned", "a", attempt=1),
        event(600, "attempt.lost", "a", attempt=1),
        event(600, "step.uncertain", "a", attempt=1),
    ]
    assert [kind for kind, _, _ in bars(laid(events))] == ["running", "lost"]


def test_a_wait_and_a_sleep_show_as_waiting() -> None:
    events = [event(0, "wait.armed", "a"), event(300, "wait.resumed", "a"), event(300, "step.succeeded", "a")]
    assert bars(laid(events)) == [("waiting", "0.000%", "30.000%")]


def test_the_end_of_the_execution_ends_what_was_open() -> None:
    timeline = laid([event(0, "step.queued", "a"), event(500, "execution.cancelled")], now=9_999)
    assert bars(timeline) == [("queued", "0.000%", "100.000%")]


def test_what_is_short_is_seen_and_nothing_reaches_over_the_edge() -> None:
    events = [
        event(0, "execution.created"),
        event(1_000_000, "attempt.leased", "a", attempt=1),
        event(1_000_000, "step.succeeded", "a", attempt=1),
        event(1_000_000, "execution.completed"),
    ]
    assert bars(laid(events)) == [("succeeded", "99.750%", "0.250%")]


def test_items_have_rows_below_their_step_which_spans_them_all() -> None:
    events = [event(0, "execution.created")]
    for index in range(ITEMS_MAX + 7):
        events += [event(10, "attempt.leased", "a", index, 1), event(20, "step.succeeded", "a", index, 1)]
    timeline = laid(events, now=100)
    assert bars(timeline) == [("items", "10.000%", "10.000%")]
    assert [line.label for line in timeline.lines[:3]] == ["a", "a[0]", "a[1]"]
    assert len(timeline.lines) == 1 + ITEMS_MAX
    assert timeline.left_out == ("7 items of a",)


def test_spans_nest_below_their_step_also_without_their_parent() -> None:
    attempt = span("t1", "execution", 0, 500, attributes={"stepd.attempt.status": "succeeded"})
    spans = [
        span("late", "gone", 400, 450),
        span("inner", "outer", 200, 300, status="error"),
        span("outer", "t1", 100, None),
        attempt,
    ]
    timeline = laid([event(0, "attempt.leased", "a", attempt=1)], spans)
    assert [(line.label, line.depth) for line in timeline.lines] == [
        ("a", 0),
        ("span outer", 1),
        ("span inner", 2),
        ("span late", 1),
    ]
    assert bars(timeline, 2) == [("span-error", "20.000%", "10.000%")]
    assert timeline.lines[1].bars[0].is_open


def test_spans_that_name_each_other_as_parents_are_not_followed_for_ever() -> None:
    spans = [span("x", "y", 0, 1), span("y", "x", 0, 1)]
    assert [line.label for line in laid([event(0, "step.queued", "a")], spans).lines] == ["a"]


def test_rows_and_spans_are_bounded_and_what_is_left_out_is_said() -> None:
    spans = [span(f"s{number:04}", "t", number, number + 1) for number in range(SPANS_MAX + 5)]
    timeline = laid([event(0, "step.queued", "a")], spans)
    assert len(timeline.lines) == 1 + SPANS_MAX
    assert timeline.left_out == ("5 spans of a",)
    steps = tuple(f"s{number}" for number in range(ROWS_MAX + 1))
    timeline = laid([], steps=steps)
    assert len(timeline.lines) == ROWS_MAX
    assert timeline.left_out == (f"rows behind the first {ROWS_MAX}",)


def test_the_scale_has_round_marks_from_the_beginning() -> None:
    timeline = laid([event(0, "execution.created")], now=25_000)
    assert [tick.label for tick in timeline.ticks] == ["0 ms", "5 s", "10 s", "15 s", "20 s", "25 s"]
    assert [tick.left for tick in timeline.ticks][:2] == ["0.000%", "20.000%"]
    months = laid([event(0, "execution.created")], now=90 * 86_400_000)
    assert [tick.label for tick in months.ticks][:2] == ["0 ms", "15 d"]


def test_durations_in_words() -> None:
    told = {
        999: "999 ms",
        1_250: "1.2 s",
        60_000: "1 min",
        200_000: "3 min 20 s",
        7_500_000: "2 h 5 min",
        187_200_000: "2 d 4 h",
    }
    assert {ms: duration(ms) for ms in told} == told
