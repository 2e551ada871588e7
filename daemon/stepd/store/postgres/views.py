"""Reads of one execution: its standing, its view, its journal, its spans."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stepd.engine.model import Attempt, Event, Execution, Step
from stepd.store.base import ExecutionRows, ItemsPage, Scope
from stepd.store.postgres import signals
from stepd.store.postgres.connections import Session
from stepd.store.postgres.tables import ATTEMPTS, EVENTS, EXECUTIONS, STEPS
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


async def spans(session: Session, execution_id: str) -> list[tuple[Attempt, bytes]]:
    """Every span with its attempt; attempts without one come with ``b''``."""
    return [(ATTEMPTS.read(values), body or b"") for body, *values in await session.fetch(ALL_SPANS, execution_id)]
