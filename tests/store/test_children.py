"""Parents and children in a store: a child is begun as its parent hears of it; errands stand until they are carried."""

from __future__ import annotations

from typing import Any

import pytest

from stepd.engine import commands as c
from stepd.engine.model import Execution, Step
from stepd.loops.courier import Courier
from stepd.store.base import BeginChild, Errand
from tests.store.shop import EVERYTHING, Shop, step

SUB = {"id": "sub", "kind": "workflow", "workflow": "child"}


async def parent(shop: Shop, *, child: dict[str, Any] | None = None, **start: Any) -> str:
    """A parent with an armed step, whose child is not begun yet."""
    await shop.register("child", **(child or {"output": {"$cel": "steps.only.output"}}))
    await shop.register("parent", steps=[SUB], output={"$cel": "steps.sub.output"})
    return await shop.start("parent", **start)


async def row_of(shop: Shop, execution_id: str) -> Step:
    (row,) = (await shop.view(execution_id)).steps
    return row


async def execution_of(shop: Shop, execution_id: str) -> Execution:
    found = await shop.store.standing(execution_id, EVERYTHING)
    assert found is not None
    return found


async def carry(shop: Shop) -> None:
    """Carries everything that stands, as the daemon's loop would."""
    courier = Courier(shop.store)
    while await shop.store.errands(10):
        await courier.run_once()


async def test_an_armed_step_is_an_errand_and_is_told_of(shop: Shop) -> None:
    id_ = await parent(shop)
    row = await row_of(shop, id_)
    assert await shop.store.errands(10) == [Errand(id_, "start", 0, -1, row.child_id or "")]
    assert shop.told[-1].errands


async def test_a_child_is_begun_once_with_all_it_takes_from_its_parent(shop: Shop) -> None:
    id_ = await parent(shop, tenant="north", correlation="case", labels={"k": "v"}, priority=5, input={"n": 7})
    begin = BeginChild(id_, 0, -1)
    (first,) = await shop.store.submit(begin)
    (again,) = await shop.store.submit(BeginChild(id_, 0, -1))
    assert first == again == c.Done("queued")
    row = await row_of(shop, id_)
    view = await shop.view(row.child_id or "")
    child = view.execution
    assert (child.tenant, child.correlation, child.labels, child.priority) == ("north", "case", b'{"k":"v"}', 5)
    assert (child.principal, child.parent_id, child.parent_step, child.depth) == ("starter", id_, "sub", 1)
    assert view.payloads["input"] == b'{"n":7}'
    assert await shop.store.errands(10) == []
    assert (await shop.journal(id_)).count("child.started") == 1


async def test_a_parent_hears_of_the_end_with_the_output(shop: Shop) -> None:
    id_ = await parent(shop)
    await carry(shop)
    await shop.complete(await shop.claim_one(workflow="child"), {"found": 1})
    assert shop.told[-1].errands
    await carry(shop)
    view = await shop.view(id_)
    assert (view.execution.status, view.payloads["output"]) == ("completed", b'{"found":1}')
    assert await shop.store.errands(10) == []


async def test_errands_outlive_the_daemon(shop: Shop) -> None:
    id_ = await parent(shop)
    await shop.reopen()
    await carry(shop)
    await shop.complete(await shop.claim_one(workflow="child"))
    await shop.reopen()
    await carry(shop)
    assert await shop.status(id_) == "completed"


async def test_retention_waits_until_the_parent_has_heard(shop: Shop) -> None:
    id_ = await parent(shop)
    await carry(shop)
    child_id = (await row_of(shop, id_)).child_id or ""
    await shop.complete(await shop.claim_one(workflow="child"))
    shop.clock.at += 10 * shop.settings.retention_ms
    assert await shop.store.remove_ended(10) == 0
    await carry(shop)
    assert await shop.status(child_id) == "completed"
    shop.clock.at += shop.settings.retention_ms
    assert await shop.store.remove_ended(10) == 2


@pytest.mark.parametrize("force", [False, True])
async def test_a_cancel_is_carried_down(shop: Shop, force: bool) -> None:
    id_ = await parent(shop)
    await carry(shop)
    child_id = (await row_of(shop, id_)).child_id or ""
    await shop.command(id_, c.Cancel(c.Actor("p"), None, force))
    assert await shop.status(id_) == "cancelling"
    await carry(shop)
    assert await shop.status(child_id) == "cancelled"
    assert await shop.status(id_) == "cancelled"
    assert (await execution_of(shop, child_id)).forced is force


@pytest.mark.parametrize(
    ("child", "start", "why"),
    [
        ({"input_schema": {"type": "string"}}, {}, "/input"),
        ({"exclusive": True}, {}, "/correlation"),
        ({"exclusive": True}, {"correlation": "taken"}, "open and exclusive"),
    ],
)
async def test_a_child_that_can_not_begin_fails_the_step(
    shop: Shop, child: dict[str, Any], start: dict[str, Any], why: str
) -> None:
    id_ = await parent(shop, child=child, **start)
    if start:
        await shop.start("child", **start)
    await carry(shop)
    execution = await execution_of(shop, id_)
    assert execution.status == "failed"
    assert execution.error is not None
    assert b"child_failed" in execution.error
    assert why.encode() in execution.error


async def test_a_child_of_a_workflow_that_is_not_registered(shop: Shop) -> None:
    await shop.register("parent", steps=[{**SUB, "version": "7", "catch": [{"class": "child_failed", "value": 1}]}])
    id_ = await shop.start("parent")
    await carry(shop)
    assert await shop.status(id_) == "completed"


async def test_a_child_that_needs_reconciliation_shows(shop: Shop) -> None:
    id_ = await parent(shop, child={"steps": [step("only", effect="idempotent_write")]})
    await carry(shop)
    await shop.fail(await shop.claim_one(workflow="child"), "fatal", effect="unknown")
    assert await shop.store.with_blocked_child(10) == []
    await carry(shop)
    row = await row_of(shop, id_)
    assert row.child_blocked_at == shop.clock.at
    assert (await execution_of(shop, id_)).blocked_child == row.child_id
    assert await shop.store.with_blocked_child(10) == [id_]
