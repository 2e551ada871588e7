"""Operations that share a commit: in order, apart where one fails, unharmed by callers that go away."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepd.engine import commands as c
from stepd.store.base import Begin, Deal, Started, StoreUnavailable
from tests.store.shop import EVERYTHING, Shop, claim, complete, start, step


async def together(shop: Shop, *operations: Any) -> list[Any]:
    """Submits each operation by itself, all in one pass of the loop; answers or errors."""
    calls = [shop.store.submit(operation) for operation in operations]
    results = await asyncio.gather(*calls, return_exceptions=True)
    return [result if isinstance(result, BaseException) else result[0] for result in results]


async def test_operations_at_once_share_a_commit(shop: Shop) -> None:
    await shop.register()
    before = len(shop.told)
    await together(shop, *(Begin(start(), None) for _ in range(20)))
    told = shop.told[before:]
    assert len({id_ for tell in told for id_ in tell.executions}) == 20
    assert len(told) < 20


async def test_operations_see_those_before_them_in_the_same_commit(shop: Shop) -> None:
    await shop.register(steps=[step("a"), step("b")])
    answers = await together(shop, Begin(start(), None), Deal([claim()]), Deal([claim()]))
    ((first,), (second,)) = answers[1:]
    assert len(first.leases) == 1
    assert second.leases == []


async def test_one_that_fails_does_not_fail_its_neighbours(shop: Shop) -> None:
    await shop.register(steps=[step("a"), step("b")])
    for _ in range(5):
        await shop.start()
    leases = await shop.claim(max=5)
    bad = leases[2].execution.id
    shop.backend.refuse_inserts("events", f"new.execution_id = '{bad}' and new.type = 'step.queued'")
    journal = await shop.journal(bad)
    before = await shop.view(bad, attempts=True, payloads=True)
    answers = await together(shop, *(complete(granted) for granted in leases))
    assert [isinstance(answer, c.Told) for answer in answers] == [True, True, False, True, True]
    assert isinstance(answers[2], Exception)
    assert not isinstance(answers[2], StoreUnavailable)
    assert await shop.view(bad, attempts=True, payloads=True) == before
    assert await shop.journal(bad) == journal
    shop.backend.allow_inserts("events")
    assert isinstance(await shop.complete(leases[2]), c.Told)
    for granted in leases:
        assert (await shop.journal(granted.execution.id)).count("step.succeeded") == 1


@pytest.mark.parametrize("table", ["events", "payloads", "attempts", "steps", "executions", "audit", "claims"])
async def test_a_refused_row_anywhere_undoes_the_whole_change(shop: Shop, table: str) -> None:
    await shop.register(steps=[step("a"), step("b")])
    await shop.start()
    granted = await shop.claim_one()

    async def run() -> None:
        await shop.store.submit(complete(granted), Deal([claim()]), Begin(start(), None))

    def everything() -> list[Any]:
        tables = ("executions", "steps", "attempts", "payloads", "events", "audit", "claims")
        return [shop.backend.query(f"select * from {name} order by 1, 2") for name in tables]

    before = everything()
    shop.backend.refuse_inserts(table, "true")
    with pytest.raises(Exception, match="refused by the test"):
        await run()
    assert everything() == before
    shop.backend.allow_inserts(table)
    await run()
    assert len(everything()[0]) == 2


async def test_of_operations_submitted_together_all_or_none_are_done(shop: Shop) -> None:
    await shop.register()
    good, bad = start(), start()
    shop.backend.refuse_inserts("executions", f"new.id = '{bad.id}'")
    with pytest.raises(Exception, match="refused by the test"):
        await shop.store.submit(Begin(good, None), Begin(bad, None))
    assert await shop.store.standing(good.id, EVERYTHING) is None
    await shop.store.submit(Begin(good, None))


async def test_nothing_is_told_of_what_was_undone(shop: Shop) -> None:
    await shop.register()
    bad, good = start(), start()
    shop.backend.refuse_inserts("executions", f"new.id = '{bad.id}'")
    before = len(shop.told)
    await together(shop, Begin(good, None), Begin(bad, None))
    told = [id_ for tell in shop.told[before:] for id_ in tell.executions]
    assert told == [good.id]


async def test_many_failures_among_many_end_well(shop: Shop) -> None:
    await shop.register()
    starts = [start(priority=number % 7) for number in range(300)]
    shop.backend.refuse_inserts("executions", "new.priority = 0")
    answers = await together(shop, *(Begin(one, None) for one in starts))
    failed = [one.id for one, answer in zip(starts, answers, strict=True) if isinstance(answer, Exception)]
    assert failed == [one.id for one in starts if one.priority == 0]
    kept = {id_ for (id_,) in shop.backend.query("select id from executions")}
    assert kept == {one.id for one in starts} - set(failed)


async def test_a_caller_that_goes_away_harms_nobody(shop: Shop) -> None:
    await shop.register()
    tasks = [asyncio.create_task(shop.try_start()) for _ in range(10)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(answer, asyncio.CancelledError) for answer in answers] == [True, False] * 5
    kept = {id_ for (id_,) in shop.backend.query("select id from executions")}
    assert {answer.rows.execution.id for answer in answers if isinstance(answer, Started)} <= kept
    assert await shop.start()


async def test_a_caller_that_goes_away_while_a_neighbour_fails_harms_nobody(shop: Shop) -> None:
    await shop.register()
    starts = [start(priority=number) for number in range(6)]
    shop.backend.refuse_inserts("executions", "new.priority = 5")
    tasks = [asyncio.create_task(shop.store.submit(Begin(one, None))) for one in starts]
    await asyncio.sleep(0)
    tasks[1].cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(answer).__name__ for answer in answers][:5] == ["list", "CancelledError", "list", "list", "list"]
    assert isinstance(answers[5], Exception)


async def test_a_store_that_closes_answers_those_who_wait_and_takes_no_more(shop: Shop) -> None:
    await shop.register()
    waiting = [asyncio.create_task(shop.try_start()) for _ in range(5)]
    await asyncio.sleep(0)
    await shop.store.close()
    for answer in await asyncio.gather(*waiting):
        assert answer.rows.execution.status == "queued"
    with pytest.raises(StoreUnavailable):
        await shop.start()
    with pytest.raises(StoreUnavailable):
        await shop.store.counts()
    with pytest.raises(StoreUnavailable):
        await shop.store.standing("nothing", EVERYTHING)
    assert len(shop.backend.query("select id from executions")) == 5


async def test_a_store_that_is_not_open_says_so(shop: Shop) -> None:
    store = shop.backend.make(shop.settings, shop.clock)
    with pytest.raises(StoreUnavailable, match="not open"):
        await store.pulse()
    await store.close()


async def test_more_than_one_batch_holds_is_done_in_order(shop: Shop) -> None:
    await shop.register()
    starts = [start() for _ in range(600)]
    answers = await together(shop, *(Begin(one, None) for one in starts))
    assert [answer.rows.execution.id for answer in answers] == [one.id for one in starts]
    assert len(shop.backend.query("select id from executions")) == 600
