"""Owns `stepd migrate`: a schema is brought up by its owner on PostgreSQL, by opening the store on SQLite."""

import asyncio

from stepd.settings import Settings
from stepd.starting import StartRefused, make_store
from stepd.store.base import StoreRefused, StoreUnavailable
from stepd.store.postgres.address import is_postgres, without_secrets
from stepd_migrations import HEAD


def migrate(settings: Settings, runtime_role: str | None) -> str:
    """Brings the database up; answers what there is to say. Raises StartRefused."""
    if is_postgres(settings.database):
        return asyncio.run(_on_postgres(settings.database, runtime_role))
    if runtime_role is not None:
        raise StartRefused("--runtime-role is for PostgreSQL; an SQLite file has no roles.")
    asyncio.run(_open_and_close(settings))
    return f"{settings.database} has the schema version {HEAD}."


async def _on_postgres(url: str, runtime_role: str | None) -> str:
    from stepd.store.postgres.migrating import migrate as bring_up

    try:
        before = await bring_up(url, runtime_role)
    except StoreRefused as refusal:
        raise StartRefused(str(refusal)) from refusal
    had = "" if before == HEAD else f", where it had {before or 'none'}"
    granted = (
        f"The role {runtime_role} can serve from it."
        if runtime_role is not None
        else "Name the daemon's role with --runtime-role, so that it can serve from it."
    )
    return f"{without_secrets(url)} has the schema version {HEAD}{had}. {granted}"


async def _open_and_close(settings: Settings) -> None:
    store = make_store(settings)
    try:
        await store.open()
    except (StoreRefused, StoreUnavailable) as refusal:
        raise StartRefused(str(refusal)) from refusal
    await store.close()
