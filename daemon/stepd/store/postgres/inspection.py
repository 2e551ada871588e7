"""Reads a PostgreSQL database for whoever examines it: inside transactions that can only read."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from stepd.store.base import Scope, StoreRefused
from stepd.store.contents import OVERDUE_MS, WORKERS_MS, Contents
from stepd.store.postgres import lists, records
from stepd.store.postgres.connections import connect
from stepd.store.postgres.errors import DRIVER_ERRORS, unavailable
from stepd.store.postgres.listener import PLACE
from stepd.store.postgres.loading import NOW
from stepd.store.postgres.roles import check_role
from stepd.store.postgres.standing import TABLES, check_server, schema_version
from stepd.store.records import ServiceRow

READ_ONLY: Final = "begin isolation level repeatable read read only"
SIZE: Final = "select current_setting('server_version'), pg_database_size(current_database())"
CONNECTIONS: Final = (
    "select count(*), current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int "
    "from pg_stat_activity where backend_type = 'client backend'"
)
PLACES: Final = """
    select count(*) from pg_locks where locktype = 'advisory' and granted and objsubid = 1
    and database = (select oid from pg_database where datname = current_database())
    and (classid::bigint << 32) | objid::bigint = $1"""
KEYS: Final = (
    "select count(*), count(*) filter (where revoked_at is null and "
    "convert_from(scopes, 'UTF8')::jsonb ? 'admin') from keys"
)
COUNTS: Final = """
    select (select count(*) from executions where status = 'reconciliation_required'),
        (select count(*) from attempts where next_at is not null and status = 'orphaned'),
        (select count(*) from attempts where next_at < $1)
        + (select count(*) from steps where timer_at < $1 and parked = 0)"""


class Unreadable(Exception):
    """The database can't be read; `str()` of it says why."""


class Seen(msgspec.Struct, kw_only=True):
    """What was seen of a database and its server."""

    server: str
    size: int
    """Bytes."""
    connections: int
    connections_max: int
    """Those that are kept for superusers left out."""
    now: int
    """The server's clock, ms."""
    daemons: int
    contents: Contents
    role_refused: str | None = None
    """Why a daemon would not serve with this role."""


async def look(url: str, newest: str, *, allow_owner: bool) -> Seen:
    """Everything at once; of a schema other than ``newest`` only its version. Raises Unreadable, StoreRefused."""
    try:
        connection = await connect(url, "looks")
        try:
            await connection.execute(READ_ONLY)
            return await _look(connection, newest, allow_owner=allow_owner)
        finally:
            connection.terminate()
    except (*DRIVER_ERRORS, ValueError) as error:
        raise Unreadable(str(unavailable(error) or error)) from error


async def _look(connection: Any, newest: str, *, allow_owner: bool) -> Seen:
    await check_server(connection)
    server, size = await connection.fetchrow(SIZE)
    used, most = await connection.fetchrow(CONNECTIONS)
    version = await schema_version(connection)
    tables, _ = await connection.fetchrow(TABLES)
    seen = Seen(
        server=server,
        size=size,
        connections=used,
        connections_max=most,
        now=await connection.fetchval(NOW),
        daemons=await connection.fetchval(PLACES, await connection.fetchval(PLACE)),
        contents=Contents(tables=tables, version=version),
    )
    if version == newest:
        try:
            await check_role(connection, allow_owner=allow_owner)
        except StoreRefused as refusal:
            seen.role_refused = str(refusal)
        else:
            await _read(connection, seen.contents, seen.now)
    return seen


async def _read(connection: Any, contents: Contents, now: int) -> None:
    service = await connection.fetchrow(records.SERVICE)
    contents.service = None if service is None else ServiceRow(*service)
    contents.keys, contents.admins = await connection.fetchrow(KEYS)
    counted = await connection.fetchrow(COUNTS, now - OVERDUE_MS)
    contents.reconciliation, contents.orphans, contents.overdue = counted
    contents.queue = await lists.queue(connection, Scope())
    contents.workers = await records.workers(connection, now - WORKERS_MS)
