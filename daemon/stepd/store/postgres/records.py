"""The service's own records: its row and settings, keys, workers' lives, the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import astuple

from stepd.engine.model import Audit, Idempotency
from stepd.ids import new_id
from stepd.store.listing import audit_conditions
from stepd.store.marks import to_text
from stepd.store.postgres.connections import Session
from stepd.store.postgres.tables import AUDIT, IDEMPOTENCY, KEYS, WORKERS, numbered
from stepd.store.records import AuditFilter, AuditRow, KeyRow, KeySource, ServiceRow, WorkerRow

FIRST_NAME: Final = "stepd"
NO_SETTINGS: Final = b"{}"

SERVICE: Final = "select id, name, settings, coalesce((select at from pulse), 0) from service_config"
MAKE_SERVICE: Final = (
    "insert into service_config (one, id, name, settings) values (1, $1, $2, $3) on conflict do nothing"
)
SHARE: Final = "update service_config set settings = $1 where settings = $2"
ALL_KEYS: Final = f"{KEYS.select} order by created_at, id"
ANY_KEY: Final = "select 1 from keys limit 1"
FIRST_KEY_ALONE: Final = "lock table keys in share row exclusive mode"
INSERT_KEY: Final = f"insert into keys ({KEYS.listed}) values ($1, $2, $3, $4, $5, $6, $7, $8)"
REVOKE: Final = "update keys set revoked_at = $1, source = $2 where id = $3 and revoked_at is null returning 1"
KEPT: Final = f"{IDEMPOTENCY.select} where principal = $1 and target = $2 and key = $3"
SEEN_SINCE: Final = f"{WORKERS.select} where last_seen_at >= $1 order by principal, worker, instance"
HELD: Final = (
    "select principal, worker, instance, count(*) from attempts where next_at is not null "
    "and leased_at <= coalesce($1, leased_at) group by principal, worker, instance"
)
HELD_OF_TENANTS: Final = (
    "select a.principal, a.worker, a.instance, count(*) from attempts a join executions e on e.id = a.execution_id "
    "where a.next_at is not null and a.leased_at <= coalesce($1, a.leased_at) and e.tenant = any($2::text[]) "
    "group by a.principal, a.worker, a.instance"
)
AUDITED: Final = f"select id, {AUDIT.listed} from audit"


async def service(session: Session) -> ServiceRow:
    """The service's row, made where there is none."""
    values = await session.fetchrow(SERVICE)
    if values is None:
        await session.execute(MAKE_SERVICE, new_id(), FIRST_NAME, NO_SETTINGS)
        values = await session.fetchrow(SERVICE)
    return ServiceRow(*values)


async def share_settings(session: Session, settings: bytes) -> bytes:
    """Writes the shared settings where none are; those that stand."""
    await service(session)
    await session.execute(SHARE, settings, NO_SETTINGS)
    return (await service(session)).settings


async def keys(session: Session) -> list[KeyRow]:
    """Every key that ever was."""
    return [KEYS.read(values) for values in await session.fetch(ALL_KEYS)]


async def add_key(session: Session, row: KeyRow, audit: Audit | None, first: bool) -> bool:
    """Keeps a key; False where it should be the first one and is not."""
    if first:
        await session.execute(FIRST_KEY_ALONE)
        if await session.fetchval(ANY_KEY) is not None:
            return False
    await session.execute(INSERT_KEY, *astuple(row))
    if audit is not None:
        await write_audit(session, [audit])
    return True


async def revoke_key(session: Session, now: int, key_id: str, by: KeySource, audit: Audit) -> bool:
    """Revokes a key; False where there is none alive."""
    if await session.fetchval(REVOKE, now, by, key_id) is None:
        return False
    await write_audit(session, [audit])
    return True


async def write_audit(session: Session, rows: Sequence[Audit]) -> None:
    """Writes audit rows."""
    if rows:
        await session.execute(AUDIT.insert, *AUDIT.lists(rows))


async def audited(
    session: Session, filter_: AuditFilter, tenants: tuple[str, ...] | None, limit: int
) -> list[AuditRow]:
    """The audit log, newest first."""
    conditions, parameters = audit_conditions(filter_, tenants)
    statement = f"{AUDITED} where {' and '.join(['true', *conditions])} order by at desc, id desc limit ?"
    found = await session.fetch(numbered(statement), *parameters, limit)
    return [AuditRow(number, AUDIT.read(values)) for number, *values in found]


async def remembered(session: Session, principal: str, target: str, key: str) -> Idempotency | None:
    """The first answer kept under this key."""
    values = await session.fetchrow(KEPT, principal, target, key)
    return None if values is None else IDEMPOTENCY.read(values)


async def seen(session: Session, rows: Sequence[WorkerRow]) -> None:
    """Notes workers' lives."""
    latest = {(row.principal, row.worker, row.instance): row for row in rows}
    if latest:
        await session.execute(WORKERS.upsert, *WORKERS.lists(latest[key] for key in sorted(latest)))


async def workers(session: Session, since: int) -> list[WorkerRow]:
    """Lives seen since that time."""
    return [WORKERS.read(values) for values in await session.fetch(SEEN_SINCE, since)]


async def held_leases(
    session: Session, tenants: tuple[str, ...] | None, until: int | None
) -> dict[tuple[str, str, str], int]:
    """Leases in flight by (principal, worker, instance)."""
    if tenants is None:
        found = await session.fetch(HELD, until)
    else:
        found = await session.fetch(HELD_OF_TENANTS, until, [to_text(tenant) for tenant in tenants])
    return {(principal, worker, instance): count for principal, worker, instance, count in found}
