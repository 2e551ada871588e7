"""What a store tells of its commits, and what is counted of it."""

from __future__ import annotations

import asyncio

import pytest

from stepd.engine import commands as c
from stepd.engine.work import Settings
from stepd.store.base import Decide
from stepd.telemetry.committed import Committed
from stepd.telemetry.metrics import Metrics
from tests.faults.figures import Figures, read_figures
from tests.store.shop import Shop, heartbeat, step


@pytest.fixture
def settings() -> Settings:
    return Settings(lease_ms=10_000, reclaim_ms=5_000)


def counted(shop: Shop) -> Figures:
    """What is counted of all that the shop was told."""
    metrics = Metrics()
    committed = Committed(metrics)
    for tell in shop.told:
        committed.count(tell)
    committed.show()
    return read_figures(metrics.written().decode())


async def lapse(shop: Shop, ms: int = 20_000) -> None:
    """What is due after that time, as the sweeper would find it."""
    shop.clock.at += ms
    for due in await shop.store.due(100):
        assert due.attempt_id is not None
        await shop.command(due.execution_id, c.AttemptDue(due.attempt_id, 1000))


async def test_a_commit_tells_what_its_decisions_wrote_and_how_it_went(shop: Shop) -> None:
    await shop.register()
    shop.told.clear()
    ids = await asyncio.gather(*(shop.start() for _ in range(3)))
    written = [changes for tell in shop.told for changes in tell.written]
    assert sorted(changes.execution.id for changes in written) == sorted(ids)
    assert all(changes.events[0].type == "execution.created" for changes in written)
    batches = [tell.batch for tell in shop.told if tell.batch is not None]
    assert sum(batch.units for batch in batches) == 3
    assert all(0 <= batch.commit_seconds <= batch.seconds for batch in batches)


async def test_what_changed_nothing_is_not_told_as_written(shop: Shop) -> None:
    await shop.register()
    id_ = await shop.start()
    shop.told.clear()
    await shop.command(id_, c.ExecutionDue())
    assert not any(tell.written for tell in shop.told)


async def test_a_run_is_counted(shop: Shop) -> None:
    await shop.register(steps=[step("a"), step("b")])
    await shop.run_to_end()
    shop.clock.at += 1_000
    await shop.start()
    shop.clock.at += 3_000
    await shop.fail(await shop.claim_one(), "retryable")
    figures = counted(shop)
    assert figures.value("stepd_executions_created_total") == 2
    assert figures.value("stepd_executions_ended_total", status="completed") == 1
    assert figures.value("stepd_executions_ended_total") == 1
    assert figures.value("stepd_leases_granted_total") == 3
    assert figures.value("stepd_steps_ended_total", status="succeeded") == 2
    assert figures.value("stepd_attempts_failed_total") == figures.value("stepd_retries_total") == 1
    assert figures.value("stepd_claim_latency_seconds_count") == 3
    assert figures.value("stepd_claim_latency_seconds_sum") == 3
    assert figures.value("stepd_batch_units_count") == figures.value("stepd_batch_seconds_count") > 0


async def test_lapses_are_counted(shop: Shop) -> None:
    await shop.register(steps=[step("charge", effect="non_idempotent_write", delivery="at_most_once")])
    await shop.start()
    late = await shop.claim_one()
    await shop.store.submit(heartbeat(late, started=True))
    shop.clock.at += 12_000
    await shop.complete(late)
    await shop.start()
    lost = await shop.claim_one()
    await shop.store.submit(heartbeat(lost, started=True))
    await lapse(shop)
    await lapse(shop)
    figures = counted(shop)
    assert figures.value("stepd_settlements_late_total") == 1
    assert figures.value("stepd_attempts_orphaned_total") == 1
    assert figures.value("stepd_attempts_lost_total") == 1
    assert figures.value("stepd_steps_ended_total", status="uncertain") == 1
    assert figures.value("stepd_reconciliations_required_total") == 1


async def test_attempts_in_flight_are_counted_by_status(shop: Shop) -> None:
    await shop.register(steps=[step("a")])
    for _ in range(3):
        await shop.start()
    await shop.claim_one()
    await lapse(shop, 10_000)
    await shop.claim_one()
    assert await shop.store.flight() == {"orphaned": 1, "running": 1}


async def test_undelivered_leases_are_counted_and_others_given_back_are_not(shop: Shop) -> None:
    await shop.register(steps=[step("a")])
    await shop.start()
    granted = await shop.claim_one()
    await shop.store.submit(Decide(c.GiveBack(granted.attempt.id), attempt_id=granted.attempt.id))
    await shop.fail(await shop.claim_one(), "interrupted")
    figures = counted(shop)
    assert figures.value("stepd_leases_undelivered_total") == 1
    assert figures.value("stepd_leases_granted_total") == 2


async def test_signals_are_counted_by_how_they_came(shop: Shop) -> None:
    await shop.register(steps=[{"id": id_, "kind": "wait", "event": "go"} for id_ in ("first", "second", "third")])
    id_ = await shop.start()
    for source in (None, None, "event-1"):
        await shop.command(id_, c.Signal(c.Actor("p"), "go", b"null", source))
    figures = counted(shop)
    assert figures.value("stepd_signals_received_total", by="call") == 2
    assert figures.value("stepd_signals_received_total", by="event") == 1
