"""Keys of the settings on their way into the store, where they stand beside those made through the API."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import msgspec

from stepd.engine.model import Audit
from stepd.ids import new_id
from stepd.keys import SettingsKey
from stepd.service.keyring import ALL_TENANTS, read_list
from stepd.store.base import Store
from stepd.store.records import AUDIT_DONE, KeyRow, KeySource

FROM_SETTINGS: Final[KeySource] = "settings"

_log = logging.getLogger(__name__)

_Mark: TypeAlias = tuple[str, str, frozenset[str]]
"""What makes a key of the settings the same one: name, hash, scopes."""


class NoAdminKey(Exception):
    """The first keys of a store have no admin among them."""


async def enter_keys(store: Store, keys: Iterable[SettingsKey]) -> None:
    """Brings the store's keys in line with the settings': new ones enter, changed and missing ones are revoked.

    Settings without any key change nothing. A secret that was revoked through the API stays revoked. Raises NoAdminKey,
    StoreUnavailable.
    """
    wanted = {(key.name, key.secret_hash, frozenset[str](key.scopes)): key for key in keys}
    rows = await store.keys()
    if not wanted:
        _warn_without_admin(rows)
        return
    if not rows and not any("admin" in key.scopes for key in wanted.values()):
        raise NoAdminKey(
            "No key has the scope admin, and the first key must have it, or nobody could administer the daemon: "
            "add one, for example STEPD_ADMIN_KEYS=ops=$(openssl rand -hex 32)."
        )
    standing = {_mark(row): row for row in rows if row.revoked_at is None}
    for mark, row in standing.items():
        if row.source == FROM_SETTINGS and mark not in wanted:
            await store.revoke_key(row.id, FROM_SETTINGS, await _audit(store, "key.revoke", row.id))
            _log.info("the key of %s is no longer in the settings: revoked", row.name)
    barred = {row.secret_hash for row in rows if row.revoked_at is not None and row.source != FROM_SETTINGS}
    for mark, key in wanted.items():
        if key.secret_hash in barred:
            _log.warning("the key of %s in the settings was revoked, and stays so: give it a new secret", key.name)
        elif mark not in standing:
            row = _row(key, await store.now())
            await store.add_key(row, await _audit(store, "key.create", row.id))
    _warn_without_admin(await store.keys())


def _warn_without_admin(rows: Sequence[KeyRow]) -> None:
    if rows and not any(row.revoked_at is None and "admin" in read_list(row.scopes) for row in rows):
        _log.warning(
            "no key with the scope admin is left, so that nobody can administer the daemon; "
            "add one with STEPD_ADMIN_KEYS and start the daemon again"
        )


def _mark(row: KeyRow) -> _Mark:
    return row.name, row.secret_hash, frozenset(read_list(row.scopes))


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


async def _audit(store: Store, action: str, key_id: str) -> Audit:
    return Audit(
        at=await store.now(),
        principal=FROM_SETTINGS,
        key_id=None,
        action=action,
        object=key_id,
        tenant=None,
        remote=None,
        outcome=AUDIT_DONE,
    )
