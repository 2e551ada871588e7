"""Reads of one execution: its standing, its view, its journal, its spans."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stepd.engine.model import Attempt, Event, Execution, Step
from stepd.store.base import ExecutionRows, ItemsPage, Scope
from stepd.store.postgres import signals
from stepd.store.postgres.connections import Session
from stepd.store.postgres.tables import ATTEMPTS, EVENTS, EXECUTIONS, STEPS
from stepd.store.reads import SpanKey, SpanLine, span_lines
from stepd.store.scope import sees
from stepd.store.shown import names_shown

EXECUTION: Final = f"{EXECUTIONS.select} where id = $1"
OWN_STEPS: Final = f"{STEPS.select} where execution_id = $1 and idx = -1 order by ordinal"
OWN_ATTEMPTS: Final = f"{ATTEMPTS.select} where execution_id = $1 and idx = -1 order by id"
ITEMS: Final = f"{STEPS.select} where execution_id = $1 and ordinal = $2 and idx > $3 order by idx limit $4"
ATTEMPTS_OF_ITEMS: Final = (
    f"{ATTEMPTS.select} where execution_id = $1 and ordinal = $2 and idx >= 0 and idx between $3 and $4 order by id"
)
STANDING_ITEMS: Final = (
    "select ordinal, idx from steps where execution_id = $1 and standing_seq is not null and idx >= 0 "
    "order by ordinal, idx"
)
STANDING_PAYLOADS: Final = (
    "select name, body from payloads where execution_id = $1 and name in ('input', 'state', 'output', 'outcome')"
)
SOME_PAYLOADS: Final = "select name, body from payloads where execution_id = $1 and name = any($2::text[])"
SOME_EVENTS: Final = f"{EVENTS.select} where execution_id = $1 and seq > $2 order by seq limit $3"
ATTEMPT: Final = f"{ATTEMPTS.select} where id = $1"
ATTEMPTS_AFTER: Final = f"{ATTEMPTS.select} where execution_id = $1 and id > $2 order by id limit $3"
SPANS_AFTER: Final = (
    "select attempt_id, span_id, body from spans where execution_id = $1 and (attempt_id, span_id) > ($2, $3) "
    "order by attempt_id, span_id limit $4"
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
    steps = [STEPS.read(values) for values in await session.fetch(OWN_STEPS, execution_id)]
    found = await _attempts(session, OWN_ATTEMPTS, execution_id) if attempts else []
    kept: dict[str, bytes] = dict(await session.fetch(STANDING_PAYLOADS, execution_id))
    if payloads:
        kept |= await _payloads(session, execution_id, steps, found)
    standing_items = [(ordinal, index) for ordinal, index in await session.fetch(STANDING_ITEMS, execution_id)]
    return ExecutionRows(execution, steps, found, kept, await signals.not_taken(session, execution), standing_items)


async def items(
    session: Session, execution_id: str, scope: Scope, page: ItemsPage, attempts: bool, payloads: bool
) -> ExecutionRows | None:
    """One page of a step's items; None where there is no such execution in scope. To be read inside a snapshot."""
    execution = await standing(session, execution_id, scope)
    if execution is None:
        return None
    key = (execution_id, page.ordinal)
    steps = [STEPS.read(values) for values in await session.fetch(ITEMS, *key, page.after, page.limit)]
    found: list[Attempt] = []
    if attempts and steps:
        found = await _attempts(session, ATTEMPTS_OF_ITEMS, *key, steps[0].index, steps[-1].index)
    kept = await _payloads(session, execution_id, steps, found) if payloads else {}
    return ExecutionRows(execution, steps, found, kept)


async def _attempts(session: Session, statement: str, *parameters: object) -> list[Attempt]:
    return [ATTEMPTS.read(values) for values in await session.fetch(statement, *parameters)]


async def _payloads(
    session: Session, execution_id: str, steps: Iterable[Step], attempts: Iterable[Attempt]
) -> dict[str, bytes]:
    return dict(await session.fetch(SOME_PAYLOADS, execution_id, names_shown(steps, attempts)))


async def events(session: Session, execution_id: str, after: int, limit: int) -> list[Event]:
    """The journal behind ``after``."""
    return [EVENTS.read(values) for values in await session.fetch(SOME_EVENTS, execution_id, after, limit)]


async def spans(session: Session, execution_id: str, after: SpanKey, limit: int) -> list[SpanLine]:
    """A page of the trace."""
    attempts = await _attempts(session, ATTEMPTS_AFTER, execution_id, after[0], limit)
    kept = [tuple(values) for values in await session.fetch(SPANS_AFTER, execution_id, *after, limit)]
    known = await _attempts(session, ATTEMPT, after[0]) if after[0] else []
    return span_lines(attempts, known, kept, limit)
