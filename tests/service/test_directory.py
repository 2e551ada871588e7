"""Who counts as live, what they serve, and since when nobody does."""

import asyncio

import msgspec
import pytest

from stepd.engine.model import Parked
from stepd.service.directory import Directory
from stepd.service.lives import LifeKey, Work
from stepd.store.base import Serve
from stepd.store.records import WorkerRow
from stepd_protocol.times import format_time
from tests.service.rows import step
from tests.service.store_fake import FakeStore

BILLING = LifeKey("me", "billing-1", "life-1")
ANY = (Serve("w"),)
WORK = Work("w", "1", "a", None)


@pytest.fixture
async def store() -> FakeStore:
    return FakeStore()


@pytest.fixture
async def directory(store: FakeStore) -> Directory:
    return Directory(store.as_store())


def row(seconds_ago: float, store: FakeStore, serves: str = '[{"workflow":"w"}]') -> WorkerRow:
    return WorkerRow("me", "billing-1", "life-1", serves.encode(), b'["*"]', store.clock - int(seconds_ago * 1000))


async def test_a_claim_makes_its_work_served(directory: Directory) -> None:
    assert not directory.is_served(WORK)
    directory.claims(BILLING, ANY, None)
    assert directory.is_served(WORK)
    assert directory.is_version_served("w", "1")
    assert not directory.is_served(WORK._replace(workflow="other"))


@pytest.mark.parametrize(
    ("serve", "served"),
    [
        (Serve("w", "1"), True),
        (Serve("w", "2"), False),
        (Serve("w", None, frozenset({"a"})), True),
        (Serve("w", "1", frozenset({"b"})), False),
    ],
)
async def test_an_entry_may_name_version_and_steps(directory: Directory, serve: Serve, served: bool) -> None:
    directory.claims(BILLING, (serve,), None)
    assert directory.is_served(WORK) == served


@pytest.mark.parametrize(("tenant", "served"), [("a", True), ("b", False), (None, False)])
async def test_a_worker_of_some_tenants_serves_these(directory: Directory, tenant: str | None, served: bool) -> None:
    directory.claims(BILLING, ANY, ("a",))
    assert directory.is_served(WORK._replace(tenant=tenant)) == served


async def test_the_last_claim_says_what_is_served(directory: Directory) -> None:
    directory.claims(BILLING, ANY, None)
    directory.claims(BILLING, (Serve("other"),), None)
    assert not directory.is_served(WORK)


async def test_a_life_counts_for_ninety_seconds_after_its_last_call(directory: Directory, store: FakeStore) -> None:
    store.rows = [row(80, store)]
    await directory.load()
    assert directory.is_served(WORK)
    old = Directory(store.as_store())
    store.rows = [row(100, store)]
    await old.load()
    assert not old.is_served(WORK)
    assert 9 < (old.unserved_seconds(WORK, None, store.clock) or 0) < 11


async def test_a_life_with_a_claim_that_waits_is_live_however_long(directory: Directory, store: FakeStore) -> None:
    life = directory.claims(BILLING, ANY, None)
    with directory.parked(life):
        life.seen_at -= 1_000
        assert directory.is_live(life)
        assert life.last_seen_ms(store.clock, asyncio.get_running_loop().time()) == store.clock
    assert directory.is_live(life), "the end of the wait is heard of too"


async def test_a_call_on_its_lease_is_a_life_s_call(directory: Directory) -> None:
    life = directory.claims(BILLING, ANY, None)
    directory.holds(life, "lease-1", "w", "1", "a")
    life.seen_at -= 1_000
    directory.beats("another", "me")
    assert not directory.is_live(life)
    directory.beats("lease-1", "me")
    assert directory.is_live(life)


async def test_holders_found_at_the_start_live_by_the_calls_of_their_principal(store: FakeStore) -> None:
    store.rows, store.held = [row(100, store)], {BILLING: 1}
    directory = Directory(store.as_store())
    await directory.load()
    assert not directory.is_served(WORK)
    directory.beats("a lease of before", "somebody else")
    assert not directory.is_served(WORK)
    directory.beats("a lease of before", "me")
    assert directory.is_served(WORK)


async def test_an_unservable_step_is_not_served_by_that_life(directory: Directory) -> None:
    life = directory.claims(BILLING, ANY, None)
    directory.holds(life, "lease-1", "w", "1", "a")
    directory.ends("lease-1", unservable=True)
    assert not directory.is_served(WORK)
    assert directory.is_served(WORK._replace(step="b"))
    directory.claims(LifeKey("me", "billing-1", "life-2"), ANY, None)
    assert directory.is_served(WORK)


async def test_a_queued_step_that_nobody_serves_is_blocked_since_nobody_did(
    directory: Directory, store: FakeStore
) -> None:
    queued_at = store.clock - 3_600_000
    blocked = directory.blocked(step(queued_at=queued_at), store.clock)
    assert blocked is not None
    assert (blocked.code, blocked.since) == ("no_worker", format_time(queued_at))
    assert blocked.detail == "no live worker serves w 1, step a"
    store.rows = [row(100, store)]
    await directory.load()
    blocked = directory.blocked(step(queued_at=queued_at), store.clock)
    assert blocked is not None
    assert format_time(store.clock - 11_000) < str(blocked.since) < format_time(store.clock - 9_000)


@pytest.mark.parametrize(
    "fields", [{"status": "running"}, {"status": "retry_wait"}, {"parked": Parked.HELD}, {"parked": Parked.PAUSED}]
)
async def test_what_no_claim_could_take_is_not_blocked(directory: Directory, fields: dict[str, object]) -> None:
    assert directory.blocked(step(**fields), 0) is None


async def test_whoever_was_told_not_to_be_offered_a_step_does_not_count(directory: Directory, store: FakeStore) -> None:
    directory.claims(BILLING, ANY, None)
    until = store.clock + 60_000
    shunned = msgspec.json.encode([["me", "life-1", until]])
    assert directory.blocked(step(shunned=shunned), store.clock) is not None
    assert directory.blocked(step(shunned=shunned), until) is None


async def test_lives_are_written_and_found_again(directory: Directory, store: FakeStore) -> None:
    directory.claims(BILLING, (Serve("w", "1", frozenset({"b", "a"})),), ("t",))
    await directory.close()
    (written,) = store.rows
    assert written.serves == b'[{"workflow":"w","version":"1","steps":["a","b"]}]'
    assert written.tenants == b'["t"]'
    again = Directory(store.as_store())
    await again.load()
    assert again.is_served(WORK._replace(tenant="t"))
    assert not again.is_served(WORK)


async def test_many_calls_are_one_row_written(directory: Directory, store: FakeStore) -> None:
    for _ in range(100):
        directory.claims(BILLING, ANY, None)
    assert store.rows == []
    await directory.close()
    assert len(store.rows) == 1
