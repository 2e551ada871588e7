"""Resolutions on each store: whole or not at all, told again for ever, and compensations in their order."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from stepd.engine import commands as c
from stepd.engine.model import Ledger
from stepd.engine.resolutions import Close, KeyUsed, Resolved, Result, ResumeWith
from stepd.ids import new_id
from stepd.store.base import Decide
from tests.store.shop import Shop, heartbeat, step

TABLES = ("executions", "steps", "attempts", "payloads", "events", "audit", "ledger", "idempotency")


def resolve(resolution: ResumeWith | Close, key: str = "k", operator: str = "operator") -> c.Resolve:
    return c.Resolve(
        actor=c.Actor(operator),
        resolution_id=new_id(),
        key=key,
        digest=repr(resolution),
        body=b'{"action":"resume"}',
        resolution=resolution,
        reference="case 4711",
        reason="seen in the ledger",
        expected_revision=None,
    )


def told(outcome: Any, name: str = "pay", output: bytes | None = None) -> ResumeWith:
    return ResumeWith((Result(name, -1, outcome, output),))


async def doubtful(shop: Shop, **more: Any) -> str:
    """An execution whose write may have happened."""
    await shop.register(steps=[step("pay", effect="non_idempotent_write"), step("next")], **more)
    id_ = await shop.start(tenant="acme")
    granted = await shop.claim_one()
    await shop.store.submit(heartbeat(granted, started=True))
    await shop.fail(granted, "fatal")
    assert await shop.status(id_) == "reconciliation_required"
    return id_


def everything(shop: Shop) -> list[Any]:
    return [shop.backend.query(f"select * from {name} order by 1, 2") for name in TABLES]


@pytest.mark.parametrize(
    ("table", "resolution"), [("events", told("absent")), ("audit", Close("accepted")), ("ledger", told("succeeded"))]
)
async def test_a_refused_row_undoes_the_whole_resolution(
    shop: Shop, table: str, resolution: ResumeWith | Close
) -> None:
    id_ = await doubtful(shop)
    before = everything(shop)
    shop.backend.refuse_inserts(table, "true")
    with pytest.raises(Exception, match="refused by the test"):
        await shop.command(id_, resolve(resolution))
    assert everything(shop) == before
    shop.backend.allow_inserts(table)
    assert isinstance(await shop.command(id_, resolve(resolution)), Resolved)
    assert len(shop.backend.query("select * from ledger")) == 1


@pytest.mark.parametrize(
    ("table", "condition"),
    [
        ("events", "new.type = 'execution.completed'"),
        ("payloads", "new.name = 'output'"),
        ("payloads", "new.name = 'outcome'"),
    ],
)
async def test_a_refused_row_of_the_finish_leaves_the_checkpoints(shop: Shop, table: str, condition: str) -> None:
    output = {"$cel": "steps.a.output"}
    await shop.register(steps=[step("a"), step("b")], output=output, outcome={"rules": [{"when": "true", "then": 1}]})
    id_ = await shop.start()
    await shop.complete(await shop.claim_one(), "kept")
    granted = await shop.claim_one()
    before = everything(shop)
    shop.backend.refuse_inserts(table, condition)
    with pytest.raises(Exception, match="refused by the test"):
        await shop.complete(granted, "last")
    assert everything(shop) == before
    shop.backend.allow_inserts(table)
    assert isinstance(await shop.complete(granted, "last"), c.Told)
    rows = await shop.view(id_, payloads=True)
    assert (rows.execution.status, rows.payloads["output"]) == ("completed", b'"kept"')


async def test_what_the_ledger_keeps(shop: Shop) -> None:
    id_ = await doubtful(shop)
    answer = await shop.command(id_, resolve(told("succeeded", output=b'{"id": 7}')))
    row = await shop.store.resolution(id_, "k")
    assert isinstance(row, Ledger)
    assert (row.execution_id, row.at, row.operator, row.tenant) == (id_, shop.clock.at, "operator", "acme")
    assert msgspec.json.decode(row.answer, type=Resolved) == answer
    assert await shop.store.resolution(id_, "another") is None
    assert await shop.store.resolution("another", "k") is None
    with pytest.raises(Exception, match="append-only"):
        shop.backend.query("update ledger set operator = 'x'")
    with pytest.raises(Exception, match="append-only"):
        shop.backend.query("delete from ledger")


async def test_the_same_again_is_answered_for_ever_and_the_ledger_outlives_the_execution(shop: Shop) -> None:
    id_ = await doubtful(shop, retention_seconds=1)
    first = await shop.command(id_, resolve(Close("accepted")))
    assert await shop.command(id_, resolve(Close("accepted"))) == msgspec.structs.replace(first, replayed=True)
    assert await shop.command(id_, resolve(Close("accepted"), operator="another")) == KeyUsed()
    assert await shop.command(id_, resolve(Close("accepted")), tenants=("other",)) == c.NotFound()
    shop.clock.at += 2_000
    assert await shop.store.remove_ended(10) == 1
    assert await shop.command(id_, resolve(Close("accepted"))) == c.NotFound()
    assert await shop.store.resolution(id_, "k") is not None


async def test_of_many_operators_at_once_one_wins(shop: Shop) -> None:
    id_ = await doubtful(shop)
    calls = [resolve(Close("accepted"), key=f"k{number}", operator=f"o{number}") for number in range(20)]
    answers = await asyncio.gather(*(shop.store.submit(Decide(call, execution_id=id_)) for call in calls))
    assert sum(isinstance(answer, Resolved) for (answer,) in answers) == 1
    assert sum(isinstance(answer, c.Conflict) for (answer,) in answers) == 19
    assert (await shop.journal(id_)).count("execution.resolved") == 1


async def test_a_step_that_is_evaluated_anew_has_no_row_until_then(shop: Shop) -> None:
    input_ = {"n": {"$cel": "state.n + 1"}}
    steps = [step("write", effect="idempotent_write"), step("count", input=input_), step("next")]
    await shop.register(steps=steps)
    id_ = await shop.start()
    await shop.complete(await shop.claim_one())
    await shop.command(id_, resolve(told("absent", "count"), key="k1"))
    rows = await shop.view(id_)
    assert (rows.execution.status, [row.step for row in rows.steps]) == ("reconciliation_required", ["write", "count"])
    answer = await shop.command(id_, resolve(told("succeeded", "count", b"1"), key="k2"))
    assert (answer.status, await shop.status(id_)) == ("running", "running")
    assert (await shop.claim_one()).step.step == "next"


async def test_late_outcomes_are_adopted(shop: Shop) -> None:
    await shop.register(steps=[step("pay", effect="non_idempotent_write"), step("next")])
    id_ = await shop.start()
    granted = await shop.claim_one()
    await shop.store.submit(heartbeat(granted, started=True))
    await shop.command(id_, c.Cancel(c.Actor("operator"), None, force=True))
    assert isinstance(await shop.complete(granted, {"id": 8}), c.Refused)
    assert (await shop.command(id_, resolve(told("as_reported")))).status == "cancelled"
    assert (await shop.view(id_, payloads=True)).payloads["out:0:-1"] == b'{"id":8}'


async def test_writes_are_undone_in_the_order_of_the_journal_also_after_a_restart(shop: Shop) -> None:
    names = ["a", "b", "c", "d"]
    writes = [step(name, effect="idempotent_write", needs=[], compensate=f"undo-{name}") for name in names]
    undo = [step(f"undo-{name}", effect="idempotent_write") for name in names]
    await shop.register(steps=[*writes, *undo, step("last", needs=names)], on_failure="compensate")
    id_ = await shop.start()
    for name in "cadb":
        await shop.complete(await shop.claim_one(steps={name}), name)
    await shop.fail(await shop.claim_one(), "fatal")
    undone = []
    while await shop.status(id_) == "failing":
        granted = await shop.claim_one()
        undone.append(granted.step.step)
        await shop.complete(granted)
        if len(undone) == 2:
            await shop.reopen()
    assert undone == ["undo-b", "undo-d", "undo-a", "undo-c"]
    rows = await shop.view(id_)
    assert (rows.execution.status, rows.execution.standing) == ("failed", "." * 9)
