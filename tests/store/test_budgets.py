"""Budgets on every store: kept with the execution, over a restart, and no claim gets past them."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from stepd.engine import commands as c
from stepd.engine.definition_budget import Budget
from tests.store.shop import Shop, step

ACTOR = c.Actor("operator")


def used(tokens: int) -> c.Reported:
    return c.Reported(usage=msgspec.json.encode([{"model": "m", "input_tokens": tokens}]))


async def standing(shop: Shop, execution_id: str) -> tuple[Any, ...]:
    """Status and reason; since when; both bounds."""
    one = (await shop.view(execution_id)).execution
    return one.status, one.pause_reason, one.paused_at, one.budget_nano, one.budget_tokens


async def test_it_is_kept_with_the_execution(shop: Shop) -> None:
    await shop.register(steps=[step("a"), step("b")], budget={"cost": 0.5, "tokens": 10})
    execution_id = await shop.start()
    await shop.complete(await shop.claim_one(), reported=used(10))
    paused = ("paused", "budget_exceeded", shop.clock.at, 500_000_000, 10)
    assert await standing(shop, execution_id) == paused
    await shop.reopen()
    assert await standing(shop, execution_id) == paused
    assert await shop.claim() == []
    refused = await shop.command(execution_id, c.Resume(ACTOR))
    assert isinstance(refused, c.Conflict)
    await shop.command(execution_id, c.Resume(ACTOR, tokens=11))
    assert await standing(shop, execution_id) == ("running", None, None, 500_000_000, 11)
    assert (await shop.claim_one()).step.step == "b"


async def test_a_start_s_takes_the_place_of_the_definition_s(shop: Shop) -> None:
    await shop.register(steps=[step("a")], budget={"tokens": 10})
    execution_id = await shop.start(budget=Budget(7, None))
    assert (await standing(shop, execution_id))[3:] == (7, None)


async def test_of_many_items_no_more_are_handed_out_than_were_in_flight(shop: Shop) -> None:
    items = {"foreach": str(list(range(30)))}
    await shop.register(steps=[step("a", **items)], budget={"tokens": 5})
    execution_id = await shop.start()
    granted = await shop.claim(max=8)
    assert len(granted) == 8
    first = await shop.complete(granted[0], reported=used(5))
    assert first.execution_status == "paused"
    claims = [shop.claim(max=30) for _ in range(3)]
    found, *_ = await asyncio.gather(
        asyncio.gather(*claims), *(shop.complete(one, reported=used(5)) for one in granted[1:])
    )
    assert found == [[], [], []]
    assert (await standing(shop, execution_id))[:2] == ("paused", "budget_exceeded")
    assert (await shop.view(execution_id)).execution.input_tokens == 8 * 5
    assert await shop.claim(max=30) == []
