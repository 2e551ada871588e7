"""Reads of one execution: its standing, its view, its journal, its spans."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Final

import msgspec

from stepd.engine.model import Attempt, Event, Execution, Step
from stepd.store.base import ExecutionRows, ItemsPage, Scope
from stepd.store.reads import SpanKey, SpanLine, span_lines
from stepd.store.scope import sees
from stepd.store.shown import names_shown
from stepd.store.signals import has_untaken
from stepd.store.sqlite import loading, signals
from stepd.store.sqlite.rows import ATTEMPTS, EVENTS, STEPS

SMALL_STEPS: Final = 64
"""Step rows up to which a view is read on the loop; more are read on a thread."""
SMALL_EVENTS: Final = 200
"""The same for a page of the journal."""

OWN_ATTEMPTS: Final = f"{ATTEMPTS.select} where execution_id = ? and idx = -1 order by id"
ITEMS: Final = f"{STEPS.select} where execution_id = ? and ordinal = ? and idx > ? order by idx limit ?"
ATTEMPTS_OF_ITEMS: Final = (
    f"{ATTEMPTS.select} where execution_id = ? and ordinal = ? and idx >= 0 and idx between ? and ? order by id"
)
STANDING_ITEMS: Final = (
    "select ordinal, idx from steps where execution_id = ? and standing_seq is not null and idx >= 0 "
    "order by ordinal, idx"
)
STANDING_PAYLOADS: Final = (
    "select name, body from payloads where execution_id = ? and name in ('input', 'state', 'output', 'outcome')"
)
SOME_PAYLOADS: Final = (
    "select name, body from payloads where execution_id = ? and name in (select value from json_each(?))"
)
SOME_EVENTS: Final = f"{EVENTS.select} where execution_id = ? and seq > ? order by seq limit ?"
ATTEMPT: Final = f"{ATTEMPTS.select} where id = ?"
ATTEMPTS_AFTER: Final = f"{ATTEMPTS.select} where execution_id = ? and id > ? order by id limit ?"
SPANS_AFTER: Final = (
    "select attempt_id, span_id, body from spans where execution_id = ? and (attempt_id, span_id) > (?, ?) "
    "order by attempt_id, span_id limit ?"
)


class TooLarge(Exception):
    """There is more to read than shall be read on the loop."""


def standing(connection: sqlite3.Connection, execution_id: str, scope: Scope) -> Execution | None:
    """The execution's row, where it is in scope."""
    found = loading.read_execution(connection, execution_id)
    return found if found is not None and sees(scope, found) else None


def small_view(connection: sqlite3.Connection, execution_id: str, scope: Scope) -> ExecutionRows | None:
    """The view without attempts; None where there is none in scope. Raises TooLarge, for it to be read on a thread."""
    execution = standing(connection, execution_id, scope)
    if execution is None:
        return None
    if has_untaken(execution):
        raise TooLarge
    if len(execution.graph) > SMALL_STEPS:
        raise TooLarge
    steps = loading.read_own_steps(connection, execution)
    if any(row.items is not None for row in steps):
        raise TooLarge
    payloads = dict(connection.execute(STANDING_PAYLOADS, (execution_id,)).fetchall())
    return ExecutionRows(execution, steps, [], payloads)


def view(
    connection: sqlite3.Connection, execution_id: str, scope: Scope, attempts: bool, payloads: bool
) -> ExecutionRows | None:
    """All that a view is made of; None where there is none in scope."""
    execution = standing(connection, execution_id, scope)
    if execution is None:
        return None
    steps = loading.read_own_steps(connection, execution)
    own_attempts = _attempts(connection, OWN_ATTEMPTS, execution_id) if attempts else []
    kept = dict(connection.execute(STANDING_PAYLOADS, (execution_id,)).fetchall())
    if payloads:
        kept |= _payloads(connection, execution_id, steps, own_attempts)
    standing_items = connection.execute(STANDING_ITEMS, (execution_id,)).fetchall()
    return ExecutionRows(execution, steps, own_attempts, kept, signals.not_taken(connection, execution), standing_items)


def items(
    connection: sqlite3.Connection, execution_id: str, scope: Scope, page: ItemsPage, attempts: bool, payloads: bool
) -> ExecutionRows | None:
    """One page of a step's items; None where there is no such execution in scope."""
    execution = standing(connection, execution_id, scope)
    if execution is None:
        return None
    key = (execution_id, page.ordinal)
    steps = [STEPS.read(values) for values in connection.execute(ITEMS, (*key, page.after, page.limit))]
    found: list[Attempt] = []
    if attempts and steps:
        found = _attempts(connection, ATTEMPTS_OF_ITEMS, *key, steps[0].index, steps[-1].index)
    return ExecutionRows(execution, steps, found, _payloads(connection, execution_id, steps, found) if payloads else {})


def _attempts(connection: sqlite3.Connection, statement: str, *parameters: object) -> list[Attempt]:
    """Attempts in the order they were leased."""
    return [ATTEMPTS.read(values) for values in connection.execute(statement, parameters)]


def _payloads(
    connection: sqlite3.Connection, execution_id: str, steps: Iterable[Step], attempts: Iterable[Attempt]
) -> dict[str, bytes]:
    names = msgspec.json.encode(names_shown(steps, attempts)).decode()
    return dict(connection.execute(SOME_PAYLOADS, (execution_id, names)).fetchall())


def events(connection: sqlite3.Connection, execution_id: str, after: int, limit: int) -> list[Event]:
    """The journal behind ``after``."""
    return [EVENTS.read(values) for values in connection.execute(SOME_EVENTS, (execution_id, after, limit))]


def spans(connection: sqlite3.Connection, execution_id: str, after: SpanKey, limit: int) -> list[SpanLine]:
    """A page of the trace."""
    attempts = _attempts(connection, ATTEMPTS_AFTER, execution_id, after[0], limit)
    kept = connection.execute(SPANS_AFTER, (execution_id, *after, limit)).fetchall()
    known = _attempts(connection, ATTEMPT, after[0]) if after[0] else []
    return span_lines(attempts, known, kept, limit)
