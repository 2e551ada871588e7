"""Owns how an event of the journal reads: who it is about, and what happened, in a few words."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from stepd.wording.shown import cut, duration_text, json_for_people, seconds_between, shown
from stepd_protocol.times import format_time

Event: TypeAlias = Mapping[str, Any]

MESSAGE_LENGTH: Final = 300
DATA_LENGTH: Final = 500


class Told(NamedTuple):
    """An event in words, safe to print."""

    subject: str
    """The step, with its index where it has one, or `execution`."""
    text: str
    style: str


def tell(event: Event) -> Told:
    """What an event says; one of a type that this version doesn't know is told by its type and data."""
    kind = event["type"]
    phrase = _PHRASES.get(kind)
    text = phrase(event, event.get("data") or {}) if phrase else _unknown(event)
    return Told(subject_of(event), shown(text), _STYLES.get(kind, ""))


def subject_of(event: Event) -> str:
    """The step that an event is about, or `execution`."""
    step = event.get("step")
    return "execution" if step is None else step_name(step, event.get("index"))


def step_name(step: str, index: int | None) -> str:
    """A step's id, with the place of its item or round where it has one."""
    return shown(step) if index is None else f"{shown(step)}[{index}]"


def failure_text(error: Mapping[str, Any] | None) -> str:
    """A failure as `class: message`, on one line and cut; nothing for none."""
    if not error:
        return ""
    name, message = str(error.get("class", "")), str(error.get("message") or "")
    return shown(cut(f"{name}: {message}" if message else name, MESSAGE_LENGTH))


def data_text(data: Any) -> str:
    """An event's data as one line of JSON, cut; nothing for empty data."""
    return cut(json_for_people(data), DATA_LENGTH) if data else ""


_Data: TypeAlias = Mapping[str, Any]


def _just(text: str) -> Callable[[Event, _Data], str]:
    return lambda event, data: text


def _paused(event: Event, data: _Data) -> str:
    return "paused: its budget is used up" if data.get("reason") == "budget_exceeded" else "paused"


def _attempt(words: str) -> Callable[[Event, _Data], str]:
    return lambda event, data: f"attempt {event.get('attempt')} {words}{_on_worker(event)}"


def _on_worker(event: Event) -> str:
    return f" on {event['worker']}" if event.get("worker") else ""


def _with_why(text: str) -> Callable[[Event, _Data], str]:
    """The text, and behind it the failure, reason or cause that the data names."""

    def phrase(event: Event, data: _Data) -> str:
        error = data.get("error")
        why = failure_text(error if isinstance(error, Mapping) else data if "class" in data else None)
        why = why or str(data.get("reason") or data.get("why") or "")
        return f"{text}: {why}" if why else text

    return phrase


def _attempt_failed(event: Event, data: _Data) -> str:
    return _with_why(f"attempt {event.get('attempt')} failed")(event, data)


def _attempt_leased(event: Event, data: _Data) -> str:
    words = "leased" if data.get("status") == "leased" else "running"
    return _attempt(words)(event, data)


def _retry(event: Event, data: _Data) -> str:
    due = data.get("next_attempt_at")
    # Inside the daemon a time is a number of milliseconds; on the wire it is text.
    due = format_time(due) if isinstance(due, int) and due >= 0 else due
    wait = seconds_between(event.get("at"), due if isinstance(due, str) else None)
    return "to be tried again" + (f" in {duration_text(wait)}" if wait is not None else "")


def _cancel_asked(event: Event, data: _Data) -> str:
    return _with_why("cancel asked for" + (", by force" if data.get("force") else ""))(event, data)


def _reconciliation(event: Event, data: _Data) -> str:
    uncertain, standing = (_steps(data.get(name)) for name in ("uncertain", "standing_writes"))
    parts = [f"uncertain {uncertain}"] * bool(uncertain) + [f"writes that stand {standing}"] * bool(standing)
    return "needs reconciliation" + (f": {'; '.join(parts)}" if parts else "")


def _about(text: str, field: str) -> Callable[[Event, _Data], str]:
    """The text, and behind it what the data says in this field."""
    return lambda event, data: f"{text}: {data[field]}" if data.get(field) else text


def _of_items(text: str) -> Callable[[Event, _Data], str]:
    """The text, and behind it of how many items the event speaks."""
    return lambda event, data: f"{text}, {data['items']} items" if data.get("items") else text


def _armed(event: Event, data: _Data) -> str:
    if data.get("event"):
        return f"waits for a signal: {data['event']}"
    wait = seconds_between(event.get("at"), data.get("until"))
    return "waits" + (f" for {duration_text(wait)}" if wait is not None and wait > 0 else "")


def _decided(event: Event, data: _Data) -> str:
    return f"decided by {', '.join(map(str, data.get('rule_ids') or ())) or 'its default'}"


def _steps(given: Any) -> str:
    """Steps given as ids, or as objects that name the step."""
    names = [
        step_name(str(one["step"]), one.get("index")) if isinstance(one, Mapping) else str(one) for one in given or ()
    ]
    return ", ".join(names)


def _unknown(event: Event) -> str:
    attempt = f", attempt {event['attempt']}" if event.get("attempt") is not None else ""
    data = data_text(event.get("data"))
    return f"{event['type']}{attempt}{_on_worker(event)}" + (f" {data}" if data else "")


_PHRASES: Final[Mapping[str, Callable[[Event, _Data], str]]] = {
    "execution.created": _just("created"),
    "execution.started": _just("started"),
    "execution.waiting": _just("waiting"),
    "execution.paused": _paused,
    "execution.unpaused": _just("goes on"),
    "execution.cancel_requested": _cancel_asked,
    "execution.cancelling": _just("is being cancelled"),
    "execution.failing": _with_why("is failing"),
    "execution.completed": _just("completed"),
    "execution.failed": _with_why("failed"),
    "execution.cancelled": _just("cancelled"),
    "execution.reconciliation_required": _reconciliation,
    "execution.resolved": _just("resolved by an operator"),
    "execution.recovered": _just("found by a daemon that started"),
    "step.queued": _of_items("queued"),
    "step.skipped": _with_why("skipped"),
    "step.succeeded": _just("succeeded"),
    "step.failed": _with_why("failed"),
    "step.caught": _with_why("failed, and caught"),
    "step.retry_scheduled": _retry,
    "step.uncertain": _with_why("uncertain: nobody can know whether the write happened"),
    "step.held": _of_items("held"),
    "step.cancelled": _of_items("cancelled"),
    "step.compensating": _about("is being undone by", "compensation"),
    "signal.received": _about("signal received", "name"),
    "wait.armed": _armed,
    "wait.resumed": _about("resumed by a signal", "event"),
    "wait.timed_out": _just("nothing came in time"),
    "timer.fired": _just("its time has come"),
    "decision.made": _decided,
    "attempt.leased": _attempt_leased,
    "attempt.started": _attempt("started"),
    "attempt.orphaned": _attempt("lapsed: no heartbeat came from its worker"),
    "attempt.late": _attempt("told its outcome late"),
    "attempt.lost": _attempt("lost"),
    "attempt.requeued": _with_why("given back"),
    "attempt.failed": _attempt_failed,
    "attempt.stale_outcome": _attempt("told an outcome that came too late to count"),
}

_STYLES: Final = {
    "execution.completed": "green",
    "execution.failing": "red",
    "execution.failed": "red",
    "execution.cancelled": "yellow",
    "execution.cancelling": "yellow",
    "execution.reconciliation_required": "magenta",
    "step.succeeded": "green",
    "step.failed": "red",
    "step.uncertain": "magenta",
    "step.retry_scheduled": "yellow",
    "attempt.failed": "red",
    "attempt.lost": "red",
    "attempt.orphaned": "yellow",
    "step.queued": "dim",
    "step.held": "dim",
    "step.skipped": "dim",
}
