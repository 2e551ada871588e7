"""Owns what stands below a step while it is watched: attempts that went wrong, items and rounds, the child's steps."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from rich.text import Text

from stepd.cli.printing import Cell, as_text, console, line, status_text
from stepd.cli.rows import NOTE_LENGTH, usage_text
from stepd.cli.steps import sign
from stepd.wording.journal import failure_text, step_name
from stepd.wording.shown import cut, duration_text, seconds_between, shown

ATTEMPTS_SHOWN: Final = 3
"""Of attempts that went wrong, the last ones."""
ITEMS_SHOWN: Final = 6
DEPTH_MAX: Final = 4
_TELLING: Final = ("failed", "uncertain", "retry_wait", "running", "leased", "held")
"""Items that are named each, in this order; the others are in the step's counts."""
_ENDINGS: Final = {
    "attempt.failed": "failed",
    "attempt.lost": "lost",
    "attempt.orphaned": "orphaned",
    "attempt.requeued": "requeued",
}
_BY_EVENT: Final = {
    "attempt.leased": "running",
    "attempt.started": "running",
    "step.queued": "queued",
    "step.succeeded": "succeeded",
    "step.caught": "succeeded",
    "step.failed": "failed",
    "step.retry_scheduled": "retry_wait",
    "step.uncertain": "uncertain",
    "step.held": "held",
    "step.cancelled": "cancelled",
}
_Json = Mapping[str, Any]


class _Attempt(NamedTuple):
    number: int
    status: str
    seconds: float | None
    worker: str
    failure: str


class _Place:
    """A step without items, or one item or round, as its events tell it."""

    __slots__ = ("attempt", "began", "last", "status", "worker", "wrong")

    def __init__(self) -> None:
        self.status = "queued"
        self.attempt = 0
        self.began: str | None = None
        self.last: str | None = None
        self.worker = ""
        self.wrong: list[_Attempt] = []


class Below:
    """What the events tell of attempts and items, which the view of an execution has in counts only."""

    def __init__(self) -> None:
        self._places: dict[str, dict[int | None, _Place]] = {}

    def take(self, event: _Json) -> None:
        """Remembers what an event tells."""
        if event.get("step") is None:
            return
        place = self._places.setdefault(event["step"], {}).setdefault(event["index"], _Place())
        kind = event["type"]
        if kind == "attempt.leased":
            place.began, place.attempt, place.worker = event["at"], event["attempt"] or 0, event["worker"] or ""
        elif kind in _ENDINGS:
            place.wrong = [*place.wrong, _ended(place, event, _ENDINGS[kind])][-ATTEMPTS_SHOWN:]
        if kind in _BY_EVENT:
            place.status, place.last = _BY_EVENT[kind], event["at"]

    def rows(self, step: _Json, now: str, depth: int = 1) -> Iterator[list[Cell]]:
        """The rows below a step: attempts that went wrong as long as it has not come well to its end, items, child."""
        places = self._places.get(step["id"], {})
        rows: list[list[Cell]] = []
        if (own := places.get(None)) is not None and step["status"] not in ("succeeded", "skipped"):
            rows += [_attempt_row(attempt) for attempt in own.wrong]
        if step.get("items"):
            rows += _item_rows({index: place for index, place in places.items() if index is not None}, now)
        yield from _hung(rows, depth)
        if step.get("child_view") is not None:
            yield from child_rows(step["child_view"], now, depth)


def child_rows(view: _Json, now: str, depth: int) -> Iterator[list[Cell]]:
    """A child's own line and its steps', and what is below those."""
    elapsed = duration_text(seconds_between(view["created_at"], view["ended_at"] or now))
    name = f"{shown(view['workflow'])} {shown(view['version'])}"
    note = as_text(usage_text(view["usage"], short=True), "dim")
    yield from _hung([[sign(view["status"]), name, status_text(view["status"]), "", elapsed, note]], depth)
    if depth >= DEPTH_MAX:
        return
    for step in view["steps"]:
        failure = cut(failure_text(step["error"]), NOTE_LENGTH)
        attempt = str(step["attempt"]) if step["attempt"] else ""
        name, status = step_name(step["id"], step["index"]), status_text(step["status"])
        yield from _hung([[sign(step["status"]), name, status, attempt, "", as_text(failure, "dim")]], depth + 1)
        if step.get("child_view") is not None:
            yield from child_rows(step["child_view"], now, depth + 2)


def _ended(place: _Place, event: _Json, status: str) -> _Attempt:
    seconds = seconds_between(place.began, event["at"])
    return _Attempt(event["attempt"] or 0, status, seconds, event["worker"] or "", failure_text(event["data"]))


def _attempt_row(attempt: _Attempt) -> list[Cell]:
    where = f"on {shown(attempt.worker)}" if attempt.worker else ""
    note = ", ".join(filter(None, (where, attempt.failure)))
    elapsed = duration_text(attempt.seconds)
    return [
        "",
        f"attempt {attempt.number}",
        status_text(attempt.status),
        "",
        elapsed,
        as_text(cut(note, NOTE_LENGTH), "dim"),
    ]


def _item_rows(places: Mapping[int, _Place], now: str) -> list[list[Cell]]:
    telling = [index for index, place in places.items() if place.status in _TELLING]
    telling.sort(key=lambda index: (_TELLING.index(places[index].status), index))
    rows = [_item_row(index, places[index], now) for index in sorted(telling[:ITEMS_SHOWN])]
    if len(telling) > ITEMS_SHOWN:
        rows.append(["", as_text(f"… {len(telling) - ITEMS_SHOWN} more", "dim"), "", "", "", ""])
    return rows


def _item_row(index: int, place: _Place, now: str) -> list[Cell]:
    at_work = place.status in ("running", "leased")
    elapsed = duration_text(seconds_between(place.began, now if at_work else place.last))
    failure = place.wrong[-1].failure if place.wrong else ""
    where = f"on {shown(place.worker)}" if place.worker and at_work else ""
    note = ", ".join(filter(None, (where, f"after {failure}" if failure and at_work else failure)))
    attempt = str(place.attempt) if place.attempt else ""
    return [
        sign(place.status),
        f"[{index}]",
        status_text(place.status),
        attempt,
        elapsed,
        as_text(cut(note, NOTE_LENGTH), "dim"),
    ]


def _hung(rows: Sequence[Sequence[Cell]], depth: int) -> Iterator[list[Cell]]:
    """The rows with the branch on which they hang in front of their names."""
    pretty = console().encoding.startswith("utf")
    for place, (mark, name, *rest) in enumerate(rows):
        last = place == len(rows) - 1
        branch = ("└─ " if last else "├─ ") if pretty else ("`- " if last else "|- ")
        hung: Text = line(as_text("   " * (depth - 1) + branch, "dim"), name)
        yield [mark, hung, *rest]
