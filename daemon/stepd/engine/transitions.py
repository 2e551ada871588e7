"""The life of an attempt as a table: what may happen to it in each status, and what it is afterwards."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

What: TypeAlias = Literal[
    "started",
    "completed",
    "failed",
    "given_back",
    "stopped",
    "lapsed",
    "taken_back",
    "undelivered",
    "timed_out",
    "execution_ending",
    "forced",
    "restarted",
]


class Transition(NamedTuple):
    """One line of the table. ``before`` is None where the attempt begins."""

    before: str | None
    what: str
    after: str
    note: str


TRANSITIONS = (
    Transition(None, "claimed", "running", "the step is handed to a claim"),
    Transition(None, "claimed, start required", "leased", "nothing may happen outside before `started` got 200"),
    Transition("leased", "started", "running", "a heartbeat said `started`"),
    Transition("leased", "completed", "succeeded", "the fact counts"),
    Transition("leased", "failed", "failed", "nothing had begun"),
    Transition("leased", "given_back", "requeued", "`unservable` or `interrupted`, unspent"),
    Transition("leased", "taken_back", "requeued", "it lapsed before it had begun, unspent"),
    Transition("leased", "undelivered", "requeued", "its answer reached nobody, unspent"),
    Transition("leased", "timed_out", "failed", "class `timeout`, effect none"),
    Transition("leased", "execution_ending", "cancelled", "held as a queued step"),
    Transition("leased", "restarted", "requeued", "the daemon started alone, unspent"),
    Transition("running", "completed", "succeeded", ""),
    Transition("running", "failed", "failed", ""),
    Transition("running", "given_back", "requeued", "`unservable` or `interrupted`, unspent"),
    Transition("running", "stopped", "cancelled", "it was asked to stop"),
    Transition("running", "lapsed", "orphaned", "no heartbeat in time; still this attempt's"),
    Transition("running", "undelivered", "requeued", "its answer reached nobody, unspent"),
    Transition("running", "timed_out", "failed", "class `timeout`, effect unknown"),
    Transition("running", "execution_ending", "cancelled", "a read, fenced at once"),
    Transition("running", "forced", "lost", "a forced cancel, or `fail` at a start"),
    Transition("running", "taken_back", "lost", "`retry` at a start"),
    Transition("orphaned", "completed", "succeeded", "late"),
    Transition("orphaned", "failed", "failed", "late"),
    Transition("orphaned", "given_back", "requeued", "late"),
    Transition("orphaned", "stopped", "cancelled", "late"),
    Transition("orphaned", "taken_back", "lost", "effect unknown for a write"),
    Transition("orphaned", "timed_out", "failed", "class `timeout`, effect unknown"),
    Transition("orphaned", "execution_ending", "cancelled", "a read, fenced at once"),
    Transition("orphaned", "forced", "lost", "a forced cancel, or `fail` at a start"),
)

_AFTER = {(line.before, line.what): line.after for line in TRANSITIONS}


def after(status: str, what: What) -> str:
    """The attempt's status once ``what`` has happened. Raises KeyError for what can't happen in ``status``."""
    return _AFTER[(status, what)]


def mermaid() -> str:
    """The table as a state diagram, for ARCHITECTURE.md."""
    lines = ["stateDiagram-v2"]
    lines += [f"    {line.before or '[*]'} --> {line.after}: {line.what}" for line in TRANSITIONS]
    ends = sorted({line.after for line in TRANSITIONS} - {line.before for line in TRANSITIONS if line.before})
    lines += [f"    {status} --> [*]" for status in ends]
    return "\n".join(lines) + "\n"
