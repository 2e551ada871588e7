"""Owns the keys as requests are admitted by them: entered from the settings at start, then held in memory."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from hmac import compare_digest
from typing import Final

import msgspec

from stepd.engine.model import Audit
from stepd.ids import new_id
from stepd.keys import SettingsKey, hash_secret
from stepd.service.base import Caller
from stepd.store.base import KeyRow, Store
from stepd_protocol.names import Scope

FALLBACKS: Final[tuple[Scope, ...]] = ("worker", "execute")
"""What `write` also may, each until a key with that scope has existed."""
ALL_TENANTS: Final = "*"
FROM_SETTINGS: Final = "settings"
REFRESH_SECONDS: Final = 1.0

_log = logging.getLogger(__name__)


class NoAdminKey(Exception):
    """There are keys, but none that is alive has the scope `admin`."""


class Keyring:
    """A loop that holds all keys of the store. `changed` hears which callers are no longer good when some are gone."""

    name = "keys"

    def __init__(self, store: Store, changed: Callable[[Callable[[Caller], bool]], object]) -> None:
        self._store = store
        self.wake = asyncio.Event()
        self._changed = changed
        self._callers: dict[str, tuple[Caller, str]] = {}
        self.ever = False
        """Whether the store has ever held a key."""

    def find(self, secret: str) -> Caller | None:
        """The caller whose secret this is; None when there is none, or it was revoked."""
        hashed = hash_secret(secret)
        # Looked up by hash: how long that takes tells of the hash at most, from which no secret can be made.
        caller, known = self._callers.get(hashed, (None, ""))
        return caller if compare_digest(known, hashed) else None

    async def run_once(self) -> float:
        """Notices what others did to the keys. Raises StoreUnavailable."""
        await self.refresh()
        return REFRESH_SECONDS

    async def refresh(self) -> None:
        """Reads the keys anew. Raises StoreUnavailable."""
        rows = await self._store.keys()
        ever = {scope for row in rows for scope in _list(row.scopes)}
        live = [row for row in rows if row.revoked_at is None]
        gone = {caller.key_id for caller, _ in self._callers.values()} - {row.id for row in live}
        self._callers = {row.secret_hash: (_caller(row, ever), row.secret_hash) for row in live}
        self.ever = bool(rows)
        if gone:
            self._changed(lambda caller: caller.key_id in gone)


async def enter_keys(store: Store, keys: Iterable[SettingsKey]) -> None:
    """Brings the store's keys in line with the settings': new ones enter, changed and missing ones are revoked.

    Settings without any key change nothing. Raises NoAdminKey, StoreUnavailable.
    """
    wanted = {(key.name, key.secret_hash, frozenset[str](key.scopes)): key for key in keys}
    rows = [row for row in await store.keys() if row.revoked_at is None]
    standing = {(row.name, row.secret_hash, frozenset(_list(row.scopes))): row for row in rows}
    if rows or wanted:
        _check_admin([key.scopes for key in wanted.values()] or [_list(row.scopes) for row in rows])
    if not wanted:
        return
    now = await store.now()
    for mark, row in standing.items():
        if row.source == FROM_SETTINGS and mark not in wanted:
            await store.revoke_key(row.id, _audit("key.revoked", row.id, now))
            _log.info("the key of %s is no longer in the settings: revoked", row.name)
    for mark, key in wanted.items():
        if mark not in standing:
            row = _row(key, now)
            await store.add_key(row, _audit("key.entered", row.id, now))


def _check_admin(scopes: Iterable[Iterable[str]]) -> None:
    if not any("admin" in each for each in scopes):
        raise NoAdminKey(
            "No key has the scope admin, so that nobody could administer the daemon: "
            "add one, for example STEPD_ADMIN_KEYS=ops=$(openssl rand -hex 32)."
        )


def _caller(row: KeyRow, ever: set[str]) -> Caller:
    scopes = set(_list(row.scopes))
    if "write" in scopes:
        scopes |= {scope for scope in FALLBACKS if scope not in ever}
    tenants = _list(row.tenants)
    return Caller(row.name, row.id, frozenset(scopes), None if ALL_TENANTS in tenants else tuple(tenants))


def _row(key: SettingsKey, now: int) -> KeyRow:
    return KeyRow(
        id=new_id(),
        name=key.name,
        secret_hash=key.secret_hash,
        scopes=msgspec.json.encode(key.scopes),
        tenants=msgspec.json.encode([ALL_TENANTS]),
        source=FROM_SETTINGS,
        created_at=now,
        revoked_at=None,
    )


def _audit(action: str, key_id: str, now: int) -> Audit:
    return Audit(
        at=now,
        principal=FROM_SETTINGS,
        key_id=None,
        action=action,
        object=key_id,
        tenant=None,
        remote=None,
        outcome="ok",
    )


def _list(raw: bytes) -> list[str]:
    return msgspec.json.decode(raw, type=list[str])
