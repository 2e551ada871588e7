"""The service's own records: its row, its settings, keys, workers' lives, the audit log."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepd.engine.model import Audit
from stepd.store.records import AuditFilter, KeyRow, SignInRow, WorkerRow
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
    assert await shop.store.add_key(key("one", source="settings"), said("key.add"))
    await shop.store.add_key(key("two", created_at=NOON + 1), None)
    shop.clock.at += 5000
    assert await shop.store.revoke_key("id-one", "api", said("key.revoke"))
    assert not await shop.store.revoke_key("id-one", "api", said("key.revoke"))
    assert not await shop.store.revoke_key("id-three", "api", said("key.revoke"))
    await shop.reopen()
    expected = [key("one", source="api", revoked_at=NOON + 5000), key("two", created_at=NOON + 1)]
    assert await shop.store.keys() == expected
    assert shop.backend.query("select action from audit order by id") == [("key.add",), ("key.revoke",)]


async def test_the_first_key_is_made_where_there_never_was_one(shop: Shop) -> None:
    attempts = [shop.store.add_key(key(name), said(f"key.{name}"), first=True) for name in ("one", "two", "three")]
    assert await asyncio.gather(*attempts) == [True, False, False]
    assert await shop.store.revoke_key("id-one", "api", said("key.revoke"))
    assert not await shop.store.add_key(key("four"), said("key.four"), first=True)
    assert [row.name for row in await shop.store.keys()] == ["one"]
    assert shop.backend.query("select action from audit order by id") == [("key.one",), ("key.revoke",)]


async def test_a_change_of_keys_is_told(shop: Shop) -> None:
    await shop.store.audit([said("read")])
    assert not any(tell.keys for tell in shop.told)
    await shop.store.add_key(key("one"), None)
    assert shop.told.pop().keys
    await shop.store.revoke_key("id-one", "api", said("key.revoke"))
    assert shop.told.pop().keys
    await shop.store.revoke_key("id-one", "api", said("key.revoke"))
    assert not shop.told.pop().keys, "nothing changed"


async def test_a_change_of_keys_without_its_audit_row_is_none(shop: Shop) -> None:
    await shop.store.add_key(key("one"), None)
    shop.backend.refuse_inserts("audit", "new.action like 'key.%'")
    with pytest.raises(Exception, match="refused by the test"):
        await shop.store.add_key(key("two"), said("key.create"))
    with pytest.raises(Exception, match="refused by the test"):
        await shop.store.revoke_key("id-one", "api", said("key.revoke"))
    assert await shop.store.keys() == [key("one")]
    shop.backend.allow_inserts("audit")
    assert await shop.store.revoke_key("id-one", "api", said("key.revoke"))


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


async def test_the_audit_log_is_read_newest_first(shop: Shop) -> None:
    rows = [
        Audit(NOON + at, principal, key_id, action, "it", tenant, None, outcome)
        for at, principal, key_id, action, tenant, outcome in (
            (0, "boss", "k1", "read", None, "done"),
            (5, "boss", "k2", "start", "a", "done"),
            (5, "hand", None, "start", "b", "refused: forbidden"),
            (9, "boss", "k1", "start", "a", "done"),
        )
    ]
    await shop.store.audit(rows)
    newest = await shop.store.audited(AuditFilter(), None, 10)
    assert [row.entry for row in newest] == rows[::-1]
    assert [row.number for row in newest] == sorted((row.number for row in newest), reverse=True)
    for filter_, tenants, found in (
        (AuditFilter(principal="boss"), None, [3, 1, 0]),
        (AuditFilter(principal="boss", action="start", key_id="k1"), None, [3]),
        (AuditFilter(object="that"), None, []),
        (AuditFilter(tenant="a"), None, [3, 1]),
        (AuditFilter(tenant="a"), ("b",), []),
        (AuditFilter(), ("a", "b"), [3, 2, 1]),
        (AuditFilter(), (), []),
        (AuditFilter(outcome="done"), None, [3, 1, 0]),
        (AuditFilter(outcome="refused"), None, [2]),
        (AuditFilter(outcome="refused"), ("a",), []),
        (AuditFilter(at_after=NOON, at_before=NOON + 9), None, [2, 1]),
        (AuditFilter(cursor=(NOON + 5, newest[1].number)), None, [1, 0]),
    ):
        told = await shop.store.audited(filter_, tenants, 10)
        assert [row.entry for row in told] == [rows[number] for number in found], filter_
    assert [row.entry for row in await shop.store.audited(AuditFilter(), None, 2)] == rows[:1:-1]


async def test_leases_in_flight_are_counted_by_tenant(shop: Shop) -> None:
    await shop.register()
    for tenant in ("a", "a", "b", None):
        await shop.start(tenant=tenant)
    assert len(await shop.claim(max=10)) == 4
    for tenants, count in ((None, 4), (("a",), 2), (("a", "b"), 3)):
        assert await shop.store.held_leases(tenants) == {("hand", "w", "w-1"): count}
    assert await shop.store.held_leases(("c",)) == {}


async def test_leases_in_flight_are_counted_up_to_a_time(shop: Shop) -> None:
    await shop.register()
    for _ in range(2):
        await shop.start(tenant="a")
    await shop.claim_one()
    first = await shop.store.now()
    shop.clock.at += 1
    await shop.claim_one()
    for tenants in (None, ("a",)):
        for until, count in ((first, 1), (first + 1, 2), (None, 2)):
            assert await shop.store.held_leases(tenants, until=until) == {("hand", "w", "w-1"): count}
        assert await shop.store.held_leases(tenants, until=first - 1) == {}


async def test_the_store_tells_its_clock(shop: Shop) -> None:
    assert await shop.store.now() == NOON


async def test_a_sign_in_is_kept_until_it_ends_or_its_time_is_over(shop: Shop) -> None:
    row = SignInRow("hash-1", "key-1", "token", NOON, NOON + 1_000)
    await shop.store.sign_in(row, said("session.create"))
    await shop.store.sign_in(SignInRow("hash-2", "key-1", "token", NOON, NOON + 9_000), said("session.create"))
    await shop.reopen()
    assert await shop.store.signed_in("hash-1") == row
    assert await shop.store.signed_in("hash-3") is None
    shop.clock.at = NOON + 1_001
    assert await shop.store.forget(10) == 1
    assert await shop.store.signed_in("hash-1") is None
    await shop.store.sign_out("hash-2")
    await shop.store.sign_out("hash-2")
    assert await shop.store.signed_in("hash-2") is None
    assert len(await shop.store.audited(AuditFilter(action="session.create"), None, 10)) == 2
