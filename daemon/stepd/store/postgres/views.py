"""Reads of one execution: its standing, its view, its journal, its spans."""

from __future__ import annotations

from typing import Final

from stepd.engine.model import Attempt, Event, Execution
from stepd.store.base import ExecutionRows, Scope
from stepd.store.postgres import signals
from stepd.store.postgres.connections import Session
from stepd.store.postgres.tables import ATTEMPTS, EVENTS, EXECUTIONS, STEPS
from stepd.store.scope import sees

EXECUTION: Final = f"{EXECUTIONS.select} where id = $1"
ALL_STEPS: Final = f"{STEPS.select} where execution_id = $1 order by ordinal, idx"
ALL_ATTEMPTS: Final = f"{ATTEMPTS.select} where execution_id = $1 order by id"
STANDING_PAYLOADS: Final = (
    "select name, body from payloads where execution_id = $1 and name in ('input', 'state', 'output', 'outcome')"
)
ALL_PAYLOADS: Final = "select name, body from payloads where execution_id = $1"
SOME_EVENTS: Final = f"{EVENTS.select} where execution_id = $1 and seq > $2 order by seq limit $3"
ALL_SPANS: Final = (
    f"select s.body, {ATTEMPTS.of('a')} from attempts a "
    "left join spans s on s.execution_id = a.execution_id and s.attempt_id = a.id "
    "where a.execution_id = $1 order by a.id, s.span_id"
)


async def standing(session: Session, execution_id: str, scope: Scope) -> Execution | None:
    """The execution's row, where it is in scope."""
    values = await session.fetchrow(EXECUTION, execution_id)
    if values is None:
        return None
    found = EXECUTIONS.read(values)
    return found if sees(scope, found) else None


async def view(
    session: Session, execution_id: str, scope: Scope, attempts: bool, payloads: bool
) -> ExecutionRows | None:
    """All that a view is made of; None where there is none in scope. To be read inside a snapshot."""
    execution = await standing(session, execution_id, scope)
    if execution is None:
        return None
    steps = await session.fetch(ALL_STEPS, execution_id)
    attempt_rows = await session.fetch(ALL_ATTEMPTS, execution_id) if attempts else []
    bodies = await session.fetch(ALL_PAYLOADS if payloads else STANDING_PAYLOADS, execution_id)
    return ExecutionRows(
        execution,
        [STEPS.read(values) for values in steps],
        [ATTEMPTS.read(values) for values in attempt_rows],
        dict(bodies),
        await signals.not_taken(session, execution),
    )


async def events(session: Session, execution_id: str, after: int, limit: int) -> list[Event]:
    """The journal behind ``after``."""
    return [EVENTS.read(values) for values in await session.fetch(SOME_EVENTS, execution_id, after, limit)]


async def spans(session: Session, execution_id: str) -> list[tuple[Attempt, bytes]]:
    """Every span with its attempt; attempts without one come with ``b''``."""
    return [(ATTEMPTS.read(values), body or b"") for body, *values in await session.fetch(ALL_SPANS, execution_id)]
