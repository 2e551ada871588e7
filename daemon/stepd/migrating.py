"""Owns `stepd migrate`: the schema is brought up by a store that opens and closes again."""

import asyncio

from stepd.settings import Settings
from stepd.starting import StartRefused, make_store
from stepd.store.base import StoreRefused, StoreUnavailable
from stepd_migrations import HEAD


def migrate(settings: Settings, runtime_role: str | None) -> str:
    """Brings the database up; answers what there is to say. Raises StartRefused."""
    if runtime_role is not None:
        raise StartRefused("--runtime-role is for PostgreSQL; an SQLite file has no roles.")
    asyncio.run(_open_and_close(settings))
    return f"{settings.database} has the schema version {HEAD}."


async def _open_and_close(settings: Settings) -> None:
    store = make_store(settings)
    try:
        await store.open()
    except (StoreRefused, StoreUnavailable) as refusal:
        raise StartRefused(str(refusal)) from refusal
    await store.close()
