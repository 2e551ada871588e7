"""Says in one sentence what an execution is doing, or what it waits for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

Json: TypeAlias = Mapping[str, Any]
Tone: TypeAlias = Literal["calm", "busy", "warn", "bad", "good"]

NAMED_MAX: Final = 3
"""Steps that are named where several do the same; the others are counted."""
TOLD_MAX: Final = 3
"""Things that are told of an execution that does several."""
MESSAGE_LENGTH: Final = 300


class Moment(Struct, frozen=True):
    """A time of the wire within a sentence: shown in the viewer's zone."""

    at: str


class Link(Struct, frozen=True):
    """An execution's id within a sentence."""

    execution: str


class Mark(Struct, frozen=True):
    """A name within a sentence: a step's, a signal's, a worker's."""

    text: str


Part: TypeAlias = str | Moment | Link | Mark


class Sentence(Struct, frozen=True):
    """What is said, and how it is to be felt."""

    parts: tuple[Part, ...]
    tone: Tone

    @property
    def text(self) -> str:
        """The sentence as plain text."""
        return "".join(_plain(part) for part in self.parts)


class Armed(Struct, frozen=True):
    """What the journal tells of a step that waits: the signal, the child, when it ends; each where there is one."""

    event: str | None = None
    until: str | None = None
    timeout_at: str | None = None


NOTHING: Final = Armed()


def sentence_of(view: Json, armed: Mapping[tuple[str, int | None], Armed], start_at: str | None) -> Sentence:
    """The sentence for an execution's view. ``armed``: what its waiting steps wait for, by step and index."""
    match view["status"]:
        case "scheduled":
            begins: tuple[Part, ...] = ("It begins later.",)
            return Sentence(("It begins at ", Moment(start_at), ".") if start_at else begins, "calm")
        case "paused":
            return _paused(view)
        case "reconciliation_required":
            return Sentence((*_needs_operator(view), "."), "bad")
        case "completed":
            return Sentence(("It has completed.",), "good")
        case "failed":
            return Sentence(("It has failed", *_error(view["error"]), "."), "bad")
        case "cancelled":
            return Sentence(("It was cancelled", *_error(view["error"]), "."), "warn")
        case "cancelling" | "failing":
            return _ending(view)
        case _:
            return _going(view, armed)


def armed_of(events: Iterable[Json]) -> dict[tuple[str, int | None], Armed]:
    """What steps wait for, as the last ``wait.armed`` of each tells."""
    return {
        (event["step"], event["index"]): Armed(
            event=event["data"].get("event"),
            until=event["data"].get("until"),
            timeout_at=event["data"].get("timeout_at"),
        )
        for event in events
        if event["type"] == "wait.armed"
    }


def _paused(view: Json) -> Sentence:
    paused = view.get("paused") or {}
    if paused.get("reason") == "budget_exceeded":
        return Sentence(("It is paused: its budget is used up. Resume it with a greater one to go on.",), "warn")
    return Sentence(("It is paused: nothing is handed out until somebody resumes it.",), "warn")


def _needs_operator(view: Json) -> Iterator[Part]:
    yield "It needs an operator: "
    uncertain = [step for step in view["steps"] if step["status"] == "uncertain"]
    if uncertain:
        yield "nobody can know whether the write of "
        yield from _names(uncertain)
        yield " happened"
    elif view["standing_writes"]:
        yield "the write of "
        yield from _named([one["step"] for one in view["standing_writes"]])
        yield " stands, and it did not end well"
        yield from _error(view["error"])
    else:
        yield "it can't end by itself"
        yield from _error(view["error"])


def _ending(view: Json) -> Sentence:
    what = "It is being cancelled" if view["status"] == "cancelling" else "It is failing"
    at_work = _with(view, "running", "leased")
    head: list[Part] = [what, *(_error(view["error"]) if view["status"] == "failing" else ())]
    if view["direction"] == "compensate":
        head += [", and undoes what it has done"]
    if at_work:
        head += [": it waits for ", *_names(at_work), *_worker(at_work)]
    elif waiting := _with(view, "waiting"):
        head += [": it waits for the end of ", *_names(waiting)]
    return Sentence((*head, "."), "warn")


def _going(view: Json, armed: Mapping[tuple[str, int | None], Armed]) -> Sentence:
    told = list(_tellings(view, armed))
    if not told:
        return Sentence(("It waits for its next step.",), "calm")
    parts = list(told[0].parts)
    for one in told[1:TOLD_MAX]:
        parts += ["; ", *one.parts]
    if len(told) > TOLD_MAX:
        parts.append(f"; and {len(told) - TOLD_MAX} more")
    return Sentence((_capital(parts[0]), *parts[1:], "."), told[0].tone)


def _tellings(view: Json, armed: Mapping[tuple[str, int | None], Armed]) -> Iterator[Sentence]:
    """What the steps do, what keeps it from going on first."""
    blocked = [step for step in view["steps"] if step["blocked"]]
    for step in blocked[:NAMED_MAX]:
        yield Sentence(tuple(_blocked(step)), "bad")
    if at_work := _with(view, "running", "leased"):
        yield Sentence(("runs ", *_names(at_work), *_worker(at_work)), "busy")
    if queued := [step for step in _with(view, "queued") if not step["blocked"]]:
        yield Sentence(("waits for a worker to take ", *_names(queued)), "busy")
    for step in _with(view, "retry_wait"):
        yield Sentence(tuple(_retry(step)), "warn")
    for step in _with(view, "waiting"):
        if not step["blocked"]:
            yield Sentence(tuple(_waiting(step, armed.get((step["id"], step["index"]), NOTHING))), "calm")


def _blocked(step: Json) -> Iterator[Part]:
    blocked = step["blocked"]
    if blocked["code"] == "no_worker":
        yield "no live worker serves "
        yield Mark(_name(step))
        if blocked.get("since"):
            yield ", since "
            yield Moment(blocked["since"])
    elif blocked.get("execution"):
        yield "the child of "
        yield Mark(_name(step))
        yield " needs an operator: "
        yield Link(blocked["execution"])
    else:
        yield Mark(_name(step))
        yield f" stands: {blocked.get('detail') or blocked['code']}"


def _retry(step: Json) -> Iterator[Part]:
    yield "tries "
    yield Mark(_name(step))
    yield " again"
    if step["next_attempt_at"]:
        yield " at "
        yield Moment(step["next_attempt_at"])
    yield from _error(step["error"], " after ")


def _waiting(step: Json, armed: Armed) -> Iterator[Part]:
    if step.get("child"):
        yield "waits for the child of "
        yield Mark(_name(step))
        yield ", "
        yield Link(step["child"])
    elif armed.event:
        yield "waits for the signal "
        yield Mark(armed.event)
    elif armed.until:
        yield "sleeps until "
        yield Moment(armed.until)
    else:
        yield "waits in "
        yield Mark(_name(step))
    if armed.timeout_at:
        yield ", until "
        yield Moment(armed.timeout_at)


def _with(view: Json, *statuses: str) -> list[Json]:
    return [step for step in view["steps"] if step["status"] in statuses and not step.get("held")]


def _worker(steps: Sequence[Json]) -> Iterator[Part]:
    """Of one step alone: which attempt it is, and who has it."""
    attempts = steps[0].get("attempts") if len(steps) == 1 else None
    if attempts:
        last = attempts[-1]
        yield f" (attempt {last['attempt']} on "
        yield Mark(str(last["worker"]))
        yield ")"


def _names(steps: Sequence[Json]) -> Iterator[Part]:
    return _named([_name(step) for step in steps])


def _named(names: Sequence[str]) -> Iterator[Part]:
    distinct = list(dict.fromkeys(names))
    for number, name in enumerate(distinct[:NAMED_MAX]):
        if number:
            yield " and " if number == len(distinct) - 1 else ", "
        yield Mark(name)
    if len(distinct) > NAMED_MAX:
        yield f" and {len(distinct) - NAMED_MAX} more"


def _error(error: Json | None, before: str = ": ") -> tuple[Part, ...]:
    if not error:
        return ()
    message = error.get("message") or ""
    cut = message if len(message) <= MESSAGE_LENGTH else message[: MESSAGE_LENGTH - 1] + "…"
    return (before, Mark(error["class"]), f" ({cut})" if cut else "")


def _name(step: Json) -> str:
    name: str = step["id"]
    return name if step["index"] is None else f"{name}[{step['index']}]"


def _capital(part: Part) -> Part:
    return part[:1].upper() + part[1:] if isinstance(part, str) else part


def _plain(part: Part) -> str:
    match part:
        case str():
            return part
        case Moment(at):
            return at
        case Link(execution):
            return execution
        case Mark(text):
            return text
