"""What the daemon's loops ask: the pulse with its grace, what is due, what is open."""

from __future__ import annotations

from typing import Final

from stepd.engine.model import Execution
from stepd.store.base import Due, Errand, Scope
from stepd.store.postgres.connections import Session
from stepd.store.postgres.views import standing

BEAT: Final = "insert into pulse (one, at) values (1, $1) on conflict (one) do nothing"
PULSE: Final = "select at from pulse for update"
MOVE_PULSE: Final = "update pulse set at = $1"
LOCK_LEASED: Final = (
    "select 1 from executions where id = any(array(select execution_id from attempts where next_at is not null)) "
    "order by id for update"
)
"""Decisions hold their execution: none goes on between its look at a lease and its writing while grace is given."""
GRACE_TO_LEASES: Final = """
    update attempts set
        expires_at = $1::bigint + lease_ms,
        reclaim_at = reclaim_at - expires_at + $1 + lease_ms,
        next_at = least(
            timeout_at,
            case status when 'leased' then reclaim_at - expires_at else 0 end + $1 + lease_ms
        )
    where next_at is not null and status in ('leased', 'running') and expires_at < $1 + lease_ms"""
GRACE_TO_ORPHANS: Final = """
    update attempts set
        reclaim_at = $1::bigint + reclaim_ms,
        next_at = least(timeout_at, $1 + reclaim_ms)
    where next_at is not null and status = 'orphaned' and reclaim_at < $1 + reclaim_ms"""
"""The sweeper looks at a running attempt when it lapses, at the others when they are to be taken back; at each when its
time-out comes, if that is earlier."""

DUE: Final = """
    (select next_at, execution_id, id, null::bigint, null::bigint from attempts
     where next_at is not null and next_at <= $1 order by next_at limit $2)
    union all
    (select timer_at, execution_id, null, ordinal, idx from steps
     where timer_at is not null and parked = 0 and timer_at <= $1 order by timer_at limit $2)
    union all
    (select due_at, id, null, null, null from executions
     where due_at is not null and due_at <= $1 order by due_at limit $2)
    order by 1 limit $2"""
NEXT_DUE: Final = """
    select least(
        (select min(next_at) from attempts where next_at is not null),
        (select min(timer_at) from steps where timer_at is not null and parked = 0),
        (select min(due_at) from executions where due_at is not null))"""
STEP_ERRANDS: Final = "select execution_id, errand, ordinal, idx, child_id from steps where errand is not null limit $1"
CHILD_NEWS: Final = "select id, 'tell' from executions where news_at is not null order by news_at limit $1"
OUTPUT: Final = "select body from payloads where execution_id = $1 and name = 'output'"
BLOCKED: Final = "select id from executions where blocked_child is not null order by id limit $1"
OPEN: Final = "select id from executions where ended_at is null and id > $1 order by id limit $2"


async def due(session: Session, now: int, limit: int) -> list[Due]:
    """What the sweeper must look at, oldest first."""
    return [
        Due(id_, attempt_id, ordinal, index, at)
        for at, id_, attempt_id, ordinal, index in await session.fetch(DUE, now, limit)
    ]


async def next_due(session: Session) -> int | None:
    """The earliest time (ms) at which something is due."""
    found: int | None = await session.fetchval(NEXT_DUE)
    return found


async def errands(session: Session, limit: int) -> list[Errand]:
    """What stands to be carried between parents and children."""
    return [Errand(*values) for query in (STEP_ERRANDS, CHILD_NEWS) for values in await session.fetch(query, limit)]


async def news(session: Session, execution_id: str) -> tuple[Execution, bytes | None] | None:
    """The execution's row with its output. To be read inside a snapshot."""
    execution = await standing(session, execution_id, Scope())
    return None if execution is None else (execution, await session.fetchval(OUTPUT, execution_id))


async def with_blocked_child(session: Session, limit: int) -> list[str]:
    """Ids of executions whose child needs reconciliation."""
    return [id_ for (id_,) in await session.fetch(BLOCKED, limit)]


async def open_executions(session: Session, after: str, limit: int) -> list[str]:
    """Ids of executions that have not ended, behind ``after``."""
    return [id_ for (id_,) in await session.fetch(OPEN, after, limit)]


async def give_grace(session: Session, now: int) -> None:
    """Gives every lease its whole length again, and every orphan its time to be taken back."""
    await session.execute(GRACE_TO_LEASES, now)
    await session.execute(GRACE_TO_ORPHANS, now)
