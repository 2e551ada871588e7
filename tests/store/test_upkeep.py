"""What the loops ask of a store: pulse and grace, what is due, what is open, what may go."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from stepd.engine import commands as c
from stepd.engine.model import Attempt, Audit
from stepd.loops.sweeper import Sweeper
from stepd.store.base import Decide, Due
from stepd.store.records import AuditFilter, WorkerRow
from tests.store.shop import EVERYTHING, NOON, Shop, claim, heartbeat, remember, step

YEAR_MS = 365 * 86_400_000

LEASE = 30_000
RECLAIM = 15_000


async def attempt(shop: Shop, id_: str) -> Attempt:
    (row,) = (await shop.view(id_, attempts=True)).attempts
    return row


async def test_many_sleeps_that_end_at_once_hold_up_no_claim(shop: Shop) -> None:
    await shop.register("naps", steps=[{"id": "nap", "kind": "sleep", "seconds": 1}])
    await shop.register()
    await asyncio.gather(*(shop.start("naps") for _ in range(256)))
    await shop.start()
    shop.clock.at += 2_000
    shop.told.clear()

    async def nothing() -> None:
        """There is nothing to catch up with."""

    def ended() -> int:
        return sum(status == "completed" for tell in shop.told for _, status in tell.executions.values())

    sweep = asyncio.create_task(Sweeper(shop.store, nothing).run_once())
    async with asyncio.timeout(10):
        while not ended():  # noqa: ASYNC110 — what is polled for is no event
            await asyncio.sleep(0)
        await shop.claim_one()
        assert ended() < 128
        await sweep
    assert ended() == 256


# -- pulse and grace ------------------------------------------------------------------------------------------------


async def test_a_pulse_that_beats_gives_no_grace(shop: Shop) -> None:
    await shop.register()
    id_ = await shop.start()
    granted = await shop.claim_one()
    assert not await shop.store.pulse()
    for _ in range(5):
        shop.clock.at += 5000
        assert not await shop.store.pulse()
    assert (await shop.store.service()).pulse_at == NOON + 25_000
    assert await attempt(shop, id_) == granted.attempt


async def test_after_a_standstill_every_lease_has_its_whole_length_again(shop: Shop) -> None:
    await shop.register()
    id_ = await shop.start()
    before = (await shop.claim_one()).attempt
    await shop.store.pulse()
    shop.clock.at += 100_000
    assert await shop.store.pulse()
    after = await attempt(shop, id_)
    now = shop.clock.at
    assert (after.expires_at, after.reclaim_at, after.next_at) == (now + LEASE, now + LEASE + RECLAIM, now + LEASE)
    assert (after.fence, after.status) == (before.fence, "running")
    assert not await shop.store.pulse()
    assert await shop.store.due(10) == []


async def test_grace_never_shortens_a_lease(shop: Shop) -> None:
    await shop.register()
    await shop.store.pulse()
    shop.clock.at += 6000
    id_ = await shop.start()
    granted = await shop.claim_one()
    shop.clock.at -= 500
    assert await shop.store.pulse()
    assert await attempt(shop, id_) == granted.attempt


async def test_a_lease_not_started_keeps_its_distance_to_the_take_back(shop: Shop) -> None:
    await shop.register(steps=[step("w", effect="non_idempotent_write", reclaim_seconds=7)])
    id_ = await shop.start()
    assert (await shop.claim_one()).attempt.status == "leased"
    await shop.store.pulse()
    shop.clock.at += 20_000
    assert await shop.store.pulse()
    after, now = await attempt(shop, id_), shop.clock.at
    assert (after.expires_at, after.reclaim_at, after.next_at) == (now + LEASE, now + LEASE + 7000, now + LEASE + 7000)


async def test_an_orphan_gets_its_time_to_be_taken_back_anew(shop: Shop) -> None:
    await shop.register()
    id_ = await shop.start()
    granted = await shop.claim_one()
    shop.clock.at += LEASE
    await shop.store.submit(Decide(c.AttemptDue(granted.attempt.id, 1000), attempt_id=granted.attempt.id))
    assert (await attempt(shop, id_)).status == "orphaned"
    await shop.store.pulse()
    shop.clock.at += 60_000
    assert await shop.store.pulse()
    after, now = await attempt(shop, id_), shop.clock.at
    assert (after.status, after.reclaim_at, after.next_at) == ("orphaned", now + RECLAIM, now + RECLAIM)
    assert after.expires_at == granted.attempt.expires_at


async def test_a_time_out_is_not_put_off_by_grace(shop: Shop) -> None:
    await shop.register(steps=[step("a", timeout_seconds=20)])
    id_ = await shop.start()
    await shop.claim_one()
    await shop.store.pulse()
    shop.clock.at += 10_000
    assert await shop.store.pulse()
    after = await attempt(shop, id_)
    assert (after.expires_at, after.next_at) == (shop.clock.at + LEASE, NOON + 20_000)


async def test_a_decision_sees_the_grace(shop: Shop) -> None:
    await shop.register()
    await shop.start()
    granted = await shop.claim_one()
    await shop.store.pulse()
    shop.clock.at += 100_000
    await shop.store.pulse()
    (alive,) = await shop.store.submit(heartbeat(granted))
    assert isinstance(alive, c.Alive)


# -- what is due ----------------------------------------------------------------------------------------------------


async def test_what_is_due_is_found_oldest_first(shop: Shop) -> None:
    await shop.register(steps=[step("a", lease_seconds=31, retry={"initial_seconds": 8})], timeout_seconds=90)
    await shop.register("late", steps=[step("a", queue_timeout_seconds=20)])
    retried = await shop.start()
    await shop.fail(await shop.claim_one(), "retryable")
    leased = await shop.start()
    granted = await shop.claim_one()
    queued = await shop.start("late")
    scheduled = await shop.start(start_at=NOON + 40_000)
    expected = [
        (NOON + 8000, Due(retried, None, 0, -1, at=NOON + 8000)),
        (NOON + 20_000, Due(queued, None, 0, -1, at=NOON + 20_000)),
        (NOON + 31_000, Due(leased, granted.attempt.id, at=NOON + 31_000)),
        (NOON + 40_000, Due(scheduled, at=NOON + 40_000)),
    ]
    for number, (time, _) in enumerate(expected):
        shop.clock.at = time - 1
        assert await shop.store.due(10) == [due for _, due in expected[:number]]
        shop.clock.at = time
        assert await shop.store.due(10) == [due for _, due in expected[: number + 1]]
    assert await shop.store.due(2) == [due for _, due in expected[:2]]
    assert await shop.store.next_due() == NOON + 8000


async def test_the_next_time_is_the_earliest_of_all(shop: Shop) -> None:
    assert await shop.store.next_due() is None
    await shop.register(steps=[step("a", retry={"initial_seconds": 8})], timeout_seconds=90)
    await shop.start()
    assert await shop.store.next_due() == NOON + 90_000
    granted = await shop.claim_one()
    assert await shop.store.next_due() == NOON + LEASE
    await shop.fail(granted, "retryable")
    assert await shop.store.next_due() == NOON + 8000


async def test_paused_and_held_steps_are_not_due(shop: Shop) -> None:
    await shop.register(steps=[step("a", queue_timeout_seconds=20)])
    id_ = await shop.start()
    await shop.command(id_, c.Pause(c.Actor("p")))
    shop.clock.at += 60_000
    assert await shop.store.due(10) == []
    assert await shop.store.next_due() is None


async def test_what_was_swept_is_due_no_more(shop: Shop) -> None:
    await shop.register(steps=[step("a", retry={"initial_seconds": 8})])
    id_ = await shop.start()
    await shop.fail(await shop.claim_one(), "retryable")
    assert await shop.claim() == []
    shop.clock.at += 8000
    (due,) = await shop.store.due(10)
    assert due.ordinal is not None
    assert due.index is not None
    await shop.command(due.execution_id, c.StepDue(due.ordinal, due.index))
    assert shop.told[-1].ready
    assert await shop.store.due(10) == []
    assert (await shop.claim_one()).execution.id == id_


async def test_open_executions_are_listed_page_by_page(shop: Shop) -> None:
    await shop.register()
    await shop.run_to_end()
    ids = sorted([await shop.start() for _ in range(5)])
    found, after = [], ""
    while page := await shop.store.open_executions(after, 2):
        found += page
        after = page[-1]
    assert found == ids


# -- what may go ----------------------------------------------------------------------------------------------------

THEIRS = ("steps", "attempts", "payloads", "events", "spans")


async def test_ended_executions_go_with_all_that_is_theirs_when_their_time_is_over(shop: Shop) -> None:
    await shop.register(retention_seconds=100)
    gone = await shop.run_to_end(labels={"k": "v"}, idempotency=remember("key"))
    span = c.SpanReport("a" * 16, None, b"{}", None)
    still_open = await shop.start(labels={"k": "v"})
    await shop.store.submit(heartbeat(await shop.claim_one(), reported=c.Reported(spans=(span,))))
    shop.clock.at += 99_999
    assert await shop.store.remove_ended(10) == 0
    kept = await shop.run_to_end()
    shop.clock.at += 1
    assert await shop.store.remove_ended(10) == 1
    assert await shop.store.execution(gone, EVERYTHING) is None
    assert await shop.store.events(gone, 0, 10) == []
    for table in THEIRS:
        left = {id_ for (id_,) in shop.backend.query(f"select distinct execution_id from {table}")}
        assert left <= {still_open, kept}, table
        assert still_open in left, table
    assert shop.backend.query("select execution_id from labels") == [(still_open,)]
    assert shop.backend.query("select * from leavings") == []
    assert await shop.store.remembered("starter", "POST /v1/executions", "key") is not None


async def test_a_removal_takes_no_more_than_it_is_told(shop: Shop) -> None:
    await shop.register(retention_seconds=100)
    for _ in range(7):
        await shop.run_to_end()
    shop.clock.at += 100_000
    assert await shop.store.remove_ended(3) == 3
    assert await shop.store.remove_ended(10) == 4
    assert await shop.store.remove_ended(10) == 0
    for table in ("executions", *THEIRS):
        assert shop.backend.query(f"select * from {table}") == []


async def test_a_large_execution_is_removed_whole(shop: Shop) -> None:
    await shop.register(steps=[step(f"s{n}", needs=[]) for n in range(300)], retention_seconds=1)
    await shop.start()
    for _ in range(3):
        for granted in await shop.claim(max=100):
            await shop.complete(granted, "x" * 100)
    shop.clock.at += 1000
    assert await shop.store.remove_ended(10) == 1
    for table in THEIRS:
        assert shop.backend.query(f"select * from {table}") == []


async def test_what_a_crash_left_of_a_removal_is_removed_later(shop: Shop) -> None:
    await shop.register()
    id_ = await shop.run_to_end()
    shop.backend.query("delete from executions")
    shop.backend.query("insert into leavings values (?)", id_)
    assert await shop.store.remove_ended(10) == 0
    for table in (*THEIRS, "leavings"):
        assert shop.backend.query(f"select * from {table}") == []


@pytest.mark.parametrize("status", ["queued", "running", "paused", "reconciliation_required"])
async def test_what_has_not_ended_is_never_removed(shop: Shop, status: str) -> None:
    await shop.register()
    id_ = await shop.start()
    shop.backend.query("update executions set status = ?, remove_at = 1 where id = ?", status, id_)
    assert await shop.store.remove_ended(10) == 0
    assert await shop.status(id_) == status


async def test_a_claim_is_remembered_for_ten_minutes_and_until_its_last_lease_is_settled(shop: Shop) -> None:
    await shop.register(steps=[step("a", lease_seconds=3600, retry={"max_attempts": 1})])
    await shop.start()
    await shop.start()
    request = claim(max=2)
    (dealt,) = await shop.deal(request)
    await shop.complete(dealt.leases[0])
    shop.clock.at += 600_001
    assert await shop.store.forget(10) == 0
    await shop.complete(dealt.leases[1])
    assert await shop.store.forget(10) == 1
    assert not (await shop.deal(claim(claim_id=request.claim_id)))[0].known


async def test_a_settled_claim_is_remembered_for_ten_minutes(shop: Shop) -> None:
    await shop.register()
    await shop.run_to_end()
    shop.clock.at += 600_000
    assert await shop.store.forget(10) == 0
    shop.clock.at += 1
    assert await shop.store.forget(10) == 1


async def test_keys_of_calls_are_kept_for_seven_days(shop: Shop) -> None:
    await shop.register()
    await shop.start(idempotency=remember("key"))
    shop.clock.at += 7 * 86_400_000
    assert await shop.store.forget(10) == 0
    shop.clock.at += 1
    assert await shop.store.forget(10) == 1
    assert await shop.store.remembered("starter", "POST /v1/executions", "key") is None


async def test_lives_of_workers_are_forgotten_when_they_were_not_seen_for_a_day(shop: Shop) -> None:
    def life(instance: str, seen_at: int) -> WorkerRow:
        return WorkerRow("hand", "w", instance, b"[]", msgspec.json.encode(["*"]), seen_at)

    await shop.store.seen([life("old", NOON), life("new", NOON + 1)])
    shop.clock.at += 86_400_001
    assert await shop.store.forget(10) == 1
    assert await shop.store.workers(0) == [life("new", NOON + 1)]


async def test_the_audit_log_is_kept_for_a_year(shop: Shop) -> None:
    def said(at: int) -> Audit:
        return Audit(at, "p", None, "read", "x", None, None, "done")

    kept = [said(NOON - YEAR_MS), said(NOON)]
    # Long ago also for the server's own clock, by which PostgreSQL lets rows go.
    await shop.store.audit([said(1_000), said(2_000), *kept])
    assert await shop.store.forget(1) == 1
    assert await shop.store.forget(10) == 1
    assert await shop.store.forget(10) == 0
    assert [row.entry for row in await shop.store.audited(AuditFilter(), None, 10)] == kept[::-1]


async def test_forgetting_takes_no_more_than_it_is_told(shop: Shop) -> None:
    await shop.register()
    keys: list[Any] = [remember(f"key {n}") for n in range(5)]
    for key in keys:
        await shop.start(idempotency=key)
    shop.clock.at += 8 * 86_400_000
    assert [await shop.store.forget(2) for _ in range(4)] == [2, 2, 1, 0]
