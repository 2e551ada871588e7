"""Owns how executions and steps read in lines and columns: headline, step rows, the rest of a view."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rich.text import Text

from stepd.cli.journal import failure_text, step_name
from stepd.cli.printing import STATUS_STYLES, Cell, as_text, console, line, status_text
from stepd.cli.shown import cut, duration_text, json_for_people, seconds_between, shown, time_text

STEP_HEAD: Final = ("", "step", "status", "attempt", "elapsed", "")
EXECUTION_HEAD: Final = ("id", "workflow", "version", "status", "created", "elapsed", "")
NOTE_LENGTH: Final = 160
PAYLOAD_LENGTH: Final = 2_000

_MARKS: Final = {
    "succeeded": ("✓", "+"),
    "failed": ("✗", "x"),
    "uncertain": ("?", "?"),
    "retry_wait": ("↻", "~"),
    "cancelled": ("⊘", "/"),
    "skipped": ("–", "-"),
    "running": ("▸", ">"),
    "leased": ("▸", ">"),
}
_SETTLED: Final = frozenset({"succeeded", "failed", "skipped", "cancelled", "uncertain"})
_ENDING_ROWS: Final = frozenset({"error", "blocked", "writes that stand", "usage", "output"})
_Json = Mapping[str, Any]


class StepTimes:
    """When each step was first handed out and when something last happened to it, as its events tell."""

    def __init__(self) -> None:
        self._began: dict[str, str] = {}
        self._last: dict[str, str] = {}
        self._workers: dict[str, str] = {}

    def take(self, event: _Json) -> None:
        """Remembers what an event tells."""
        step = event.get("step")
        if step is None:
            return
        if event["type"] == "attempt.leased":
            self._began.setdefault(step, event["at"])
        self._last[step] = event["at"]
        if event.get("worker"):
            self._workers[step] = event["worker"]

    def elapsed_seconds(self, step: _Json, now: str) -> float | None:
        """From the first lease to the end, or to `now`; None for a step that no worker was given."""
        name = step["id"]
        return seconds_between(self._began.get(name), self._last.get(name) if step["status"] in _SETTLED else now)

    def worker(self, step: _Json) -> str:
        """The worker that was last heard of; nothing before the first."""
        return self._workers.get(step["id"], "")


def headline(view: _Json, now: str | None = None) -> Text:
    """`workflow version  status  elapsed  id`: one line for the whole execution."""
    status = status_text(view["status"])
    elapsed = duration_text(seconds_between(view["created_at"], view["ended_at"] or now))
    return line(
        as_text(view["workflow"], "bold"), f" {view['version']}  ", status, f"  {elapsed}  ", as_text(view["id"], "dim")
    )


def execution_cells(item: _Json, now: str) -> list[Cell]:
    """One execution as a row of a list."""
    return [
        item["id"],
        item["workflow"],
        item["version"],
        status_text(item["status"]),
        time_text(item["created_at"]),
        duration_text(seconds_between(item["created_at"], item["ended_at"] or now)),
        as_text(_note(item), "dim"),
    ]


def step_cells(step: _Json, times: StepTimes, now: str, mark: Text | None = None) -> list[Cell]:
    """One step as a row; `mark` takes the place of its status's sign."""
    status = step["status"]
    words = status + (" (held)" if step.get("held") else "") + (" (caught)" if step.get("caught") else "")
    return [
        mark or _sign(status),
        step_name(step["id"], step["index"]),
        as_text(words, STATUS_STYLES.get(status, "")),
        str(step["attempt"]) if step["attempt"] else "",
        duration_text(times.elapsed_seconds(step, now)),
        as_text(_step_note(step, times, now), "dim"),
    ]


def detail_rows(view: _Json) -> Iterator[tuple[str, Cell]]:
    """The parts of a view that say something, each with its name."""
    yield "created", time_text(view["created_at"])
    for name in ("started_at", "ended_at"):
        if view[name]:
            yield name.removesuffix("_at"), time_text(view[name])
    for name in ("correlation", "tenant"):
        if view[name] is not None:
            yield name, view[name]
    if view["labels"]:
        yield "labels", ", ".join(f"{key}={value}" for key, value in view["labels"].items())
    if view["direction"] != "forward":
        yield "direction", view["direction"]
    if view["error"]:
        yield "error", as_text(_error_text(view["error"]), "red")
    if view["blocked"]:
        yield "blocked", as_text(_blocked_text(view["blocked"]), "yellow")
    if view["standing_writes"]:
        yield "writes that stand", ", ".join(step_name(one["step"], one["index"]) for one in view["standing_writes"])
    if usage := _usage_text(view["usage"]):
        yield "usage", usage
    for name in ("input", "state", "outcome", "output"):
        if view[name] not in (None, {}):
            yield name, cut(json_for_people(view[name]), PAYLOAD_LENGTH)


def attempt_lines(view: _Json) -> Iterator[Text]:
    """Each attempt of each step, and the payloads of steps, where the view has them."""
    for step in view["steps"]:
        name = step_name(step["id"], step["index"])
        for attempt in step.get("attempts", ()):
            yield line(f"  {name}  attempt {attempt['attempt']}  ", *_attempt_parts(attempt))
        for payload in ("input", "output"):
            if payload in step:
                yield line(f"  {name}  {payload}  ", cut(json_for_people(step[payload]), PAYLOAD_LENGTH))


def ending_rows(view: _Json) -> list[tuple[str, Cell]]:
    """What is worth saying at the end of an execution."""
    return [row for row in detail_rows(view) if row[0] in _ENDING_ROWS]


def _attempt_parts(attempt: _Json) -> Iterator[Cell]:
    yield status_text(attempt["status"])
    yield f"  on {shown(attempt['worker'])}  {time_text(attempt['leased_at'])}"
    yield f"  {duration_text(seconds_between(attempt['leased_at'], attempt['ended_at']))}"
    if attempt["late"]:
        yield "  late"
    if attempt["effect"] not in (None, "none"):
        yield f"  effect {attempt['effect']}"
    if attempt["error"]:
        yield as_text(f"  {failure_text(attempt['error'])}", "red")
    if attempt["stale_outcome"]:
        yield as_text(f"  told too late: {attempt['stale_outcome']['outcome']}", "magenta")


def _sign(status: str) -> Text:
    pretty, plain = _MARKS.get(status, ("·", "."))
    return as_text(pretty if console().encoding.startswith("utf") else plain, STATUS_STYLES.get(status, "dim"))


def _note(item: _Json) -> str:
    if item["blocked"]:
        return cut(_blocked_text(item["blocked"]), NOTE_LENGTH)
    return cut(failure_text(item["error"]), NOTE_LENGTH)


def _step_note(step: _Json, times: StepTimes, now: str) -> str:
    if step["blocked"]:
        return cut(_blocked_text(step["blocked"]), NOTE_LENGTH)
    if step["status"] == "succeeded":
        return f"on {shown(times.worker(step))}" if times.worker(step) else ""
    failure = failure_text(step["error"])
    if step["status"] == "retry_wait" and step["next_attempt_at"]:
        wait = duration_text(seconds_between(now, step["next_attempt_at"]))
        failure = f"again in {wait}" + (f" after {failure}" if failure else "")
    if not failure and step["status"] in ("running", "leased") and times.worker(step):
        return f"on {shown(times.worker(step))}"
    return cut(failure, NOTE_LENGTH)


def _error_text(error: _Json) -> str:
    step = f" (step {shown(error['step'])})" if error.get("step") else ""
    cause = f"; before that {failure_text(error['cause'])}" if error.get("cause") else ""
    return failure_text(error) + step + cause


def _blocked_text(blocked: _Json) -> str:
    said = [blocked.get("detail"), blocked.get("execution")]
    return shown(": ".join([blocked["code"], *(str(part) for part in said if part)]))


def _usage_text(usage: _Json) -> str:
    """The counts that aren't zero, and the cost; nothing where no tokens were used."""
    counts = [(name.removesuffix("_tokens"), usage.get(name)) for name in usage if name.endswith("_tokens")]
    words = [f"{count} {name.replace('_', ' ')}" for name, count in counts if count]
    if not words:
        return ""
    cost = f", {usage['cost']:g} {usage['currency'] or ''}".rstrip() if usage.get("cost") is not None else ""
    return f"tokens: {', '.join(words)}{cost}"
