"""Signals in a store: kept and taken once whatever comes first, found by correlation, listed when none took them."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from stepd.engine import commands as c
from stepd.engine.model import Audit
from stepd.store.base import Decide, Keep, KeyConflict, Remember, Replayed, Viewed
from stepd.store.signals import PAYLOADS_BYTES
from tests.store.shop import EVERYTHING, NOON, Shop, complete, step

WAIT = {"id": "wait", "kind": "wait", "event": "go"}
OUTPUT = {"$cel": "steps.wait.output"}


def signal(payload: Any = None, *, name: str = "go", source: str | None = None) -> c.Signal:
    return c.Signal(c.Actor("sender"), name, msgspec.json.encode(payload), source)


async def signalled(shop: Shop, execution_id: str, payload: Any = None, **more: Any) -> Any:
    return await shop.command(execution_id, signal(payload, **more))


async def output(shop: Shop, execution_id: str) -> Any:
    return msgspec.json.decode((await shop.view(execution_id)).payloads["output"])


async def test_a_kept_signal_is_taken_when_its_wait_is_armed(shop: Shop) -> None:
    await shop.register(steps=[step("only"), WAIT, WAIT | {"id": "second"}], output=OUTPUT)
    id_ = await shop.start()
    for number in (1, 2, 3):
        await signalled(shop, id_, number)
    await shop.complete(await shop.claim_one())
    assert await output(shop, id_) == 1
    (left,) = (await shop.view(id_)).signals
    assert (left.number, left.name, left.payload, left.received_at) == (3, "go", b"3", NOON)


async def test_a_kept_signal_that_does_not_fit_is_passed_over(shop: Shop) -> None:
    number = WAIT | {"payload_schema": {"type": "integer"}}
    await shop.register(steps=[step("only"), number, WAIT | {"id": "any"}], output=OUTPUT)
    id_ = await shop.start()
    await signalled(shop, id_, "x")
    await signalled(shop, id_, 7)
    await shop.complete(await shop.claim_one())
    assert (await shop.status(id_), await output(shop, id_)) == ("completed", 7)


@pytest.mark.parametrize("races", [100, pytest.param(500, marks=pytest.mark.soak)])
async def test_a_signal_that_races_the_arming_of_its_wait_is_delivered_once_each_time(shop: Shop, races: int) -> None:
    await shop.register(steps=[step("only"), WAIT], output=OUTPUT)
    ids = await asyncio.gather(*(shop.start(input={"n": number}) for number in range(races)))
    leases = [granted for _ in range(races // 100) for granted in await shop.claim(max=100)]
    by_id = {granted.execution.id: granted for granted in leases}
    assert set(by_id) == set(ids)
    calls: list[Decide] = []
    for number, id_ in enumerate(ids):
        both = [complete(by_id[id_]), Decide(signal(number), execution_id=id_)]
        calls += both if number % 3 else reversed(both)
    await asyncio.gather(*(shop.store.submit(call) for call in calls))
    for number, id_ in enumerate(ids):
        view = await shop.view(id_)
        assert (view.execution.status, view.execution.signals_kept) == ("completed", 0)
        assert view.payloads["output"] == str(number).encode()
    types = [kind for id_ in ids[:20] for kind in await shop.journal(id_)]
    assert types.count("wait.resumed") == types.count("signal.received") == 20


async def test_many_signals_at_once_each_resume_one_wait(shop: Shop) -> None:
    waits = [WAIT | {"id": f"w{number}", "needs": []} for number in range(20)]
    together = [{"$cel": f"steps.w{number}.output"} for number in range(20)]
    await shop.register(steps=waits, output=together)
    id_ = await shop.start()
    await asyncio.gather(*(signalled(shop, id_, number) for number in range(20)))
    assert await shop.status(id_) == "completed"
    assert sorted(await output(shop, id_)) == list(range(20))


async def test_an_event_is_taken_once_by_an_execution(shop: Shop) -> None:
    await shop.register(steps=[WAIT, WAIT | {"id": "second"}])
    id_ = await shop.start()
    for _ in range(2):
        assert await signalled(shop, id_, source="event 1") == c.Done("queued")
    assert await shop.store.delivered("event 1") == 1
    assert (await shop.journal(id_)).count("signal.received") == 1
    await signalled(shop, id_, source="event 2")
    assert await shop.status(id_) == "completed"


async def test_an_event_finds_the_open_executions_of_its_correlation(shop: Shop) -> None:
    await shop.register(steps=[WAIT])
    ids = sorted([await shop.start(correlation="a", tenant=tenant) for tenant in ("t", "u", None)])
    await shop.start(correlation="b")
    ended = await shop.start(correlation="a")
    await signalled(shop, ended)
    assert await shop.store.correlated("a", None, "", 10) == ids
    assert await shop.store.correlated("a", None, ids[0], 1) == [ids[1]]
    of_tenants = await shop.store.correlated("a", ("t", "u"), "", 10)
    assert {(await shop.view(id_)).execution.tenant for id_ in of_tenants} == {"t", "u"}
    assert await shop.store.correlated("c", None, "", 10) == []


async def test_what_nobody_took_is_shown_as_far_as_there_is_room(shop: Shop) -> None:
    await shop.register(steps=[step("only"), WAIT])
    id_ = await shop.start()
    large = "x" * (PAYLOADS_BYTES // 2 - 2)
    for payload in (large, large, 3):
        await signalled(shop, id_, payload)
    assert (await shop.view(id_)).signals == []
    await shop.command(id_, c.Cancel(c.Actor("canceller"), None, force=False))
    view = await shop.view(id_)
    assert [len(left.payload) for left in view.signals] == [PAYLOADS_BYTES // 2, PAYLOADS_BYTES // 2, 0]
    listed = await shop.store.untaken([view.execution])
    assert [(left.number, left.payload) for left in listed] == [(1, b""), (2, b""), (3, b"")]


async def test_what_is_kept_goes_with_its_execution(shop: Shop) -> None:
    await shop.register(steps=[step("only"), WAIT], retention_seconds=1)
    id_ = await shop.start()
    await signalled(shop, id_)
    await shop.command(id_, c.Cancel(c.Actor("canceller"), None, force=False))
    shop.clock.at += 2_000
    assert await shop.store.remove_ended(10) == 1
    while await shop.store.remove_ended(10):
        pass
    assert shop.backend.query("select count(*) from signals") == [(0,)]


async def test_the_answer_shows_what_its_scope_sees(shop: Shop) -> None:
    await shop.register(steps=[WAIT, step("only")])
    id_ = await shop.start()
    (answer,) = await shop.store.submit(Decide(signal(5), execution_id=id_, seen_by=EVERYTHING))
    assert isinstance(answer, Viewed)
    assert answer.rows is not None
    assert [row.status for row in answer.rows.steps] == ["succeeded", "queued"]
    assert answer.rows.execution.signals == 1


async def test_an_answer_made_elsewhere_is_kept_under_its_key_once(shop: Shop) -> None:
    row = Audit(NOON, "sender", None, "event.publish", "go", None, None, "done")

    def keep(outcome: bytes, body: str = "body") -> Keep:
        remember = Remember("sender", "POST /v1/events", "key", body, lambda answer: (202, None, answer))
        return Keep(outcome, [row], remember)

    assert await shop.store.submit(keep(b"first")) == [b"first"]
    (again,) = await shop.store.submit(keep(b"second"))
    assert isinstance(again, Replayed)
    assert (again.kept.status, again.kept.body) == (202, b"first")
    assert await shop.store.submit(keep(b"third", body="other")) == [KeyConflict()]
    assert shop.backend.query("select count(*) from audit where action = 'event.publish'") == [(1,)]
