"""Gathers what the page of one execution shows, from what the service answers to this caller."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from stepd.engine.definition import Compiled
from stepd.engine.model import ENDED, ENDING, GOING, Event, Execution
from stepd.service import reads, tracelist
from stepd.service.answers import no_execution
from stepd.service.base import Answer, Caller, Daemon
from stepd.ui.answers import content
from stepd.ui.graph import Drawing, draw
from stepd.ui.payloads import Payload, payload_of
from stepd.ui.sentence import Sentence, armed_of, sentence_of
from stepd.ui.timeline import Timeline, lay_out
from stepd.wording.journal import Told, tell
from stepd_protocol.problems import Problem
from stepd_protocol.times import format_time

EVENTS_MAX: Final = 3_000
"""Events that the timeline is made of: the first ones, and of a longer journal as many of the last."""
JOURNAL_LINES: Final = 100
"""Lines of the journal on the page, the newest first."""
PAYLOADS: Final = ("input", "state", "outcome", "output")
PAUSABLE: Final = GOING | {"scheduled"}


class Line(Struct, frozen=True):
    """One line of the journal."""

    seq: int
    at: str
    told: Told
    type: str
    attempt: int | None
    worker: str | None
    data: str


class Box(Struct, frozen=True):
    """A step in the drawing: its place and how it stands."""

    step: Mapping[str, Any]
    kind: str
    counts: Mapping[str, int]
    """Its items by their status; empty where it has none."""
    x: int
    y: int


class ExecutionPage(Struct, frozen=True):
    """All that is shown of one execution. ``view`` is the API's."""

    view: Mapping[str, Any]
    sentence: Sentence
    drawing: Drawing
    boxes: Sequence[Box]
    timeline: Timeline | None
    """None for a key that may not read."""
    journal: Sequence[Line]
    older: int | None
    """The event before which the journal goes on; None where this is all."""
    payloads: Sequence[Payload]
    actions: Sequence[str]
    """What this key may do with the execution as it stands."""
    spends: bool
    """Whether it has used any tokens, or has a budget."""

    @property
    def is_ended(self) -> bool:
        """Whether nothing of it changes any more."""
        return self.view["status"] in ENDED


class Seen(Struct, frozen=True):
    """An execution as this caller sees it: the API's answer, and what stands behind it."""

    answer: Answer
    standing: Execution
    definition: Compiled
    actions: Sequence[str]
    """What this key may do with it as it stands."""
    waits: Sequence[str]
    """The names of signals that its waits take."""


async def see_one(daemon: Daemon, caller: Caller, execution_id: str, include: str = "") -> Seen | Problem:
    """The execution, or the problem that the API would answer. Raises StoreUnavailable."""
    answer = await reads.view(daemon, caller, execution_id, [("include", include)] if include else [])
    standing = await daemon.store.standing(execution_id, caller.sees())
    if isinstance(answer, Problem):
        return answer
    definition = None if standing is None else await daemon.store.definition(standing.workflow, standing.version)
    if standing is None or definition is None:
        return no_execution(execution_id)
    waits = sorted({step.wait.event for step in definition.steps if step.wait is not None})
    return Seen(answer, standing, definition, _actions(caller, standing, definition), waits)


async def load(daemon: Daemon, caller: Caller, execution_id: str) -> ExecutionPage | Problem:
    """The page, or the problem that the API would answer. Raises StoreUnavailable."""
    may_read = caller.may("read")
    seen = await see_one(daemon, caller, execution_id, "attempts" if may_read else "")
    if isinstance(seen, Problem):
        return seen
    answer, standing, definition = seen.answer, seen.standing, seen.definition
    view = content(answer)
    events = await _events(daemon, standing) if may_read else []
    spans = content(await tracelist.spans(daemon, caller, execution_id, []))["items"] if may_read else []
    now = await daemon.store.now()
    drawing = draw(definition.steps)
    journal = await last_lines(daemon, execution_id, standing.seq) if may_read else []
    start_at = None if standing.start_at is None else format_time(standing.start_at)
    # Long journals take their time: others are answered meanwhile.
    steps = [step.id for step in definition.steps]
    timeline = await asyncio.to_thread(lay_out, steps, events, spans, now) if may_read else None
    return ExecutionPage(
        view=view,
        sentence=sentence_of(view, armed_of(events), start_at),
        drawing=drawing,
        boxes=_boxes(drawing, definition, view),
        timeline=timeline,
        journal=journal,
        older=older_than(journal),
        payloads=_payloads(answer),
        actions=seen.actions,
        spends=_spends(view),
    )


async def last_lines(daemon: Daemon, execution_id: str, before: int) -> list[Line]:
    """The journal up to an event, newest first. Raises StoreUnavailable."""
    rows = await daemon.store.events(execution_id, max(before - JOURNAL_LINES, 0), min(JOURNAL_LINES, before))
    return [_line(event) for event in reversed(_decoded(rows))]


def older_than(lines: Sequence[Line]) -> int | None:
    """The event before which the journal goes on behind these lines; None where they reach its beginning."""
    return lines[-1].seq if lines and lines[-1].seq > 1 else None


def _line(event: Mapping[str, Any]) -> Line:
    data = payload_of("data", msgspec.json.encode(event["data"]))
    return Line(
        seq=event["seq"],
        at=event["at"],
        told=tell(event),
        type=event["type"],
        attempt=event["attempt"],
        worker=event["worker"],
        data="" if data is None else data.text,
    )


async def _events(daemon: Daemon, standing: Execution) -> list[Mapping[str, Any]]:
    """The journal, or where it is long its first and its last events."""
    rows = await daemon.store.events(standing.id, 0, EVENTS_MAX)
    if standing.seq > EVENTS_MAX:
        rows += await daemon.store.events(standing.id, max(EVENTS_MAX, standing.seq - EVENTS_MAX), EVENTS_MAX)
    return _decoded(rows)


def _decoded(rows: Sequence[Event]) -> list[Mapping[str, Any]]:
    """Events as the API shows them, with their time in milliseconds beside it."""
    found = msgspec.json.decode(msgspec.json.encode([reads.event_view(row) for row in rows]))
    return [event | {"at_ms": row.at} for event, row in zip(found, rows, strict=True)]


def _boxes(drawing: Drawing, definition: Compiled, view: Mapping[str, Any]) -> list[Box]:
    boxes = []
    for node in drawing.nodes:
        step = view["steps"][node.ordinal]
        boxes.append(Box(step, definition.steps[node.ordinal].kind, step.get("items") or {}, node.x, node.y))
    return boxes


def _payloads(answer: Answer) -> list[Payload]:
    """The execution's own payloads, digit for digit."""
    assert not isinstance(answer, Problem)
    raws = msgspec.json.decode(answer.body, type=dict[str, Raw])
    found = [payload_of(name, bytes(raws[name])) for name in PAYLOADS]
    return [payload for payload in found if payload is not None]


def _spends(view: Mapping[str, Any]) -> bool:
    return any(count for name, count in view["usage"].items() if name.endswith("_tokens")) or bool(view.get("budget"))


def _actions(caller: Caller, standing: Execution, definition: Compiled) -> list[str]:
    status, actions = standing.status, []
    if status in ENDED:
        return []
    if caller.may("execute"):
        if any(step.wait is not None for step in definition.steps) and status not in ENDING:
            actions.append("signal")
        actions.append("cancel")
    if caller.may("operate"):
        if status in PAUSABLE:
            actions.append("pause")
        if status == "paused":
            actions.append("resume")
        if status == "reconciliation_required":
            actions.append("resolve")
    return actions
