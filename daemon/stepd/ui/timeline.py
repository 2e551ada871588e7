"""Lays a journal and the spans of a trace out in time: one row a step, an item or a span, with bars in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct

Json: TypeAlias = Mapping[str, Any]

ROWS_MAX: Final = 400
ITEMS_MAX: Final = 50
"""Items of one step that get a row of their own."""
SPANS_MAX: Final = 200
"""Spans of one step, or of one item, that get a row."""
DEPTH_MAX: Final = 12
NARROWEST: Final = 0.25
"""The least width of a bar, in percent of the whole: what is short has to be seen too."""
TICKS_MAX: Final = 6

_OPENS: Final = {
    "step.queued": "queued",
    "attempt.leased": "running",
    "attempt.orphaned": "orphaned",
    "step.retry_scheduled": "retry_wait",
    "wait.armed": "waiting",
}
"""What begins with an event."""

_CLOSES: Final = {
    "step.succeeded": "succeeded",
    "step.caught": "failed",
    "step.failed": "failed",
    "step.uncertain": "uncertain",
    "step.held": "cancelled",
    "step.cancelled": "cancelled",
    "attempt.failed": "failed",
    "attempt.lost": "lost",
    "attempt.requeued": "requeued",
    "wait.resumed": "waiting",
    "wait.timed_out": "failed",
    "timer.fired": "waiting",
    "child.ended": "waiting",
}
"""What became of an attempt that an event ends; of a wait whether it ended well."""

_STEP_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000, 120_000)
_STEP_LONG_MS: Final = tuple(minutes * 60_000 for minutes in (5, 10, 15, 30, 60, 120, 240, 480, 720, 1_440, 2_880))
_DAYS_MS: Final = 86_400_000


class Bar(Struct, frozen=True):
    """A stretch of time in a row: where it begins and how long it is, in percent of the whole; what it shows."""

    left: str
    width: str
    kind: str
    title: str
    is_open: bool = False
    """It has not ended."""


class Line(Struct, frozen=True):
    """One row. ``step`` is set where it belongs to one; ``is_span``: the row shows a span, not a step."""

    label: str
    depth: int
    bars: tuple[Bar, ...]
    step: str | None = None
    is_span: bool = False


class Tick(Struct, frozen=True):
    """A mark of the scale: where it stands in percent, and the time since the beginning."""

    left: str
    label: str


class Timeline(Struct, frozen=True):
    """All rows, with the scale above them. ``left_out`` tells what there was no row for, in words."""

    start_ms: int
    end_ms: int
    ticks: tuple[Tick, ...]
    lines: tuple[Line, ...]
    left_out: tuple[str, ...]


def lay_out(steps: Sequence[str], events: Iterable[Json], spans: Iterable[Json], now_ms: int) -> Timeline:
    """The timeline of an execution whose steps are ``steps`` in their order, as of ``now_ms``.

    Events and spans are those of the API; each event has its time in milliseconds beside the others, as ``at_ms``.
    """
    tracks, start, end = _read(events, now_ms)
    trace = _Trace(spans)
    for span in trace.all:
        start, end = min(start, _start_ms(span)), max(end, _end_ms(span, end))
    scale = _Scale(start, max(end, start + 1))
    lines: list[Line] = []
    left_out: list[str] = []
    for step in steps:
        for line in _step_lines(step, tracks, trace, scale, left_out):
            if len(lines) == ROWS_MAX:
                left_out.append(f"rows behind the first {ROWS_MAX}")
                return Timeline(scale.start, scale.end, _ticks(scale), tuple(lines), tuple(left_out))
            lines.append(line)
    return Timeline(scale.start, scale.end, _ticks(scale), tuple(lines), tuple(left_out))


class _Stretch(Struct):
    kind: str
    start_ms: int
    end_ms: int | None
    title: str


class _Scale(Struct, frozen=True):
    start: int
    end: int

    def bar(self, stretch: _Stretch) -> Bar:
        """The stretch on this scale."""
        end = self.end if stretch.end_ms is None else stretch.end_ms
        width = max(self._percent(end) - self._percent(stretch.start_ms), NARROWEST)
        left = min(self._percent(stretch.start_ms), 100 - NARROWEST)
        title = f"{stretch.title}, {duration(end - stretch.start_ms)}"
        return Bar(f"{left:.3f}%", f"{min(width, 100 - left):.3f}%", stretch.kind, title, stretch.end_ms is None)

    def _percent(self, ms: int) -> float:
        return (min(max(ms, self.start), self.end) - self.start) * 100 / (self.end - self.start)


_Key: TypeAlias = tuple[str, int | None]


def _read(events: Iterable[Json], now_ms: int) -> tuple[dict[_Key, list[_Stretch]], int, int]:
    """The stretches of each step and item, and when the whole began and ended."""
    tracks: dict[_Key, list[_Stretch]] = {}
    start: int | None = None
    at, ended = now_ms, False
    for event in events:
        at, type_ = event["at_ms"], event["type"]
        start = at if start is None else start
        ended = type_ in ("execution.completed", "execution.failed", "execution.cancelled")
        if event["step"] is not None:
            _take(tracks.setdefault((event["step"], event["index"]), []), event, type_, at)
    end = at if ended else max(now_ms, at)
    if ended:
        for track in tracks.values():
            _close(track, "cancelled", end)
    return tracks, end if start is None else start, end


def _take(track: list[_Stretch], event: Json, type_: str, at: int) -> None:
    if type_ in _CLOSES or type_ in _OPENS:
        _close(track, _CLOSES.get(type_), at)
    if type_ in _OPENS:
        attempt, worker = event["attempt"], event["worker"]
        kind = _OPENS[type_]
        words = kind.replace("_", " ")
        title = f"attempt {attempt} {words} on {worker}" if type_.startswith("attempt.") else words
        track.append(_Stretch(kind, at, None, title))


def _close(track: list[_Stretch], outcome: str | None, at: int) -> None:
    """Ends what goes on; an attempt takes the colour of its outcome."""
    if not track or track[-1].end_ms is not None:
        return
    last = track[-1]
    last.end_ms = at
    if outcome is not None and last.kind in ("running", "orphaned"):
        last.kind = outcome
        last.title = f"{last.title}, {outcome}"


def _step_lines(
    step: str, tracks: dict[_Key, list[_Stretch]], trace: _Trace, scale: _Scale, left_out: list[str]
) -> Iterable[Line]:
    items = sorted((index, key) for key in tracks if key[0] == step and (index := key[1]) is not None)
    yield Line(step, 0, _whole(step, [tracks[key] for _, key in items], tracks, scale), step)
    yield from trace.lines((step, None), 1, scale, left_out)
    if len(items) > ITEMS_MAX:
        left_out.append(f"{len(items) - ITEMS_MAX:,} items of {step}")
    for _, key in items[:ITEMS_MAX]:
        yield Line(_name(key), 1, tuple(map(scale.bar, tracks[key])), step)
        yield from trace.lines(key, 2, scale, left_out)


def _whole(
    step: str, items: Sequence[list[_Stretch]], tracks: dict[_Key, list[_Stretch]], scale: _Scale
) -> tuple[Bar, ...]:
    """The step's own bars; where it has items, one from the first one's begin to the last one's end."""
    own = tracks.get((step, None), [])
    stretches = [stretch for item in items for stretch in item]
    if not stretches:
        return tuple(map(scale.bar, own))
    ends = [stretch.end_ms for stretch in stretches]
    closed = [end for end in ends if end is not None]
    end = max(closed) if len(closed) == len(ends) else None
    return (scale.bar(_Stretch("items", min(one.start_ms for one in stretches), end, f"{len(items):,} items")),)


# -- spans ------------------------------------------------------------------------------------------------------------


class _Trace:
    """The spans that workers sent: by the one above them, and those that stand at the top of a step or item."""

    def __init__(self, spans: Iterable[Json]) -> None:
        self.all = list(spans)
        known = {span["span_id"]: span for span in self.all}
        self._below: dict[str, list[Json]] = {}
        self._tops: dict[_Key, list[Json]] = {}
        self._count: dict[_Key, int] = {}
        for span in sorted(self.all, key=lambda span: (int(span["start_unix_nano"]), span["span_id"])):
            if span["step"] is None or is_attempt(span):
                continue
            key, above = (span["step"], span["index"]), known.get(span["parent_span_id"])
            self._count[key] = self._count.get(key, 0) + 1
            if above is None or above["step"] is None or is_attempt(above):
                self._tops.setdefault(key, []).append(span)
            else:
                self._below.setdefault(span["parent_span_id"], []).append(span)

    def lines(self, key: _Key, depth: int, scale: _Scale, left_out: list[str]) -> Iterable[Line]:
        """What was sent below the attempts of a step or item; what has lost its parent stands at the top."""
        open_ = [(span, 0) for span in reversed(self._tops.get(key, []))]
        seen: set[str] = set()
        while open_:
            span, deep = open_.pop()
            if span["span_id"] in seen:
                continue
            if len(seen) == SPANS_MAX:
                left_out.append(f"{self._count[key] - SPANS_MAX:,} spans of {_name(key)}")
                return
            seen.add(span["span_id"])
            bars = (scale.bar(_of_span(span)),)
            yield Line(str(span["name"]), depth + min(deep, DEPTH_MAX), bars, key[0], is_span=True)
            open_ += [(child, deep + 1) for child in reversed(self._below.get(span["span_id"], []))]


def _name(key: _Key) -> str:
    return key[0] if key[1] is None else f"{key[0]}[{key[1]}]"


def is_attempt(span: Json) -> bool:
    """Whether this is the span of an attempt, or part of one's series, made by the daemon."""
    return "stepd.attempt.status" in span["attributes"]


def _of_span(span: Json) -> _Stretch:
    end = None if span["end_unix_nano"] is None else _end_ms(span, 0)
    kind = "span-error" if span["status"] == "error" else "span"
    return _Stretch(kind, _start_ms(span), end, str(span["name"]))


def _start_ms(span: Json) -> int:
    return int(span["start_unix_nano"]) // 1_000_000


def _end_ms(span: Json, otherwise: int) -> int:
    return otherwise if span["end_unix_nano"] is None else int(span["end_unix_nano"]) // 1_000_000


# -- the scale --------------------------------------------------------------------------------------------------------


def _ticks(scale: _Scale) -> tuple[Tick, ...]:
    whole = scale.end - scale.start
    step = next((one for one in (*_STEP_MS, *_STEP_LONG_MS) if whole / one <= TICKS_MAX), None)
    if step is None:
        step = -(-whole // (TICKS_MAX * _DAYS_MS)) * _DAYS_MS
    return tuple(Tick(f"{at * 100 / whole:.3f}%", duration(at)) for at in range(0, whole + 1, step))


def duration(ms: int) -> str:
    """A stretch of time in words, to two places: ``1.2 s``, ``3 min 20 s``, ``2 d 4 h``."""
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1_000:.1f}".removesuffix(".0") + " s"
    if ms < 60 * 60_000:
        return _in_two(ms, 60_000, "min", 1_000, "s")
    if ms < _DAYS_MS:
        return _in_two(ms, 60 * 60_000, "h", 60_000, "min")
    return _in_two(ms, _DAYS_MS, "d", 60 * 60_000, "h")


def _in_two(ms: int, size: int, unit: str, part: int, lesser: str) -> str:
    whole, rest = divmod(ms, size)
    return f"{whole} {unit} {rest // part} {lesser}" if rest // part else f"{whole} {unit}"
