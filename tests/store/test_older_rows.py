"""What an older schema held goes on under the newest: nothing is lost, and what it lacks is taken with care."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Protocol

import msgspec
import pytest

from stepd.clock import Clock
from stepd.engine import commands as c
from stepd.engine.spending import whole
from stepd.engine.work import Settings
from stepd.store.postgres.store import PostgresStore
from stepd_migrations import run
from tests.store.backends import Backend, PostgresBackend, SqliteBackend
from tests.store.shop import Shop, complete, step
from tests.support.postgres import Database, cluster_database, wait_for

STEPS = [step("read"), step("pay", effect="idempotent_write"), step("tell", effect="idempotent_write")]


class Aged(Backend, Protocol):
    """A database that can be taken back to an older version of its schema, and brought up again."""

    def age(self, to: str) -> None: ...


class AgedFile(SqliteBackend):
    def age(self, to: str) -> None:
        run.downgrade_sqlite(self.file, to)
        run.upgrade_sqlite(self.file)


class AgedServer(PostgresBackend):
    def __init__(self, database: Database) -> None:
        self.database = database

    def make(self, settings: Settings, clock: Clock) -> PostgresStore:
        return PostgresStore(self.database.url, settings, clock, allow_owner_role=True)

    def age(self, to: str) -> None:
        wait_for(run.downgrade_postgres(self.database.url, to))
        wait_for(run.upgrade_postgres(self.database.url))


@pytest.fixture(params=["sqlite", "postgres"])
def aged(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Aged]:
    if request.param == "sqlite":
        yield AgedFile(tmp_path)
        return
    with cluster_database() as database:
        yield AgedServer(database)


@pytest.fixture
async def shop(aged: Aged) -> AsyncIterator[Shop]:
    shop = Shop(aged, Settings())
    await shop.open()
    try:
        yield shop
    finally:
        await shop.close()


async def test_executions_at_work_go_on(shop: Shop, aged: Aged) -> None:
    await shop.register(steps=STEPS)
    ended = await shop.run_to_end()
    id_ = await shop.start()
    await shop.complete(await shop.claim_one())
    granted = await shop.claim_one()
    journal, rows = await shop.journal(id_), await shop.view(ended, attempts=True, payloads=True)
    await shop.store.close()
    aged.age("0001")
    await shop.reopen()
    kept = await shop.view(ended, attempts=True, payloads=True)
    assert (kept.attempts, kept.payloads) == (rows.attempts, rows.payloads)
    assert (kept.execution.status, kept.execution.seq) == ("completed", rows.execution.seq)
    assert await shop.journal(id_) == journal
    await shop.complete(granted, {"paid": 1})
    await shop.complete(await shop.claim_one())
    assert await shop.status(id_) == "completed"


async def test_a_write_that_had_succeeded_stands(shop: Shop, aged: Aged) -> None:
    await shop.register(steps=STEPS)
    id_ = await shop.start()
    for _ in range(2):
        await shop.complete(await shop.claim_one())
    granted = await shop.claim_one()
    await shop.store.close()
    aged.age("0001")
    await shop.reopen()
    await shop.fail(granted, "fatal", effect="none")
    assert await shop.status(id_) == "reconciliation_required"


async def test_tokens_from_before_there_were_prices_have_none(shop: Shop, aged: Aged) -> None:
    await shop.register()
    cases = ((3, 4), (2**53, 200), (0, 1))
    ids = []
    for tokens, lines in cases:
        ids.append(await shop.start())
        usage = [{"model": f"m{line}", "input_tokens": tokens, "output_tokens": tokens} for line in range(lines)]
        granted = await shop.claim_one()
        await shop.store.submit(complete(granted, reported=c.Reported(usage=msgspec.json.encode(usage))))
    await shop.store.close()
    aged.age("0002")
    await shop.reopen()
    for id_, (tokens, lines) in zip(ids, cases, strict=True):
        spent = whole((await shop.view(id_)).execution)
        assert (spent.unpriced_tokens, spent.cost_nano, spent.currency) == (2 * tokens * lines, 0, None)
