"""Removes what has served its time, in slices that hold nobody up.

An ended execution goes from sight at once, with its row and labels; what is left of it is removed slice by slice, also
after a crash, because its id stands in ``leavings`` until then. Daemons that remove at the same time pass over what
another one has in hand.
"""

from __future__ import annotations

from typing import Final

import msgspec

from stepd.store.bounds import (
    AUDIT_KEPT_MS,
    CALLS_KEPT_MS,
    CLAIMS_KEPT_MS,
    EXECUTIONS_AT_ONCE,
    LIVES_KEPT_MS,
    PAYLOADS_AT_ONCE,
    ROWS_AT_ONCE,
)
from stepd.store.postgres.connections import Session
from stepd.store.postgres.tables import EXECUTIONS, columns, unnested

ENDED: Final = (
    f"{EXECUTIONS.select} where remove_at is not null and remove_at <= $1 and ended_at is not null "
    "order by remove_at limit $2 for update skip locked"
)
REMOVE: Final = "delete from executions where id = any($1::text[])"
REMOVE_LABELS: Final = (
    f"delete from labels l using {unnested('text[]', 'text[]', 'bigint[]', 'text[]')} "
    "as w (key, value, created_at, execution_id) where l.key = w.key and l.value = w.value "
    "and l.created_at = w.created_at and l.execution_id = w.execution_id"
)
LEAVE: Final = "insert into leavings (execution_id) select unnest($1::text[])"
LEAVINGS: Final = "select execution_id from leavings order by execution_id limit 1 for update skip locked"
LEFT: Final = "delete from leavings where execution_id = $1"


def _slice(table: str, key: str) -> str:
    return (
        f"with gone as (delete from {table} where ({key}) in "
        f"(select {key} from {table} where execution_id = $1 limit $2) returning 1) select count(*) from gone"
    )


BELONGINGS: Final = (
    (_slice("payloads", "execution_id, name"), PAYLOADS_AT_ONCE),
    (_slice("signals", "execution_id, number"), PAYLOADS_AT_ONCE),
    (_slice("spans", "execution_id, attempt_id, span_id"), ROWS_AT_ONCE),
    ("select remove_events($1, $2)", ROWS_AT_ONCE),  # nobody else can remove any, and only of what is gone
    (_slice("attempts", "id"), ROWS_AT_ONCE),
    (_slice("steps", "execution_id, ordinal, idx"), ROWS_AT_ONCE),
)


def _forget(table: str, key: str, condition: str) -> str:
    return (
        f"with gone as (delete from {table} where ({key}) in (select {key} from {table} where {condition} "
        "limit $2 for update skip locked) returning 1) select count(*) from gone"
    )


FORGET_CLAIMS: Final = _forget(
    "claims",
    "principal, claim_id",
    "dealt_at < $1 and not exists (select 1 from attempts where attempts.next_at is not null "
    "and attempts.id in (select jsonb_array_elements_text(claims.leases::jsonb)))",
)
FORGET_CALLS: Final = _forget("idempotency", "principal, target, key", "created_at < $1")
FORGET_LIVES: Final = _forget("workers", "principal, worker, instance", "last_seen_at < $1")
FORGET_SIGN_INS: Final = _forget("sessions", "id_hash", "expires_at < $1")
FORGET_AUDIT: Final = "select remove_audit($1, $2)"
"""Nobody else can remove any, and by the server's clock it lets none go before its time."""
FORGET_USAGE: Final = _forget("usage", "attempt_id, line", "at < $1")
FORGET: Final = (
    (FORGET_CLAIMS, CLAIMS_KEPT_MS),
    (FORGET_CALLS, CALLS_KEPT_MS),
    (FORGET_LIVES, LIVES_KEPT_MS),
    (FORGET_SIGN_INS, 0),
    (FORGET_AUDIT, AUDIT_KEPT_MS),
)


async def remove_ended(session: Session, now: int, limit: int) -> int:
    """Takes ended executions past their time out of sight, at most ``EXECUTIONS_AT_ONCE``; answers how many."""
    rows = [EXECUTIONS.read(values) for values in await session.fetch(ENDED, now, min(limit, EXECUTIONS_AT_ONCE))]
    if not rows:
        return 0
    ids = [row.id for row in rows]
    labels = [
        (key, value, row.created_at, row.id)
        for row in rows
        for key, value in msgspec.json.decode(row.labels, type=dict[str, str]).items()
    ]
    if labels:
        await session.execute(REMOVE_LABELS, *columns(labels))
    await session.execute(REMOVE, ids)
    await session.execute(LEAVE, ids)
    return len(rows)


async def clear_leavings(session: Session) -> bool:
    """Removes one slice of what removed executions left behind; False where nothing is left."""
    removed = 0
    while removed < ROWS_AT_ONCE:
        id_ = await session.fetchval(LEAVINGS)
        if id_ is None:
            return False
        for statement, at_once in BELONGINGS:
            count = await session.fetchval(statement, id_, at_once)
            removed += count
            if count == at_once or removed >= ROWS_AT_ONCE:
                return True
        await session.execute(LEFT, id_)
        removed += 1
    return True


async def forget(session: Session, now: int, statement: str, kept_ms: int, limit: int) -> int:
    """Removes one slice of what is past its time, such as claims or audit rows; answers how many."""
    count: int = await session.fetchval(statement, now - kept_ms, min(limit, ROWS_AT_ONCE))
    return count
