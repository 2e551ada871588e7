"""Reads of one execution: its standing, its view, its journal, its spans."""

from __future__ import annotations

import sqlite3
from typing import Final

from stepd.engine.model import Attempt, Event, Execution
from stepd.store.base import ExecutionRows, Scope
from stepd.store.scope import sees
from stepd.store.signals import has_untaken
from stepd.store.sqlite import loading, signals
from stepd.store.sqlite.rows import ATTEMPTS, EVENTS, STEPS

SMALL_STEPS: Final = 64
"""Step rows up to which a view is read on the loop; more are read on a thread."""
SMALL_EVENTS: Final = 200
"""The same for a page of the journal."""

SOME_STEPS: Final = f"{STEPS.select} where execution_id = ? order by ordinal, idx limit ?"
ALL_ATTEMPTS: Final = f"{ATTEMPTS.select} where execution_id = ? order by id"
STANDING_PAYLOADS: Final = (
    "select name, body from payloads where execution_id = ? and name in ('input', 'state', 'output', 'outcome')"
)
ALL_PAYLOADS: Final = "select name, body from payloads where execution_id = ?"
SOME_EVENTS: Final = f"{EVENTS.select} where execution_id = ? and seq > ? order by seq limit ?"
ALL_SPANS: Final = (
    f"select s.body, {ATTEMPTS.of('a')} from attempts a "
    "left join spans s on s.execution_id = a.execution_id and s.attempt_id = a.id "
    "where a.execution_id = ? order by a.id, s.span_id"
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
    rows = connection.execute(SOME_STEPS, (execution_id, SMALL_STEPS + 1)).fetchall()
    if len(rows) > SMALL_STEPS:
        raise TooLarge
    payloads = dict(connection.execute(STANDING_PAYLOADS, (execution_id,)).fetchall())
    return ExecutionRows(execution, [STEPS.read(values) for values in rows], [], payloads)


def view(
    connection: sqlite3.Connection, execution_id: str, scope: Scope, attempts: bool, payloads: bool
) -> ExecutionRows | None:
    """All that a view is made of; None where there is none in scope."""
    execution = standing(connection, execution_id, scope)
    if execution is None:
        return None
    return ExecutionRows(
        execution,
        loading.read_steps(connection, execution_id),
        attempts_of(connection, execution_id) if attempts else [],
        dict(connection.execute(ALL_PAYLOADS if payloads else STANDING_PAYLOADS, (execution_id,)).fetchall()),
        signals.not_taken(connection, execution),
    )


def attempts_of(connection: sqlite3.Connection, execution_id: str) -> list[Attempt]:
    """Every attempt of the execution, in the order they were leased."""
    return [ATTEMPTS.read(values) for values in connection.execute(ALL_ATTEMPTS, (execution_id,))]


def events(connection: sqlite3.Connection, execution_id: str, after: int, limit: int) -> list[Event]:
    """The journal behind ``after``."""
    return [EVENTS.read(values) for values in connection.execute(SOME_EVENTS, (execution_id, after, limit))]


def spans(connection: sqlite3.Connection, execution_id: str) -> list[tuple[Attempt, bytes]]:
    """Every span with its attempt; attempts without one come with ``b''``."""
    return [
        (ATTEMPTS.read(tuple(values)), body or b"") for body, *values in connection.execute(ALL_SPANS, (execution_id,))
    ]
