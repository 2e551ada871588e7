"""Prices and the log of usage on every store: versions, what is written with an attempt, sums, how long it stays."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from stepd.engine import commands as c
from stepd.engine.model import Audit
from stepd.engine.pricing import SUM_MAX, Price, PriceTable
from stepd.engine.spending import whole
from stepd.loops.courier import Courier
from stepd.store.accounts import PricesRow, UsageFilter, UsageSum
from stepd.store.records import AuditFilter
from tests.store.shop import NOON, Shop, complete, heartbeat, step

DAY = 86_400_000
DOLLARS = PriceTable(1, "USD", [Price("m", 0, (1_000_000,) * 5)])
EVERYTHING = UsageFilter()


def row(currency: str = "USD", body: bytes = b"[]") -> PricesRow:
    return PricesRow(0, NOON, "boss", currency, body)


def audit() -> Audit:
    return Audit(NOON, "boss", "key-1", "prices.put", "", None, "127.0.0.1", "done")


def used(*lines: tuple[str, int], prices: PriceTable | None = DOLLARS) -> c.Reported:
    usage = [{"model": model, "input_tokens": tokens} for model, tokens in lines]
    return c.Reported(usage=msgspec.json.encode(usage), prices=prices)


async def sums(shop: Shop, tenants: tuple[str, ...] | None = None, limit: int = 100, **filter_: Any) -> list[Any]:
    """Group, tokens of input, cost, unpriced and attempts of each sum."""
    found = await shop.store.usage(UsageFilter(**{"currency": "USD"} | filter_), tenants, limit)
    return [(*one.group, one.counts[0], one.cost, one.unpriced, one.attempts) for one in found]


async def work(shop: Shop, *lines: tuple[str, int], prices: PriceTable | None = DOLLARS, **start: Any) -> str:
    """An execution with one attempt that used this."""
    execution_id = await shop.start(**start)
    await shop.store.submit(complete(await shop.claim_one(), reported=used(*lines, prices=prices)))
    return execution_id


async def test_each_table_of_prices_is_a_version(shop: Shop) -> None:
    assert await shop.store.prices() is None
    shop.told.clear()
    first = await shop.store.put_prices(row(body=b"[1]"), audit())
    second = await shop.store.put_prices(row(body=b"[2]"), audit())
    assert (first, second) == (PricesRow(1, NOON, "boss", "USD", b"[1]"), PricesRow(2, NOON, "boss", "USD", b"[2]"))
    assert [tell.prices for tell in shop.told] == [True, True]
    await shop.reopen()
    assert await shop.store.prices() == second
    assert await shop.store.prices(1) == first
    assert await shop.store.prices(3) is None
    assert await shop.store.prices(newer_than=1) == second
    assert await shop.store.prices(newer_than=2) is None
    log = await shop.store.audited(AuditFilter(action="prices.put"), None, 10)
    assert [one.entry.object for one in log] == ["2", "1"]


async def test_tables_put_at_once_each_get_a_number(shop: Shop) -> None:
    rows = await asyncio.gather(*(shop.store.put_prices(row(), audit()) for _ in range(4)))
    assert sorted(one.version for one in rows if isinstance(one, PricesRow)) == [1, 2, 3, 4]


async def test_the_currency_may_change_until_something_was_priced(shop: Shop) -> None:
    await shop.register()
    await shop.store.put_prices(row("EUR"), audit())
    await work(shop, ("m", 5), prices=None)
    assert isinstance(await shop.store.put_prices(row("USD"), audit()), PricesRow)
    await work(shop, ("m", 5))
    assert await shop.store.put_prices(row("EUR"), audit()) == "USD"
    assert isinstance(await shop.store.put_prices(row("USD"), audit()), PricesRow)
    shop.clock.at += 400 * DAY
    await shop.store.forget(100)
    assert await shop.store.put_prices(row("EUR"), audit()) == "USD", "an execution still says so"


async def test_usage_is_logged_with_the_attempt(shop: Shop) -> None:
    await shop.register()
    await shop.start()
    granted = await shop.claim_one()
    await shop.store.submit(heartbeat(granted, reported=used(("m", 5), ("n", 7), ("m", 9))))
    assert await sums(shop) == [(21, 14, 7, 1)]
    await shop.store.submit(heartbeat(granted, reported=used(("n", 8))))
    assert await sums(shop) == [(8, 0, 8, 1)], "fewer lines take the place of more"
    await shop.store.submit(heartbeat(granted), heartbeat(granted, reported=used()))
    assert await sums(shop, group_by=("model",)) == []
    await shop.store.submit(
        heartbeat(granted, reported=used(("m", 1))), complete(granted, reported=used(("m", 2), ("m", 3)))
    )
    await shop.reopen()
    assert await sums(shop) == [(5, 5, 0, 1)], "two reports in one commit"


async def test_an_attempt_counts_once_whatever_it_used_at_whatever_price(shop: Shop) -> None:
    await shop.register()
    await shop.start()
    granted = await shop.claim_one()
    await shop.store.submit(heartbeat(granted, reported=used(("m", 5), ("m", 6), ("n", 7))))
    dearer = PriceTable(2, "USD", [Price("m", 0, (2_000_000,) * 5)])
    await shop.store.submit(heartbeat(granted, reported=used(("m", 5), ("m", 6), ("n", 7), ("m", 8), prices=dearer)))
    await work(shop, ("m", 9))
    assert await sums(shop) == [(35, 36, 7, 2)]
    assert await sums(shop, group_by=("model",)) == [("m", 28, 36, 0, 2), ("n", 7, 0, 7, 1)]
    assert await sums(shop, model="m") == [(28, 36, 0, 2)]
    assert await sums(shop, group_by=("step",), model="n") == [("only", 7, 0, 7, 1)]


async def test_sums_are_grouped_in_order(shop: Shop) -> None:
    await shop.register()
    await shop.register("other", steps=[step("a")])
    await work(shop, ("m", 1), ("n", 10), labels={"team": "blue"}, tenant="acme")
    await work(shop, ("m", 100), labels={"team": "red", "x.y:z": "1"})
    shop.clock.at += DAY
    await shop.start("other", labels={"team": "blue"})
    granted = await shop.claim_one(workflow="other")
    await shop.store.submit(complete(granted, reported=used(("m", 1000))))
    day = NOON // DAY
    assert await sums(shop) == [(1111, 1101, 10, 3)]
    assert await sums(shop, group_by=("day",)) == [(day, 111, 101, 10, 2), (day + 1, 1000, 1000, 0, 1)]
    assert await sums(shop, group_by=("model",)) == [("m", 1101, 1101, 0, 3), ("n", 10, 0, 10, 1)]
    assert await sums(shop, group_by=("tenant",)) == [("", 1100, 1100, 0, 2), ("acme", 11, 1, 10, 1)]
    assert await sums(shop, group_by=("label:team", "workflow", "version", "step")) == [
        ("blue", "flow", "1", "only", 11, 1, 10, 1),
        ("blue", "other", "1", "a", 1000, 1000, 0, 1),
        ("red", "flow", "1", "only", 100, 100, 0, 1),
    ]
    assert await sums(shop, group_by=("label:x.y:z",)) == [("", 1011, 1001, 10, 2), ("1", 100, 100, 0, 1)]


async def test_sums_go_on_behind_a_group(shop: Shop) -> None:
    await shop.register()
    for number in range(5):
        await work(shop, ("m", 1), labels={"n": str(number)}, tenant="acme" if number % 2 else None)
    by = ("tenant", "label:n")
    found: list[Any] = []
    while True:
        cursor = found[-1][:2] if found else None
        page = await sums(shop, limit=2, group_by=by, cursor=cursor)
        found += page
        if len(page) < 2:
            break
    assert [one[:2] for one in found] == [("", "0"), ("", "2"), ("", "4"), ("acme", "1"), ("acme", "3")]


async def test_sums_are_of_what_the_filter_says(shop: Shop) -> None:
    await shop.register()
    await work(shop, ("m", 1), ("n", 2), labels={"a": "1", "b": "1"}, tenant="acme")
    shop.clock.at += DAY
    await work(shop, ("m", 4), labels={"a": "1"}, tenant="umbrella")
    await work(shop, ("m", 8))
    cases: list[tuple[dict[str, Any], int]] = [
        ({"workflow": "flow"}, 15),
        ({"workflow": "flow2"}, 0),
        ({"tenant": "acme"}, 3),
        ({"model": "m"}, 13),
        ({"labels": (("a", "1"),)}, 7),
        ({"labels": (("a", "1"), ("b", "1"))}, 3),
        ({"at_from": NOON + DAY}, 12),
        ({"at_before": NOON + DAY}, 3),
        ({"tenants": ("acme", "other")}, 3),
        ({"tenants": ()}, 0),
        ({"tenants": ("acme",), "tenant": "umbrella"}, 0),
    ]
    for filter_, tokens in cases:
        assert (await sums(shop, **filter_))[0][0] == tokens, filter_


async def test_money_in_another_currency_has_no_price(shop: Shop) -> None:
    await shop.register()
    await work(shop, ("m", 5))
    assert await shop.store.usage(UsageFilter(currency="EUR"), None, 1) == [
        UsageSum((), (5, 0, 0, 0, 0), 0, 5, is_priced=False, attempts=1)
    ]


HOSTILE = ("a\0b", "\uf8f0", "\uf8f00", "'; drop table usage; --", '"\\u0000"', "\N{GRINNING FACE}", "%_")


@pytest.mark.parametrize("text", HOSTILE)
async def test_any_text_is_a_group(shop: Shop, text: str) -> None:
    await shop.register()
    await work(shop, (text, 1), labels={"l": text}, tenant=text)
    await work(shop, ("m", 2))
    by = ("label:l", "model", "tenant")
    assert await sums(shop, group_by=by, labels=(("l", text),), model=text, tenants=(text,)) == [
        (text, text, text, 1, 0, 1, 1)
    ]
    first = (await sums(shop, group_by=by, limit=1))[0]
    assert first[:3] == ("", "m", "")
    assert (await sums(shop, group_by=by, cursor=first[:3]))[0][:3] == (text, text, text)
    assert await sums(shop, group_by=by, cursor=(text, text, text)) == []


async def test_the_largest_numbers_are_summed_exactly(shop: Shop) -> None:
    await shop.register()
    dear = PriceTable(1, "USD", [Price("m*", 0, (10**18,) * 5)])
    most = [(f"m{number}", 2**53) for number in range(40)]
    execution_id = await work(shop, *most, prices=dear)
    await work(shop, *most, prices=dear)
    assert await sums(shop) == [(80 * 2**53, SUM_MAX, 0, 2)], "the cost is at its bound, the tokens are not"
    standing = (await shop.view(execution_id)).execution
    assert (whole(standing).input_tokens, standing.cost_nano) == (40 * 2**53, SUM_MAX)


async def test_the_log_outlives_its_executions_and_has_its_own_time(shop: Shop) -> None:
    await shop.register()
    await work(shop, ("m", 5))
    shop.clock.at += 2 * shop.settings.retention_ms
    assert await shop.store.remove_ended(10) == 1
    await shop.store.forget(100)
    await work(shop, ("m", 7))
    assert await sums(shop) == [(12, 12, 0, 2)]
    shop.clock.at += shop.settings.usage_retention_ms - shop.settings.retention_ms
    assert await shop.store.forget(100) >= 1
    assert await sums(shop) == [(7, 7, 0, 1)]


async def test_a_child_s_usage_is_kept_with_its_parent(shop: Shop) -> None:
    await shop.register("child", steps=[step("a")])
    await shop.register("parent", steps=[{"id": "sub", "kind": "workflow", "workflow": "child"}])
    parent_id = await shop.start("parent")
    courier = Courier(shop.store)
    await courier.run_once()
    granted = await shop.claim_one(workflow="child")
    await shop.store.submit(heartbeat(granted, reported=used(("m", 5))))
    await shop.reopen()
    await Courier(shop.store).run_once()
    assert whole((await shop.view(parent_id)).execution).cost_nano == 5
    assert await sums(shop) == [(5, 5, 0, 1)], "it is counted once"
