"""Finds what bears a span id or is in a trace."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from stepd.engine.model import Attempt, Execution
from stepd.ids import attempts_near
from stepd.store.reads import BEHIND, TRACE_LOOK, Scope, SpanLine, Traced, own_execution
from stepd.store.scope import sees
from stepd.store.sqlite.loading import read_execution
from stepd.store.sqlite.rows import ATTEMPTS, EXECUTIONS

ATTEMPT_OF_SPAN: Final = f"{ATTEMPTS.select} where id > ? and id < ? and span_id = ?"
ATTEMPT: Final = f"{ATTEMPTS.select} where id = ?"
KEPT: Final = (
    "select execution_id, attempt_id, span_id from spans where span_id in (select value from json_each(?)) "
    "order by execution_id, attempt_id, span_id"
)
LOOSE: Final = (
    "select attempt_id, span_id, body from spans where execution_id = ? "
    "and attempt_id in (select value from json_each(?)) order by attempt_id, span_id"
)
LOOSE_COUNT: Final = (
    "select count(*) from (select 1 from spans where execution_id = ? and attempt_id >= ? and attempt_id < ? limit ?) "
    "as traced"
)
STARTED_IN_TRACE: Final = (
    f"select * from ({EXECUTIONS.select} where traceparent is not null and substr(traceparent, 4, 32) = ? "
    f"limit {TRACE_LOOK}) as traced where parent_id is null limit 2"
)


def traced(
    connection: sqlite3.Connection, trace_ids: Sequence[str], span_ids: Sequence[str], scope: Scope, now: int
) -> Traced:
    """What is known of these traces and spans. ``now`` in ms."""
    attempts = _attempts_of(connection, span_ids, now)
    kept = connection.execute(KEPT, (msgspec.json.encode(list(span_ids)).decode(),)).fetchall()
    for _, attempt_id, _ in kept:
        if attempt_id not in attempts and (values := connection.execute(ATTEMPT, (attempt_id,)).fetchone()):
            attempts[attempt_id] = ATTEMPTS.read(values)
    of_trace = {trace_id: _in_trace(connection, trace_id, scope) for trace_id in trace_ids}
    executions = {execution.id: execution for found in of_trace.values() for execution in found}
    wanted = {attempt.execution_id for attempt in attempts.values()} | {execution_id for execution_id, _, _ in kept}
    executions |= _executions(connection, wanted - executions.keys(), scope)
    ids = {trace_id: [execution.id for execution in found] for trace_id, found in of_trace.items()}
    return Traced(attempts, kept, executions, ids)


def loose_spans(connection: sqlite3.Connection, execution_id: str, keys: Sequence[str]) -> list[SpanLine]:
    """What is kept under these keys."""
    found = connection.execute(LOOSE, (execution_id, msgspec.json.encode(list(keys)).decode()))
    return [SpanLine(key, span_id, None, body) for key, span_id, body in found]


def loose_count(connection: sqlite3.Connection, execution_id: str, owner: str, limit: int) -> int:
    """How many there are at least."""
    (count,) = connection.execute(LOOSE_COUNT, (execution_id, owner, owner + BEHIND, limit)).fetchone()
    return int(count)


def _attempts_of(connection: sqlite3.Connection, span_ids: Iterable[str], now: int) -> dict[str, Attempt]:
    found = {}
    for span_id in span_ids:
        for values in connection.execute(ATTEMPT_OF_SPAN, (*attempts_near(span_id, now), span_id)):
            attempt = ATTEMPTS.read(values)
            found[attempt.id] = attempt
    return found


def _in_trace(connection: sqlite3.Connection, trace_id: str, scope: Scope) -> list[Execution]:
    own = read_execution(connection, own_execution(trace_id))
    found = [own] if own is not None and own.traceparent is None else []
    if not found:
        found = [EXECUTIONS.read(values) for values in connection.execute(STARTED_IN_TRACE, (trace_id,))]
    return [execution for execution in found if sees(scope, execution)]


def _executions(connection: sqlite3.Connection, ids: Iterable[str], scope: Scope) -> dict[str, Execution]:
    found = (read_execution(connection, execution_id) for execution_id in ids)
    return {execution.id: execution for execution in found if execution is not None and sees(scope, execution)}
