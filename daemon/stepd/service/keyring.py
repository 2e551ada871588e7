"""All keys of the store in memory, as requests are admitted by them: who a secret's caller is, and who still is one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from hmac import compare_digest
from typing import Final

import msgspec

from stepd.keys import hash_secret
from stepd.service.base import Caller
from stepd.store.base import Store
from stepd.store.records import KeyRow
from stepd_protocol.names import Scope

FALLBACKS: Final[tuple[Scope, ...]] = ("worker", "execute")
"""What ``write`` also may, each until a key with that scope has existed."""
ALL_TENANTS: Final = "*"
REFRESH_SECONDS: Final = 1.0

read_list: Final = msgspec.json.Decoder(list[str]).decode
"""A key's scopes or tenants, as its row has them."""


class Keyring:
    """A loop that keeps up with the store's keys: at each wake, and every second without one.

    Whoever changes keys through this daemon tells it by ``learn``, so that it counts before the change is answered.
    Keys only ever come and are revoked: what is known of them never falls back behind that, whatever a look shows.
    """

    name = "keys"

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rows: dict[str, KeyRow] = {}
        self._by_hash: dict[str, tuple[Caller, str]] = {}
        self._by_id: dict[str, Caller] = {}
        self.wake = asyncio.Event()
        self.lessened: Callable[[], object] = lambda: None
        """Called when some callers may less than before, or are no callers any more."""

    @property
    def ever(self) -> bool:
        """Whether the store has ever held a key."""
        return bool(self._rows)

    def find(self, secret: str) -> Caller | None:
        """The caller whose secret this is; None when there is none, or it was revoked."""
        hashed = hash_secret(secret)
        # Looked up by hash: how long that takes tells of the hash at most, from which no secret can be made.
        caller, known = self._by_hash.get(hashed, (None, ""))
        return caller if compare_digest(known, hashed) else None

    def of_key(self, key_id: str) -> Caller | None:
        """The caller whose key has this id; None when there is none, or it was revoked."""
        return self._by_id.get(key_id)

    def is_good(self, caller: Caller) -> bool:
        """Whether the caller's key was not revoked; without a key: whether there never was one."""
        return not self._rows if caller.key_id is None else caller.key_id in self._by_id

    def may_claim(self, caller: Caller) -> bool:
        """Whether the caller may take work, by the scopes that its key has now."""
        if caller.key_id is None:
            return not self._rows
        known = self._by_id.get(caller.key_id)
        return known is not None and known.may("worker")

    def learn(self, rows: Iterable[KeyRow]) -> None:
        """Takes rows in as the store has them; what they take away is gone when this returns."""
        news = [row for row in rows if self._is_news(row)]
        if not news:
            return
        before, was_open = self._by_id, not self._rows
        self._rows |= {row.id: row for row in news}
        ever = {scope for row in self._rows.values() for scope in read_list(row.scopes)}
        live = [(row, _caller(row, ever)) for row in self._rows.values() if row.revoked_at is None]
        self._by_id = {row.id: caller for row, caller in live}
        self._by_hash = {row.secret_hash: (caller, row.secret_hash) for row, caller in live}
        if was_open or any(key_id not in self._by_id or self._by_id[key_id] != before[key_id] for key_id in before):
            self.lessened()

    async def refresh(self) -> None:
        """Notices what others did to the keys. Raises StoreUnavailable."""
        self.learn(await self._store.keys())

    async def run_once(self) -> float:
        """One look. Raises StoreUnavailable."""
        await self.refresh()
        return REFRESH_SECONDS

    def _is_news(self, row: KeyRow) -> bool:
        known = self._rows.get(row.id)
        return known is None or (known.revoked_at is None and row.revoked_at is not None)


def _caller(row: KeyRow, ever: set[str]) -> Caller:
    scopes = set(read_list(row.scopes))
    if "write" in scopes:
        scopes |= {scope for scope in FALLBACKS if scope not in ever}
    tenants = read_list(row.tenants)
    return Caller(row.name, row.id, frozenset(scopes), None if ALL_TENANTS in tenants else tuple(tenants))
