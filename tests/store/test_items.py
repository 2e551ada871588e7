"""Items and rounds in a store: made in slices, listed by pages, counted where they stand, gathered once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stepd.engine import commands as c
from stepd.engine.model import NO_INDEX, Parked
from stepd.engine.tally import tally_of
from stepd.engine.work import Settings
from stepd.store.base import ExecutionRows, ItemsPage
from tests.store.shop import EVERYTHING, Shop, step


@pytest.fixture
def settings() -> Settings:
    return Settings(items_at_once=40)


def each(**more: Any) -> dict[str, Any]:
    return step("each", foreach="input", **more)


async def start(shop: Shop, count: int, *steps: dict[str, Any], **top: Any) -> str:
    await shop.register(steps=list(steps), **top)
    execution_id = await shop.start(input=list(range(count)))
    while (due := await shop.store.due(10)) and due[0].attempt_id is None:
        await shop.command(execution_id, c.ExecutionDue())
    return execution_id


async def page(shop: Shop, execution_id: str, after: int = NO_INDEX, limit: int = 200, **more: bool) -> ExecutionRows:
    found = await shop.store.items(execution_id, EVERYTHING, ItemsPage(0, after, limit), **more)
    assert found is not None
    return found


async def drain(shop: Shop) -> int:
    done = 0
    while leases := await shop.claim(max=100):
        for granted in leases:
            await shop.complete(granted, granted.step.index)
        done += len(leases)
    return done


async def test_a_long_list_is_made_in_slices_and_gathered_in_order(shop: Shop) -> None:
    execution_id = await start(shop, 100, each(max_parallel=30))
    (own,) = (await shop.view(execution_id)).steps
    assert tally_of(own).counts == {"queued": 30, "pending": 70}
    assert await drain(shop) == 100
    rows = await shop.view(execution_id, payloads=True)
    assert rows.execution.status == "completed"
    assert msgspec.json.decode(rows.payloads[f"out:0:{NO_INDEX}"]) == list(range(100))
    assert [row.index for row in rows.steps] == [NO_INDEX]


async def test_slices_go_on_where_the_daemon_was_stopped_between_them(shop: Shop) -> None:
    await shop.register(steps=[each()])
    execution_id = await shop.start(input=list(range(100)))
    assert len((await page(shop, execution_id)).steps) == 40
    await shop.reopen()
    (due,) = await shop.store.due(10)
    assert (due.execution_id, due.at) == (execution_id, shop.clock.at)
    await shop.command(execution_id, c.ExecutionDue())
    assert len((await page(shop, execution_id)).steps) == 80


async def test_items_are_paged_with_attempts_and_payloads_on_request(shop: Shop) -> None:
    execution_id = await start(shop, 5, each())
    first, second = await shop.claim(max=2)
    await shop.complete(second, "done")
    found = await page(shop, execution_id, after=0, limit=2)
    assert ([row.index for row in found.steps], found.attempts, found.payloads) == ([1, 2], [], {})
    whole = await page(shop, execution_id, attempts=True, payloads=True)
    assert [attempt.id for attempt in whole.attempts] == [first.attempt.id, second.attempt.id]
    assert (whole.payloads["in:0:4"], whole.payloads["out:0:1"]) == (b"4", b'"done"')
    assert await shop.store.items("nothing", EVERYTHING, ItemsPage(0, NO_INDEX, 5)) is None


async def test_the_view_has_no_item_but_those_whose_write_stands(shop: Shop) -> None:
    execution_id = await start(shop, 3, each(effect="idempotent_write"))
    first, second, third = await shop.claim(max=3)
    for granted in (third, first):
        await shop.complete(granted)
    rows = await shop.view(execution_id, attempts=True, payloads=True)
    assert (len(rows.steps), rows.attempts, rows.standing_items) == (1, [], [(0, 0), (0, 2)])
    assert "in:0:1" not in rows.payloads
    assert second.step.index == 1


async def test_what_is_held_when_an_item_fails_is_held_and_cancelled_as_a_whole(shop: Shop) -> None:
    execution_id = await start(shop, 50, each(effect="idempotent_write", max_parallel=2), on_failure="fail")
    first, second = await shop.claim(max=2)
    await shop.fail(first, "broken", effect="none")
    held = [row for row in (await page(shop, execution_id)).steps if row.parked == Parked.HELD]
    assert [(row.index, row.status) for row in held] == [(index, "pending") for index in range(2, 50)]
    await shop.complete(second)
    statuses = [row.status for row in (await page(shop, execution_id)).steps]
    assert statuses == ["failed", "succeeded", *["cancelled"] * 48]
    (own,) = (await shop.view(execution_id)).steps
    assert tally_of(own).counts == {"failed": 1, "succeeded": 1, "cancelled": 48}


async def test_a_pause_parks_items_and_not_their_step(shop: Shop) -> None:
    execution_id = await start(shop, 5, each(max_parallel=2))
    await shop.command(execution_id, c.Pause(c.Actor("p")))
    assert await shop.claim(max=5) == []
    await shop.command(execution_id, c.Resume(c.Actor("p")))
    assert await drain(shop) == 5
    assert await shop.status(execution_id) == "completed"


async def test_rounds_end_where_the_condition_holds(shop: Shop) -> None:
    rounds = step("rounds", repeat={"until": "last == 50", "max": 100})
    execution_id = await start(shop, 0, rounds, step("after", input={"$cel": "steps.rounds.output"}))
    done = 0
    while (leases := await shop.claim()) and leases[0].step.step == "rounds":
        await shop.complete(leases[0], leases[0].step.index)
        done += 1
    assert (done, leases[0].payloads["in:1:-1"]) == (51, b"50")
    found = await page(shop, execution_id)
    assert [row.index for row in found.steps] == list(range(51))
