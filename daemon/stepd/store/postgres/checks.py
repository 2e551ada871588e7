"""What a daemon sees to before it uses a database: that PostgreSQL is new enough, and the schema is the newest one."""

from __future__ import annotations

from typing import Final

from stepd.store.base import StoreRefused
from stepd.store.postgres.connections import Session
from stepd_migrations import HEAD

OLDEST: Final = 14
"""The oldest major version of PostgreSQL that this store is made for."""

SERVER: Final = (
    "select current_setting('server_version_num')::int / 10000, current_setting('server_version'), "
    "current_setting('server_encoding'), current_schema()"
)
HAS_SCHEMA: Final = "select to_regclass('alembic_version') is not null"
VERSION: Final = "select version_num from alembic_version"


async def check(session: Session) -> None:
    """Raises StoreRefused where the database can't be used as it is, with the way out."""
    major, version, encoding, schema = await session.fetchrow(SERVER)
    if major < OLDEST:
        raise StoreRefused(f"The server is PostgreSQL {version}; stepd needs {OLDEST} or newer.")
    if encoding != "UTF8":
        raise StoreRefused(f"The database has the encoding {encoding}; make one with the encoding UTF8 for stepd.")
    if schema is None:
        raise StoreRefused("No schema of the search path exists, or this role may not use it; name one that does.")
    found = await session.fetchval(VERSION) if await session.fetchval(HAS_SCHEMA) else None
    if found is None:
        raise StoreRefused("The database has no schema of stepd yet. Run `stepd migrate` as its owner first.")
    if found != HEAD:
        raise StoreRefused(
            f"The database has the schema version {found}, and this stepd needs {HEAD}. "
            "Run `stepd migrate` with this version, or start the stepd that goes with the database."
        )
