"""The service's own records: its row and settings, keys, workers' lives, the audit log."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from msgspec.structs import astuple

from stepd.engine.model import Audit, Idempotency
from stepd.ids import new_id
from stepd.store.listing import audit_conditions, places
from stepd.store.records import AuditFilter, AuditRow, KeyRow, KeySource, ServiceRow, WorkerRow
from stepd.store.sqlite.rows import AUDIT, IDEMPOTENCY, KEYS, WORKERS
from stepd.store.sqlite.transaction import Transaction

FIRST_NAME: Final = "stepd"
NO_SETTINGS: Final = b"{}"

SERVICE: Final = "select id, name, settings, coalesce((select at from pulse), 0) from service_config"
MAKE_SERVICE: Final = "insert into service_config (one, id, name, settings) values (1, ?, ?, ?) on conflict do nothing"
SHARE: Final = "update service_config set settings = ? where settings = ?"
ALL_KEYS: Final = f"{KEYS.select} order by created_at, id"
ANY_KEY: Final = "select 1 from keys limit 1"
REVOKE: Final = "update keys set revoked_at = ?, source = ? where id = ? and revoked_at is null"
KEPT: Final = f"{IDEMPOTENCY.select} where principal = ? and target = ? and key = ?"
SEEN_SINCE: Final = (
    f"{WORKERS.select} indexed by workers_seen where last_seen_at >= ? order by principal, worker, instance"
)
HELD: Final = (
    "select principal, worker, instance, count(*) from attempts indexed by attempts_next "
    "where next_at is not null and leased_at <= ifnull(?, leased_at) group by principal, worker, instance"
)
HELD_OF_TENANTS: Final = (
    "select a.principal, a.worker, a.instance, count(*) from attempts a indexed by attempts_next "
    "join executions e on e.id = a.execution_id where a.next_at is not null "
    "and a.leased_at <= ifnull(?, a.leased_at) and e.tenant in ({tenants}) group by a.principal, a.worker, a.instance"
)
AUDITED: Final = f"select id, {AUDIT.listed} from audit"


def service(transaction: Transaction) -> ServiceRow:
    """The service's row, made where there is none."""
    connection = transaction.connection
    values = connection.execute(SERVICE).fetchone()
    if values is None:
        connection.execute(MAKE_SERVICE, (new_id(), FIRST_NAME, NO_SETTINGS))
        values = connection.execute(SERVICE).fetchone()
    return ServiceRow(*values)


def share_settings(transaction: Transaction, settings: bytes) -> bytes:
    """Writes the shared settings where none are; those that stand."""
    service(transaction)
    transaction.connection.execute(SHARE, (settings, NO_SETTINGS))
    return service(transaction).settings


def keys(connection: sqlite3.Connection) -> list[KeyRow]:
    """Every key that ever was."""
    return [KEYS.read(values) for values in connection.execute(ALL_KEYS)]


def add_key(transaction: Transaction, row: KeyRow, audit_row: Audit | None, first: bool) -> bool:
    """Keeps a key; False where it should be the first one and is not."""
    if first and transaction.connection.execute(ANY_KEY).fetchone() is not None:
        return False
    transaction.connection.execute(KEYS.insert, astuple(row))
    transaction.keys = True
    if audit_row is not None:
        audit(transaction, [audit_row])
    return True


def revoke_key(transaction: Transaction, key_id: str, by: KeySource, audit_row: Audit) -> bool:
    """Revokes a key; False where there is none alive."""
    if transaction.connection.execute(REVOKE, (transaction.now(), by, key_id)).rowcount == 0:
        return False
    transaction.keys = True
    audit(transaction, [audit_row])
    return True


def audit(transaction: Transaction, rows: Sequence[Audit]) -> None:
    """Writes audit rows."""
    transaction.connection.executemany(AUDIT.insert, [astuple(row) for row in rows])


def audited(
    connection: sqlite3.Connection, filter_: AuditFilter, tenants: tuple[str, ...] | None, limit: int
) -> list[AuditRow]:
    """The audit log, newest first."""
    conditions, parameters = audit_conditions(filter_, tenants)
    statement = f"{AUDITED} where {' and '.join(['1', *conditions])} order by at desc, id desc limit ?"
    found = connection.execute(statement, [*parameters, limit])
    return [AuditRow(number, AUDIT.read(values)) for number, *values in found]


def remembered(connection: sqlite3.Connection, principal: str, target: str, key: str) -> Idempotency | None:
    """The first answer kept under this key."""
    values = connection.execute(KEPT, (principal, target, key)).fetchone()
    return None if values is None else IDEMPOTENCY.read(values)


def seen(transaction: Transaction, rows: Sequence[WorkerRow]) -> None:
    """Notes workers' lives."""
    transaction.connection.executemany(WORKERS.upsert, [astuple(row) for row in rows])


def workers(connection: sqlite3.Connection, since: int) -> list[WorkerRow]:
    """Lives seen since that time."""
    return [WORKERS.read(values) for values in connection.execute(SEEN_SINCE, (since,))]


def held_leases(
    connection: sqlite3.Connection, tenants: tuple[str, ...] | None, until: int | None
) -> dict[tuple[str, str, str], int]:
    """Leases in flight by (principal, worker, instance)."""
    if tenants is None:
        found = connection.execute(HELD, (until,))
    else:
        found = connection.execute(HELD_OF_TENANTS.format(tenants=places(tenants)), (until, *tenants))
    return {(principal, worker, instance): count for principal, worker, instance, count in found}
