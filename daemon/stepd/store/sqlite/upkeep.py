"""What the daemon's loops ask: the pulse with its grace, what is due, what is open."""

from __future__ import annotations

import sqlite3
from typing import Final

from stepd.engine.model import Execution
from stepd.store.base import Due, Errand
from stepd.store.bounds import GRACE_AFTER_MS
from stepd.store.sqlite.loading import read_execution
from stepd.store.sqlite.transaction import Transaction

NEVER: Final = (1 << 63) - 1

PULSE: Final = "select at from pulse"
MOVE_PULSE: Final = "insert into pulse (one, at) values (1, ?) on conflict (one) do update set at = excluded.at"
GRACE_TO_LEASES: Final = f"""
    update attempts set
        expires_at = :now + lease_ms,
        reclaim_at = reclaim_at - expires_at + :now + lease_ms,
        next_at = min(
            coalesce(timeout_at, {NEVER}),
            case status when 'leased' then reclaim_at - expires_at else 0 end + :now + lease_ms
        )
    where next_at is not null and status in ('leased', 'running') and expires_at < :now + lease_ms"""
GRACE_TO_ORPHANS: Final = f"""
    update attempts set
        reclaim_at = :now + reclaim_ms,
        next_at = min(coalesce(timeout_at, {NEVER}), :now + reclaim_ms)
    where next_at is not null and status = 'orphaned' and reclaim_at < :now + reclaim_ms"""
"""The sweeper looks at a running attempt when it lapses, at the others when they are to be taken back; at each when its
time-out comes, if that is earlier."""

DUE_ATTEMPTS: Final = (
    "select next_at, execution_id, id, null, null from attempts "
    "where next_at is not null and next_at <= ? order by next_at limit ?"
)
DUE_STEPS: Final = (
    "select timer_at, execution_id, null, ordinal, idx from steps "
    "where timer_at is not null and parked = 0 and timer_at <= ? order by timer_at limit ?"
)
DUE_EXECUTIONS: Final = (
    "select due_at, id, null, null, null from executions "
    "where due_at is not null and due_at <= ? order by due_at limit ?"
)
NEXT_DUE: Final = (
    "select min(next_at) from attempts where next_at is not null",
    "select min(timer_at) from steps where timer_at is not null and parked = 0",
    "select min(due_at) from executions where due_at is not null",
)
STEP_ERRANDS: Final = "select execution_id, errand, ordinal, idx, child_id from steps where errand is not null limit ?"
OUTPUT: Final = "select body from payloads where execution_id = ? and name = 'output'"
BLOCKED: Final = "select id from executions where blocked_child is not null order by id limit ?"
CHILD_NEWS: Final = "select id, 'tell' from executions where news_at is not null order by news_at limit ?"
OPEN: Final = (
    "select id from executions indexed by executions_open where ended_at is null and id > ? order by id limit ?"
)


def pulse(transaction: Transaction) -> bool:
    """Moves the pulse; where it had stood still, gives grace to all leases and answers True."""
    connection, now = transaction.connection, transaction.now()
    stood_at = connection.execute(PULSE).fetchone()
    connection.execute(MOVE_PULSE, (now,))
    if stood_at is None or now - stood_at[0] <= GRACE_AFTER_MS:
        return False
    transaction.cache.clear()
    connection.execute(GRACE_TO_LEASES, {"now": now})
    connection.execute(GRACE_TO_ORPHANS, {"now": now})
    return True


def due(connection: sqlite3.Connection, now: int, limit: int) -> list[Due]:
    """What the sweeper must look at, oldest first."""
    found = [
        values
        for query in (DUE_ATTEMPTS, DUE_STEPS, DUE_EXECUTIONS)
        for values in connection.execute(query, (now, limit))
    ]
    found.sort(key=lambda values: values[0])
    return [Due(id_, attempt_id, ordinal, index, at) for at, id_, attempt_id, ordinal, index in found[:limit]]


def next_due(connection: sqlite3.Connection) -> int | None:
    """The earliest time (ms) at which something is due."""
    times = [connection.execute(query).fetchone()[0] for query in NEXT_DUE]
    return min((time for time in times if time is not None), default=None)


def errands(connection: sqlite3.Connection, limit: int) -> list[Errand]:
    """What stands to be carried between parents and children."""
    return [Errand(*values) for query in (STEP_ERRANDS, CHILD_NEWS) for values in connection.execute(query, (limit,))]


def news(connection: sqlite3.Connection, execution_id: str) -> tuple[Execution, bytes | None] | None:
    """The execution's row with its output."""
    execution = read_execution(connection, execution_id)
    if execution is None:
        return None
    output = connection.execute(OUTPUT, (execution_id,)).fetchone()
    return execution, None if output is None else output[0]


def with_blocked_child(connection: sqlite3.Connection, limit: int) -> list[str]:
    """Ids of executions whose child needs reconciliation."""
    return [id_ for (id_,) in connection.execute(BLOCKED, (limit,))]


def open_executions(connection: sqlite3.Connection, after: str, limit: int) -> list[str]:
    """Ids of executions that have not ended, behind ``after``."""
    return [id_ for (id_,) in connection.execute(OPEN, (after, limit))]
