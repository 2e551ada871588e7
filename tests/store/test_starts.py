"""Starts: durable with all that is theirs, once a key, one at a time where they exclude each other."""

from __future__ import annotations

import asyncio

import pytest

from stepd.engine.commands import Actor, Cancel, Conflict, InvalidInput
from stepd.store.base import Begin, Started
from stepd.store.keeping import KeyConflict, Replayed
from tests.store.shop import NOON, Shop, complete, remember, start, step


async def test_a_start_is_kept_with_its_payloads_steps_events_and_audit_row(shop: Shop) -> None:
    await shop.register()
    answer = await shop.try_start(input={"n": 7}, labels={"team": "x"}, correlation="order-1", tenant="a")
    assert isinstance(answer, Started)
    id_ = answer.rows.execution.id
    assert shop.told[-1].executions == {id_: (2, "queued")}
    assert shop.told[-1].ready
    await shop.reopen()
    rows = await shop.view(id_)
    assert rows == answer.rows
    assert rows.payloads == {"input": b'{"n":7}', "state": b"{}"}
    assert (rows.execution.correlation, rows.execution.tenant, rows.execution.created_at) == ("order-1", "a", NOON)
    assert [(row.step, row.status) for row in rows.steps] == [("only", "queued")]
    assert await shop.journal(id_) == ["execution.created", "step.queued"]
    assert shop.backend.query("select principal, object, at from audit") == [("starter", id_, NOON)]


async def test_an_input_that_does_not_fit_leaves_nothing(shop: Shop) -> None:
    await shop.register(input_schema={"type": "string"})
    answer = await shop.try_start(input=5, idempotency=remember("k"))
    assert isinstance(answer, InvalidInput)
    for table in ("executions", "events", "payloads", "steps", "audit", "idempotency"):
        assert shop.backend.query(f"select * from {table}") == [], table


async def test_the_same_key_gets_the_first_answer_again(shop: Shop) -> None:
    await shop.register()
    first = await shop.try_start(idempotency=remember("k"))
    assert isinstance(first, Started)
    again = await shop.try_start(idempotency=remember("k"))
    assert isinstance(again, Replayed)
    assert (again.kept.status, again.kept.body) == (202, first.rows.execution.id.encode())
    assert again.kept.location == f"/v1/executions/{first.rows.execution.id}"
    assert again.kept == await shop.store.remembered("starter", "POST /v1/executions", "k")
    assert len(shop.backend.query("select id from executions")) == 1


async def test_the_same_key_with_another_body_is_a_conflict(shop: Shop) -> None:
    await shop.register()
    await shop.try_start(idempotency=remember("k", "one body"))
    assert isinstance(await shop.try_start(idempotency=remember("k", "another body")), KeyConflict)


async def test_keys_are_apart_by_principal_and_target(shop: Shop) -> None:
    await shop.register()
    for call in (remember("k"), remember("k", principal="another"), remember("k", target="POST /v1/other")):
        assert isinstance(await shop.try_start(idempotency=call), Started)


async def test_an_answer_that_is_not_kept_frees_the_key(shop: Shop) -> None:
    assert not isinstance(await shop.try_start(idempotency=remember("k")), Started)
    await shop.register()
    assert isinstance(await shop.try_start(idempotency=remember("k")), Started)


async def test_twenty_starts_at_once_with_one_key_start_once(shop: Shop) -> None:
    await shop.register()
    answers = await asyncio.gather(*(shop.try_start(idempotency=remember("k")) for _ in range(20)))
    assert sorted(type(answer).__name__ for answer in answers) == ["Replayed"] * 19 + ["Started"]
    assert len(shop.backend.query("select id from executions")) == 1


async def test_a_second_exclusive_start_is_told_the_open_one(shop: Shop) -> None:
    await shop.register(exclusive=True)
    first = await shop.start(correlation="c", tenant="a")
    answer = await shop.try_start(correlation="c", tenant="a")
    assert answer == Conflict("occupied", status="queued", execution_id=first)
    await shop.start(correlation="c", tenant="b")
    await shop.start(correlation="d", tenant="a")
    await shop.start(correlation="c", tenant="a", exclusive=False)


async def test_an_exclusive_execution_that_ended_makes_room(shop: Shop) -> None:
    await shop.register()
    first = await shop.start(correlation="c", exclusive=True)
    await shop.command(first, Cancel(Actor("p"), None, force=False))
    assert await shop.status(first) == "cancelled"
    await shop.start(correlation="c", exclusive=True)


async def test_of_exclusive_starts_at_once_one_wins(shop: Shop) -> None:
    await shop.register(exclusive=True)
    answers = await asyncio.gather(*(shop.try_start(correlation="c") for _ in range(10)))
    (won,) = [answer for answer in answers if isinstance(answer, Started)]
    lost = Conflict("occupied", status="queued", execution_id=won.rows.execution.id)
    assert [answer for answer in answers if answer is not won] == [lost] * 9


async def test_starts_submitted_together_stand_or_fall_together(shop: Shop) -> None:
    await shop.register()
    first = start()
    await shop.store.submit(Begin(first, None))
    with pytest.raises(Exception, match=r"(?i)unique|duplicate"):
        await shop.store.submit(Begin(start(), None), Begin(start(id=first.id), None))
    assert [id_ for (id_,) in shop.backend.query("select id from executions")] == [first.id]


async def test_a_scheduled_start_waits_for_its_time(shop: Shop) -> None:
    await shop.register()
    await shop.start(start_at=NOON + 5000)
    assert shop.told[-1].timer == NOON + 5000
    assert await shop.claim() == []


async def test_an_execution_whose_steps_are_all_skipped_ends_in_its_start(shop: Shop) -> None:
    await shop.register(steps=[step("only", when="input.n > 5")], output={"n": {"$cel": "input.n"}})
    answer = await shop.try_start()
    assert isinstance(answer, Started)
    assert answer.rows.execution.status == "completed"
    assert await shop.view(answer.rows.execution.id) == answer.rows
    assert answer.rows.payloads["output"] == b'{"n":1}'


async def test_the_transaction_that_ends_an_exclusive_execution_frees_its_place(shop: Shop) -> None:
    await shop.register(exclusive=True)
    await shop.start(correlation="c")
    granted = await shop.claim_one()
    before, ended, after = await shop.store.submit(
        Begin(start(correlation="c"), None), complete(granted), Begin(start(correlation="c"), None)
    )
    assert (before.code, before.execution_id) == ("occupied", granted.execution.id)
    assert ended.execution_status == "completed"
    assert isinstance(after, Started)
