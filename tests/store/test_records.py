"""The service's own records: its row, its settings, keys, workers' lives, the audit log."""

from __future__ import annotations

import asyncio
from typing import Any

from stepd.engine.model import Audit
from stepd.store.records import KeyRow, WorkerRow
from tests.store.shop import NOON, Shop


def key(name: str, **more: Any) -> KeyRow:
    fields: dict[str, Any] = {
        "id": f"id-{name}",
        "name": name,
        "secret_hash": "hash",
        "scopes": b'["admin"]',
        "tenants": b'["*"]',
        "source": "api",
        "created_at": NOON,
        "revoked_at": None,
    }
    return KeyRow(**fields | more)


def said(action: str) -> Audit:
    return Audit(NOON, "boss", "key-1", action, "it", None, "127.0.0.1", "done")


def life(instance: str, seen_at: int, serves: bytes = b"[]") -> WorkerRow:
    return WorkerRow("hand", "w", instance, serves, b'["*"]', seen_at)


async def test_the_service_has_one_row_for_ever(shop: Shop) -> None:
    rows = await asyncio.gather(*(shop.store.service() for _ in range(5)))
    assert all(row == rows[0] for row in rows)
    await shop.store.pulse()
    await shop.reopen()
    row = await shop.store.service()
    assert (row.id, row.name, row.pulse_at) == (rows[0].id, rows[0].name, NOON)


async def test_the_first_to_share_settings_says_which_stand(shop: Shop) -> None:
    assert await shop.store.share_settings(b'{"lease":30}') == b'{"lease":30}'
    assert await shop.store.share_settings(b'{"lease":60}') == b'{"lease":30}'
    await shop.reopen()
    assert (await shop.store.service()).settings == b'{"lease":30}'


async def test_keys_are_kept_also_when_they_were_revoked(shop: Shop) -> None:
    await shop.store.add_key(key("one"), said("key.add"))
    await shop.store.add_key(key("two", created_at=NOON + 1), None)
    shop.clock.at += 5000
    assert await shop.store.revoke_key("id-one", "api", said("key.revoke"))
    assert not await shop.store.revoke_key("id-one", "api", said("key.revoke"))
    assert not await shop.store.revoke_key("id-three", "api", said("key.revoke"))
    await shop.reopen()
    expected = [key("one", revoked_at=NOON + 5000), key("two", created_at=NOON + 1)]
    assert await shop.store.keys() == expected
    assert shop.backend.query("select action from audit order by id") == [("key.add",), ("key.revoke",)]


async def test_two_keys_may_bear_one_name(shop: Shop) -> None:
    await shop.store.add_key(key("one"), None)
    await shop.store.add_key(key("one", id="another"), None)
    assert [row.name for row in await shop.store.keys()] == ["one", "one"]


async def test_a_life_is_noted_as_it_was_last_seen(shop: Shop) -> None:
    await shop.store.seen([life("a", NOON), life("b", NOON)])
    await shop.store.seen([life("a", NOON + 10, b'[{"workflow":"flow"}]')])
    assert await shop.store.workers(NOON) == [life("a", NOON + 10, b'[{"workflow":"flow"}]'), life("b", NOON)]
    assert await shop.store.workers(NOON + 1) == [life("a", NOON + 10, b'[{"workflow":"flow"}]')]


async def test_audit_rows_are_numbered_as_they_come(shop: Shop) -> None:
    await shop.store.audit([said("read"), said("refused")])
    await shop.store.audit([said("read")])
    rows = shop.backend.query("select id, at, principal, key_id, action, object, tenant, remote, outcome from audit")
    assert [row[0] for row in rows] == sorted({row[0] for row in rows})
    assert [row[1:] for row in rows] == [
        (NOON, "boss", "key-1", action, "it", None, "127.0.0.1", "done") for action in ("read", "refused", "read")
    ]


async def test_the_store_tells_its_clock(shop: Shop) -> None:
    assert await shop.store.now() == NOON
