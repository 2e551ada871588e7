"""Removes what has served its time, in slices that hold nobody up.

An ended execution goes from sight at once, with its row and labels; what is left of it is removed slice by slice, also
after a crash, because its id stands in ``leavings`` until then.
"""

from __future__ import annotations

from functools import partial
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
from stepd.store.sqlite.rows import EXECUTIONS
from stepd.store.sqlite.transaction import Transaction

ENDED: Final = (
    f"{EXECUTIONS.select} where remove_at is not null and remove_at <= ? and ended_at is not null "
    "order by remove_at limit ?"
)
REMOVE: Final = "delete from executions where id = ?"
REMOVE_LABEL: Final = "delete from labels where key = ? and value = ? and created_at = ? and execution_id = ?"
LEAVE: Final = "insert into leavings (execution_id) values (?)"
LEAVINGS: Final = "select execution_id from leavings order by execution_id limit 1"
LEFT: Final = "delete from leavings where execution_id = ?"


def _slice(table: str, key: str) -> str:
    return f"delete from {table} where ({key}) in (select {key} from {table} where execution_id = ? limit ?)"


BELONGINGS: Final = (
    (_slice("payloads", "execution_id, name"), PAYLOADS_AT_ONCE),
    (_slice("signals", "execution_id, number"), PAYLOADS_AT_ONCE),
    (_slice("spans", "execution_id, attempt_id, span_id"), ROWS_AT_ONCE),
    (_slice("events", "execution_id, seq"), ROWS_AT_ONCE),
    (_slice("attempts", "id"), ROWS_AT_ONCE),
    (_slice("steps", "execution_id, ordinal, idx"), ROWS_AT_ONCE),
)

FORGET_CLAIMS: Final = """
    delete from claims where (principal, claim_id) in (
        select principal, claim_id from claims where dealt_at < ? and not exists (
            select 1 from json_each(claims.leases) as lease join attempts on attempts.id = lease.value
            where attempts.next_at is not null)
        limit ?)"""
FORGET_CALLS: Final = (
    "delete from idempotency where (principal, target, key) in "
    "(select principal, target, key from idempotency where created_at < ? limit ?)"
)
FORGET_LIVES: Final = (
    "delete from workers where (principal, worker, instance) in "
    "(select principal, worker, instance from workers where last_seen_at < ? limit ?)"
)
FORGET_SIGN_INS: Final = (
    "delete from sessions where id_hash in (select id_hash from sessions where expires_at < ? limit ?)"
)
KEEP_AUDIT_FROM: Final = (
    "update audit_retention set kept_from = :before "
    "where kept_from < :before and exists (select 1 from audit where at < :before)"
)
"""The table lets nothing go that is to be kept."""
FORGET_USAGE: Final = (
    "delete from usage where (attempt_id, line) in "
    "(select attempt_id, line from usage where at < ? order by at limit ?)"
)
FORGET_AUDIT: Final = "delete from audit where id in (select id from audit where at < ? order by at, id limit ?)"


def remove_ended(transaction: Transaction, limit: int) -> int:
    """Takes ended executions past their time out of sight, at most ``EXECUTIONS_AT_ONCE``; answers how many."""
    connection = transaction.connection
    found = connection.execute(ENDED, (transaction.now(), min(limit, EXECUTIONS_AT_ONCE))).fetchall()
    for values in found:
        row = EXECUTIONS.read(values)
        labels = msgspec.json.decode(row.labels, type=dict[str, str])
        connection.executemany(REMOVE_LABEL, [(*label, row.created_at, row.id) for label in labels.items()])
        connection.execute(REMOVE, (row.id,))
        connection.execute(LEAVE, (row.id,))
        transaction.cache.forget(row.id)
    return len(found)


def clear_leavings(transaction: Transaction) -> bool:
    """Removes one slice of what removed executions left behind; False where nothing is left."""
    connection = transaction.connection
    removed = 0
    while removed < ROWS_AT_ONCE:
        values = connection.execute(LEAVINGS).fetchone()
        if values is None:
            return False
        for statement, at_once in BELONGINGS:
            count = connection.execute(statement, (values[0], at_once)).rowcount
            removed += count
            if count == at_once or removed >= ROWS_AT_ONCE:
                return True
        connection.execute(LEFT, values)
        removed += 1
    return True


def forget(transaction: Transaction, limit: int, *, statement: str, kept_ms: int) -> int:
    """Removes one slice of claims, remembered calls or workers' lives or usage past their time; answers how many."""
    before = transaction.now() - kept_ms
    return transaction.connection.execute(statement, (before, min(limit, ROWS_AT_ONCE))).rowcount


def forget_audit(transaction: Transaction, limit: int) -> int:
    """Removes one slice of audit rows past their time; answers how many."""
    transaction.connection.execute(KEEP_AUDIT_FROM, {"before": transaction.now() - AUDIT_KEPT_MS})
    return forget(transaction, limit, statement=FORGET_AUDIT, kept_ms=AUDIT_KEPT_MS)


FORGET: Final = (
    partial(forget, statement=FORGET_CLAIMS, kept_ms=CLAIMS_KEPT_MS),
    partial(forget, statement=FORGET_CALLS, kept_ms=CALLS_KEPT_MS),
    partial(forget, statement=FORGET_LIVES, kept_ms=LIVES_KEPT_MS),
    partial(forget, statement=FORGET_SIGN_INS, kept_ms=0),
    forget_audit,
)
