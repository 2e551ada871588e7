"""Owns how a step reads in a row: its sign, status, attempt and elapsed time, and a note on what matters about it."""

from collections.abc import Mapping
from typing import Any, Final

from rich.text import Text

from stepd.cli.printing import STATUS_STYLES, Cell, as_text, console
from stepd.cli.rows import NOTE_LENGTH, blocked_text
from stepd.wording.journal import failure_text, step_name
from stepd.wording.shown import cut, duration_text, seconds_between, shown

STEP_HEAD: Final = ("", "step", "status", "attempt", "elapsed", "")

# Each as a sign, and as a letter for terminals that lack it.
_SIGNS: Final = {
    "succeeded": ("✓", "+"),
    "failed": ("✗", "x"),
    "uncertain": ("?", "?"),
    "retry_wait": ("↻", "~"),
    "cancelled": ("⊘", "/"),
    "skipped": ("–", "-"),
    "running": ("▸", ">"),
    "leased": ("▸", ">"),
}
_ITEM_ORDER: Final = (
    "failed",
    "uncertain",
    "running",
    "leased",
    "retry_wait",
    "waiting",
    "queued",
    "pending",
    "cancelled",
)
_SETTLED: Final = frozenset({"succeeded", "failed", "skipped", "cancelled", "uncertain"})
_Json = Mapping[str, Any]


class StepHistory:
    """What the events tell of each step that its view doesn't: when it began and ended, who has it, what failed."""

    def __init__(self) -> None:
        self._began: dict[str, str] = {}
        self._last: dict[str, str] = {}
        self._workers: dict[str, str] = {}
        self._failures: dict[str, str] = {}

    def take(self, event: _Json) -> None:
        """Remembers what an event tells."""
        step = event.get("step")
        if step is None:
            return
        self._last[step] = event["at"]
        if event["type"] == "attempt.leased":
            self._began.setdefault(step, event["at"])
        if event["type"] in ("attempt.failed", "attempt.lost"):
            self._failures[step] = failure_text(event["data"]) or event["type"].rpartition(".")[2]
        if event.get("worker"):
            self._workers[step] = event["worker"]

    def elapsed_seconds(self, step: _Json, now: str) -> float | None:
        """From the first lease to the end, or to `now`; None for a step that no worker was given."""
        name = step["id"]
        return seconds_between(self._began.get(name), self._last.get(name) if step["status"] in _SETTLED else now)

    def worker(self, step: _Json) -> str:
        """The worker that was last heard of; nothing before the first."""
        return self._workers.get(step["id"], "")

    def failure(self, step: _Json) -> str:
        """How the last attempt that failed did; nothing where none has."""
        return self._failures.get(step["id"], "")


def step_cells(step: _Json, history: StepHistory, now: str, mark: Text | None = None) -> list[Cell]:
    """One step as a row; `mark` takes the place of its status's sign."""
    status = step["status"]
    words = status + (" (held)" if step.get("held") else "") + (" (caught)" if step.get("caught") else "")
    return [
        mark or sign(status),
        step_name(step["id"], step["index"]),
        as_text(words, STATUS_STYLES.get(status, "")),
        str(step["attempt"]) if step["attempt"] else "",
        duration_text(history.elapsed_seconds(step, now)),
        as_text(cut(_note(step, history, now), NOTE_LENGTH), "dim"),
    ]


def sign(status: str) -> Text:
    """A status as one sign in its colour."""
    pretty, plain = _SIGNS.get(status, ("·", "."))
    return as_text(pretty if console().encoding.startswith("utf") else plain, STATUS_STYLES.get(status, "dim"))


def items_text(counts: Mapping[str, int]) -> str:
    """How far the items of a step are: `7 of 12 items, 2 running, 3 queued`."""
    done = counts.get("succeeded", 0)
    others = [f"{counts[status]} {shown(status)}" for status in sorted(counts, key=_place) if status != "succeeded"]
    return ", ".join([f"{done} of {sum(counts.values())} items", *others])


def _place(status: str) -> int:
    return _ITEM_ORDER.index(status) if status in _ITEM_ORDER else len(_ITEM_ORDER)


def _note(step: _Json, history: StepHistory, now: str) -> str:
    """How far its items are, and what a person wants to know next."""
    counts = items_text(step["items"]) if step.get("items") else ""
    return "; ".join(filter(None, (counts, _what_next(step, history, now))))


def _what_next(step: _Json, history: StepHistory, now: str) -> str:
    """Why it stands, what went wrong, or who has it."""
    if step["blocked"]:
        return blocked_text(step["blocked"])
    failure = failure_text(step["error"]) or history.failure(step)
    match step["status"]:
        case "running" | "leased" | "succeeded":
            worker = history.worker(step)
            words = [f"on {shown(worker)}"] * bool(worker) + [f"after {failure}"] * bool(failure)
            return ", ".join(words)
        case "waiting" if step.get("child"):
            return f"for its child {shown(step['child'])}"
        case "retry_wait" if step["next_attempt_at"]:
            again = f"again in {duration_text(seconds_between(now, step['next_attempt_at']))}"
            return f"{again} after {failure}" if failure else again
        case _:
            return failure
