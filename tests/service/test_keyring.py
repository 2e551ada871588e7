"""The keys in memory: who is a caller, what a change takes away, and how changes by others are noticed."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stepd.engine.model import Audit
from stepd.engine.work import Settings
from stepd.keys import hash_secret
from stepd.loops.runner import run_loop
from stepd.service.base import Caller
from stepd.service.keyring import REFRESH_SECONDS, Keyring
from stepd.store.base import Store
from stepd.store.records import KeyRow
from stepd.store.sqlite.store import SqliteStore

AUDIT = Audit(1, "boss", None, "key", "it", None, None, "done")
ANYBODY = Caller("anonymous", None, frozenset({"admin"}), None)


def key(name: str, *scopes: str, **more: Any) -> KeyRow:
    """A key whose secret is its name."""
    fields: dict[str, Any] = {
        "id": f"id-{name}",
        "name": name,
        "secret_hash": hash_secret(name),
        "scopes": msgspec.json.encode(scopes),
        "tenants": b'["*"]',
        "source": "api",
        "created_at": 1,
        "revoked_at": None,
    }
    return KeyRow(**fields | more)


def revoked(row: KeyRow) -> KeyRow:
    return msgspec.structs.replace(row, revoked_at=2)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = SqliteStore(tmp_path / "stepd.db", Settings())
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def keyring(store: Store) -> Keyring:
    return Keyring(store)


def found(keyring: Keyring, secret: str) -> Caller:
    caller = keyring.find(secret)
    assert caller is not None, secret
    return caller


def test_a_secret_has_its_caller(keyring: Keyring) -> None:
    keyring.learn([key("hand", "worker", "read"), key("shop", "execute", tenants=b'["a","b"]')])
    assert found(keyring, "hand") == Caller("hand", "id-hand", frozenset({"worker", "read"}), None)
    assert found(keyring, "shop").tenants == ("a", "b")
    for secret in ("", "nobody", "HAND", hash_secret("hand")):
        assert keyring.find(secret) is None


def test_a_revoked_key_is_no_caller_s(keyring: Keyring) -> None:
    keyring.learn([key("root", "admin"), key("hand", "worker")])
    caller = found(keyring, "hand")
    assert keyring.is_good(caller)
    keyring.learn([revoked(key("hand", "worker"))])
    assert keyring.find("hand") is None
    assert not keyring.is_good(caller)
    assert not keyring.may_claim(caller)
    assert keyring.find("root") is not None


def test_an_older_look_brings_nothing_back(keyring: Keyring) -> None:
    """A look at the store that began before a change may end after it."""
    keyring.learn([key("root", "admin"), revoked(key("hand", "worker"))])
    keyring.learn([key("root", "admin"), key("hand", "worker")])
    assert keyring.find("hand") is None
    keyring.learn([])
    assert keyring.find("root") is not None
    assert keyring.ever


def test_without_keys_everybody_is_good_until_there_is_one(keyring: Keyring) -> None:
    assert keyring.is_good(ANYBODY)
    assert keyring.may_claim(ANYBODY)
    keyring.learn([revoked(key("root", "admin"))])
    assert not keyring.is_good(ANYBODY)
    assert not keyring.may_claim(ANYBODY)


def test_whoever_waits_hears_of_what_was_taken_away_only(keyring: Keyring) -> None:
    heard: list[int] = []
    keyring.lessened = lambda: heard.append(1)

    def hears(*rows: KeyRow) -> bool:
        heard.clear()
        keyring.learn(rows)
        return bool(heard)

    assert hears(key("root", "admin")), "open mode ends"
    assert not hears(key("root", "admin"))
    assert not hears(key("w", "write"), key("eye", "read"))
    assert hears(key("hand", "worker")), "write may claim no more"
    assert not hears(key("hand2", "worker"))
    assert hears(revoked(key("eye", "read")))
    assert not hears(revoked(key("eye", "read")))


def test_write_s_fallback_ends_with_each_scope_for_good(keyring: Keyring) -> None:
    keyring.learn([key("root", "admin"), key("w", "write")])
    assert found(keyring, "w").scopes == {"write", "worker", "execute"}
    assert keyring.may_claim(found(keyring, "w"))
    keyring.learn([key("hand", "worker")])
    assert found(keyring, "w").scopes == {"write", "execute"}
    keyring.learn([revoked(key("hand", "worker")), revoked(key("shop", "execute"))])
    assert found(keyring, "w").scopes == {"write"}


async def test_what_others_do_is_noticed_at_the_next_look(store: Store, keyring: Keyring) -> None:
    await store.add_key(key("root", "admin"), None)
    await store.add_key(key("hand", "worker"), None)
    assert await keyring.run_once() == REFRESH_SECONDS
    caller = found(keyring, "hand")
    await store.revoke_key("id-hand", "api", AUDIT)
    assert keyring.is_good(caller)
    await keyring.run_once()
    assert not keyring.is_good(caller)


async def test_a_wake_makes_the_next_look_come_at_once(store: Store, keyring: Keyring) -> None:
    """A daemon that hears of another's commit needn't wait for its second."""
    store.on_commit(lambda tell: keyring.wake.set() if tell.keys else None)
    ended = asyncio.Event()
    keyring.lessened = ended.set
    await store.add_key(key("root", "admin"), None)
    await keyring.refresh()
    ended.clear()
    loop = asyncio.create_task(run_loop(keyring))
    await asyncio.sleep(0)
    begun = asyncio.get_running_loop().time()
    await store.revoke_key("id-root", "api", AUDIT)
    await asyncio.wait_for(ended.wait(), 5)
    assert asyncio.get_running_loop().time() - begun < REFRESH_SECONDS / 2
    loop.cancel()
