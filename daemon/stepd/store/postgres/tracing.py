"""Finds what bears a span id or is in a trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stepd.engine.model import Attempt, Execution
from stepd.ids import attempts_near
from stepd.store.postgres.connections import Session
from stepd.store.postgres.tables import ATTEMPTS, EXECUTIONS
from stepd.store.reads import BEHIND, TRACE_LOOK, Scope, SpanLine, Traced, own_execution
from stepd.store.scope import sees

ATTEMPTS_OF_SPANS: Final = (
    f"select {ATTEMPTS.of('a')} from unnest($1::text[], $2::text[], $3::text[]) as wanted (low, high, span) "
    "cross join lateral (select * from attempts where id > wanted.low and id < wanted.high "
    "and span_id = wanted.span) as a"
)
SOME_ATTEMPTS: Final = f"{ATTEMPTS.select} where id = any($1::text[])"
KEPT: Final = (
    "select execution_id, attempt_id, span_id from spans where span_id = any($1::text[]) "
    "order by execution_id, attempt_id, span_id"
)
LOOSE: Final = (
    "select attempt_id, span_id, body from spans where execution_id = $1 and attempt_id = any($2::text[]) "
    "order by attempt_id, span_id"
)
LOOSE_COUNT: Final = (
    "select count(*) from (select 1 from spans where execution_id = $1 and attempt_id >= $2 and attempt_id < $3 "
    "limit $4) as traced"
)
STARTED_IN_TRACE: Final = (
    f"select * from ({EXECUTIONS.select} where traceparent is not null and substr(traceparent, 4, 32) = $1 "
    f"limit {TRACE_LOOK}) as traced where parent_id is null limit 2"
)
SOME_EXECUTIONS: Final = f"{EXECUTIONS.select} where id = any($1::text[])"


async def traced(session: Session, trace_ids: Sequence[str], span_ids: Sequence[str], scope: Scope, now: int) -> Traced:
    """What is known of these traces and spans. ``now`` in ms."""
    attempts = await _attempts_of(session, span_ids, now)
    kept = [(execution, attempt, span) for execution, attempt, span in await session.fetch(KEPT, list(span_ids))]
    others = [attempt_id for _, attempt_id, _ in kept if attempt_id not in attempts]
    for values in await session.fetch(SOME_ATTEMPTS, others) if others else []:
        attempt = ATTEMPTS.read(values)
        attempts[attempt.id] = attempt
    own = await _executions(session, [own_execution(trace_id) for trace_id in trace_ids])
    of_trace = {trace_id: await _in_trace(session, trace_id, own) for trace_id in trace_ids}
    executions = {execution.id: execution for found in of_trace.values() for execution in found}
    wanted = {attempt.execution_id for attempt in attempts.values()} | {execution_id for execution_id, _, _ in kept}
    executions |= await _executions(session, sorted(wanted - executions.keys()))
    seen = {id_: execution for id_, execution in executions.items() if sees(scope, execution)}
    ids = {trace_id: [each.id for each in found if each.id in seen] for trace_id, found in of_trace.items()}
    return Traced(attempts, kept, seen, ids)


async def loose_spans(session: Session, execution_id: str, keys: Sequence[str]) -> list[SpanLine]:
    """What is kept under these keys."""
    found = await session.fetch(LOOSE, execution_id, list(keys))
    return [SpanLine(key, span_id, None, body) for key, span_id, body in found]


async def loose_count(session: Session, execution_id: str, owner: str, limit: int) -> int:
    """How many there are at least."""
    (count,) = await session.fetchrow(LOOSE_COUNT, execution_id, owner, owner + BEHIND, limit)
    return int(count)


async def _attempts_of(session: Session, span_ids: Sequence[str], now: int) -> dict[str, Attempt]:
    if not span_ids:
        return {}
    low, high = zip(*(attempts_near(span_id, now) for span_id in span_ids), strict=True)
    rows = await session.fetch(ATTEMPTS_OF_SPANS, list(low), list(high), list(span_ids))
    return {attempt.id: attempt for attempt in map(ATTEMPTS.read, rows)}


async def _in_trace(session: Session, trace_id: str, own: dict[str, Execution]) -> list[Execution]:
    execution = own.get(own_execution(trace_id))
    if execution is not None and execution.traceparent is None:
        return [execution]
    return [EXECUTIONS.read(values) for values in await session.fetch(STARTED_IN_TRACE, trace_id)]


async def _executions(session: Session, ids: Sequence[str]) -> dict[str, Execution]:
    if not ids:
        return {}
    return {execution.id: execution for execution in map(EXECUTIONS.read, await session.fetch(SOME_EXECUTIONS, ids))}
