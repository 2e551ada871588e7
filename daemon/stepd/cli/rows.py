"""Owns how executions read in lines and columns: the headline, a row in a list, the parts of a view."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.text import Text

from stepd.cli.printing import Cell, as_text, line, status_text
from stepd.wording.journal import failure_text, step_name
from stepd.wording.shown import amount_text, cut, duration_text, json_for_people, seconds_between, shown, time_text

EXECUTION_HEAD: Final = ("id", "workflow", "version", "status", "created", "elapsed", "")
NOTE_LENGTH: Final = 160
NAMED_MAX: Final = 5
"""Items of one step that are named each."""
PAYLOAD_LENGTH: Final = 2_000
SHORT_PAYLOAD_LENGTH: Final = 240

_ENDING_ROWS: Final = frozenset({"error", "paused", "blocked", "writes that stand", "usage", "budget", "output"})
_Json = Mapping[str, Any]


def headline(view: _Json, now: str | None = None) -> Text:
    """`workflow version  status  elapsed  id`: one line for the whole execution."""
    status = status_text(view["status"])
    elapsed = duration_text(seconds_between(view["created_at"], view["ended_at"] or now))
    parts: list[Cell] = [as_text(view["workflow"], "bold"), f" {view['version']}  ", status, f"  {elapsed}  "]
    if usage := usage_text(view["usage"], short=True):
        parts.append(f"{usage}  ")
    return line(*parts, as_text(view["id"], "dim"))


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


def detail_rows(view: _Json) -> Iterator[tuple[str, Cell]]:
    """The parts of a view that say something, each with its name."""
    yield "created", time_text(view["created_at"])
    for name in ("started_at", "ended_at"):
        if view[name]:
            yield name.removesuffix("_at"), time_text(view[name])
    if parent := view.get("parent"):
        yield "parent", f"{shown(parent['execution'])}, step {step_name(parent['step'], parent['index'])}"
    for name in ("correlation", "tenant"):
        if view[name] is not None:
            yield name, view[name]
    if view["labels"]:
        yield "labels", ", ".join(f"{key}={value}" for key, value in view["labels"].items())
    if view["direction"] != "forward":
        yield "direction", view["direction"]
    if view["error"]:
        yield "error", as_text(_error_text(view["error"]), "red")
    if paused := view.get("paused"):
        yield "paused", as_text(paused_text(paused), "yellow")
    if view["blocked"]:
        yield "blocked", as_text(blocked_text(view["blocked"]), "yellow")
    if view["standing_writes"] and view["status"] != "completed":
        yield "writes that stand", _writes_text(view["standing_writes"])
    if view.get("signals_not_taken"):
        yield "signals not taken", shown(", ".join(one["name"] for one in view["signals_not_taken"]))
    if usage := usage_text(view["usage"]):
        yield "usage", usage
    if budget := view.get("budget"):
        yield "budget", budget_text(budget, view["usage"]["currency"])
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
    """What is worth saying at the end of an execution, in short."""
    return [
        (name, cut(cell, SHORT_PAYLOAD_LENGTH) if isinstance(cell, str) else cell)
        for name, cell in detail_rows(view)
        if name in _ENDING_ROWS
    ]


def blocked_text(blocked: _Json) -> str:
    """Why an execution or a step stands."""
    said = [blocked.get("detail"), blocked.get("execution")]
    return shown(": ".join([blocked["code"], *(str(part) for part in said if part)]))


def paused_text(paused: _Json) -> str:
    """Why an execution is paused, since when, and what ends that."""
    if paused["reason"] == "budget_exceeded":
        why = "its budget is used up; stepd resume with a greater --budget-cost or --budget-tokens goes on"
    else:
        why = "somebody asked for it; stepd resume goes on"
    return why if paused["since"] is None else f"since {time_text(paused['since'])}: {why}"


def budget_text(budget: _Json, currency: str | None) -> str:
    """What an execution may use with its children."""
    parts = [] if budget["cost"] is None else [amount_text(budget["cost"], currency)]
    if budget["tokens"] is not None:
        parts.append(f"{budget['tokens']:,} tokens")
    return " and ".join(parts)


def usage_text(usage: _Json, *, short: bool = False) -> str:
    """The tokens that were used, by kind unless it is to be short, and what they cost; nothing where there are none."""
    counts = [(name.removesuffix("_tokens"), usage[name]) for name in usage if name.endswith("_tokens")]
    total = sum(count for name, count in counts if name != "unpriced")
    if not total:
        return ""
    words = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts if count)
    tokens = f"{total:,} tokens" if short else f"tokens: {words}"
    if usage.get("cost") is None:
        return tokens
    return f"{tokens}, {amount_text(usage['cost'], usage['currency'])}"


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


def _note(item: _Json) -> str:
    if (item.get("paused") or {}).get("reason") == "budget_exceeded":
        return "its budget is used up"
    if item["blocked"]:
        return cut(blocked_text(item["blocked"]), NOTE_LENGTH)
    return cut(failure_text(item["error"]), NOTE_LENGTH)


def _error_text(error: _Json) -> str:
    step = f" (step {shown(error['step'])})" if error.get("step") else ""
    cause = f"; before that {failure_text(error['cause'])}" if error.get("cause") else ""
    return failure_text(error) + step + cause


def _writes_text(writes: Sequence[_Json]) -> str:
    """Steps whose write stands, and items; many items of a step are told by their number."""
    by_step: dict[str, list[Any]] = {}
    for one in writes:
        by_step.setdefault(one["step"], []).append(one["index"])
    parts = []
    for step, indexes in by_step.items():
        if len(indexes) > NAMED_MAX:
            parts.append(f"{shown(step)} ({len(indexes)} items)")
        else:
            parts += [step_name(step, index) for index in indexes]
    return ", ".join(parts)
