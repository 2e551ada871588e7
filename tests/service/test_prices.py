"""The prices that a daemon has at hand: the newest it has heard of, and never an older one again."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stepd.clock import SystemClock
from stepd.engine.model import Audit
from stepd.engine.work import Settings
from stepd.service.prices import Prices
from stepd.store.accounts import PricesRow
from stepd.store.sqlite.store import SqliteStore

AUDIT = Audit(1, "boss", None, "prices.put", "", None, None, "done")


def row(currency: str = "USD") -> PricesRow:
    return PricesRow(0, 1, "boss", currency, b"[]")


def known(prices: Prices) -> tuple[int, str] | None:
    """Version and currency of the table at hand."""
    return None if prices.table is None else (prices.table.version, prices.table.currency)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path / "stepd.db", Settings(), SystemClock())
    await store.open()
    yield store
    await store.close()


async def test_what_others_put_is_noticed(store: SqliteStore) -> None:
    prices = Prices(store)
    assert await prices.run_once() <= 5
    assert known(prices) is None
    await store.put_prices(row("EUR"), AUDIT)
    await prices.run_once()
    first = prices.table
    assert known(prices) == (1, "EUR")
    await prices.run_once()
    assert prices.table is first, "nothing is read again that is known"
    await store.put_prices(row("USD"), AUDIT)
    await prices.run_once()
    assert known(prices) == (2, "USD")


async def test_an_older_table_that_is_heard_of_later_changes_nothing(store: SqliteStore) -> None:
    prices = Prices(store)
    older, newer = await store.put_prices(row(), AUDIT), await store.put_prices(row(), AUDIT)
    assert isinstance(older, PricesRow)
    assert isinstance(newer, PricesRow)
    prices.learn(newer)
    prices.learn(older)
    assert known(prices) == (2, "USD")
