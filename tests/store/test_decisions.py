"""Decisions: what they write stands whole, what they may not see isn't there, and those who wait are told."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from stepd.engine import commands as c
from stepd.engine.model import progress_name
from stepd.store.base import Decide
from tests.store.shop import NOON, Shop, heartbeat, step

CANCEL = c.Cancel(c.Actor("boss"), "enough", force=False)


async def test_a_run_from_start_to_end_stands_as_it_was_told(shop: Shop) -> None:
    await shop.register(
        steps=[step("a"), step("b", input={"got": {"$cel": "steps.a.output.x"}})],
        output={"b": {"$cel": "steps.b.output"}},
    )
    id_ = await shop.start()
    first = await shop.claim_one()
    told = await shop.complete(first, {"x": 41}, state={"seen": True})
    assert (told.execution_status, told.late, told.replayed) == ("running", False, False)
    second = await shop.claim_one()
    assert second.payloads["in:1:-1"] == b'{"got":41}'
    assert second.payloads["state"] == b'{"seen":true}'
    assert (await shop.complete(second, 42)).execution_status == "completed"
    await shop.reopen()
    rows = await shop.view(id_, attempts=True, payloads=True)
    assert (rows.execution.status, rows.execution.graph, rows.execution.revision) == ("completed", "ss", 3)
    assert rows.execution.remove_at == NOON + shop.settings.retention_ms
    assert [row.status for row in rows.steps] == ["succeeded", "succeeded"]
    assert [row.status for row in rows.attempts] == ["succeeded", "succeeded"]
    assert rows.payloads["output"] == b'{"b":42}'
    assert rows.payloads["out:0:-1"] == b'{"x":41}'
    assert (await shop.journal(id_))[-1] == "execution.completed"
    assert set((await shop.view(id_)).payloads) <= {"input", "state", "output", "outcome"}


async def test_an_outcome_said_again_is_answered_as_it_was_also_after_a_restart(shop: Shop) -> None:
    await shop.register()
    await shop.start()
    granted = await shop.claim_one()
    told = await shop.complete(granted, {"x": 1})
    before = shop.backend.query("select count(*) from events")
    await shop.reopen()
    assert await shop.complete(granted, {"x": 1}) == msgspec.structs.replace(told, replayed=True)
    assert shop.backend.query("select count(*) from events") == before
    refused = await shop.complete(granted, {"x": 2})
    assert isinstance(refused, c.Refused)
    assert refused.reason == "already_settled"


async def test_what_is_not_there_is_not_found(shop: Shop) -> None:
    await shop.register()
    id_ = await shop.start(tenant="a", principal="me")
    granted = await shop.claim_one()
    assert await shop.command("nothing", CANCEL) == c.NotFound()
    assert await shop.store.submit(Decide(c.GiveBack("nothing"), attempt_id="nothing")) == [c.NotFound()]
    assert await shop.complete(granted, principal="another") == c.NotFound()
    for more in ({"tenants": ("b",)}, {"tenants": ()}, {"started_by": "you"}, {"tenants": ("a",), "started_by": "you"}):
        assert await shop.command(id_, CANCEL, **more) == c.NotFound(), more
    assert await shop.status(id_) == "running"
    assert await shop.command(id_, CANCEL, tenants=("b", "a"), started_by="me") == c.Done("cancelled")


async def test_a_decision_of_another_execution_does_not_reach_this_ones_lease(shop: Shop) -> None:
    await shop.register()
    one, another = await shop.start(), await shop.start()
    granted = await shop.claim_one()
    assert granted.execution.id == one
    await shop.command(another, c.AttemptDue(granted.attempt.id, 1000))
    assert (await shop.view(one, attempts=True)).attempts == [granted.attempt]


async def test_those_who_wait_are_told_of_each_commit(shop: Shop) -> None:
    await shop.register(steps=[step("a", timeout_seconds=None), step("b", timeout_seconds=None)])
    id_ = await shop.start()
    granted = await shop.claim_one()
    tell = shop.told[-1]
    assert (tell.ready, tell.executions) == (False, {id_: (4, "running")})
    assert tell.timer == granted.attempt.expires_at
    await shop.complete(granted)
    tell = shop.told[-1]
    assert (tell.ready, tell.executions, tell.timer) == (True, {id_: (6, "running")}, None)


async def test_a_retry_is_told_as_a_timer(shop: Shop) -> None:
    await shop.register(steps=[step("a", retry={"initial_seconds": 8})])
    await shop.start()
    told = await shop.fail(await shop.claim_one(), "retryable")
    assert told.disposition == "retry_scheduled"
    assert shop.told[-1].timer == told.next_attempt_at == NOON + 8000


async def test_a_pause_parks_every_open_step_and_a_resume_frees_them(shop: Shop) -> None:
    await shop.register(steps=[step(f"s{n}", needs=[]) for n in range(6)])
    id_ = await shop.start()
    granted = await shop.claim_one()
    await shop.command(id_, c.Pause(c.Actor("p")))
    assert [row.parked for row in (await shop.view(id_)).steps] == [0, 1, 1, 1, 1, 1]
    assert await shop.claim(max=9) == []
    await shop.complete(granted)
    await shop.command(id_, c.Resume(c.Actor("p")))
    assert [row.parked for row in (await shop.view(id_)).steps] == [0] * 6
    assert len(await shop.claim(max=9)) == 5


async def test_a_cancel_holds_what_is_open_and_ends_it_at_the_end(shop: Shop) -> None:
    write = {"effect": "idempotent_write", "needs": []}
    await shop.register(steps=[step("w", **write), step("a", needs=[]), step("b", needs=[])], on_failure="fail")
    id_ = await shop.start()
    granted = await shop.claim_one(steps={"w"})
    await shop.command(id_, CANCEL)
    assert [(row.step, row.parked, row.status) for row in (await shop.view(id_)).steps] == [
        ("w", 0, "running"),
        ("a", 2, "queued"),
        ("b", 2, "queued"),
    ]
    assert await shop.claim(max=9) == []
    await shop.complete(granted)
    rows = await shop.view(id_)
    assert rows.execution.status == "cancelled"
    assert [(row.status, row.parked, row.due_at) for row in rows.steps[1:]] == [("cancelled", 0, None)] * 2


async def test_progress_usage_and_spans_stand_with_the_attempt(shop: Shop) -> None:
    await shop.register()
    id_ = await shop.start()
    granted = await shop.claim_one()
    for text in (b'{"at":1}', b'{"at":2}'):
        reported = c.Reported(progress=text, usage=b'[{"model":"m","input_tokens":5}]')
        await shop.store.submit(heartbeat(granted, reported=reported))
    rows = await shop.view(id_, attempts=True, payloads=True)
    assert rows.payloads[progress_name(granted.attempt.id)] == b'{"at":2}'
    assert (rows.attempts[0].has_progress, rows.execution.input_tokens) == (True, 5)


@pytest.mark.parametrize("text", ["", "ä😀", "null\0byte", "1" * 5000])
async def test_payloads_come_back_byte_for_byte(shop: Shop, text: str) -> None:
    await shop.register(steps=[step("a"), step("b")])
    id_ = await shop.start(input={"text": text, "n": 10**40, "f": 1.0})
    await shop.complete(await shop.claim_one(), text)
    await shop.reopen()
    payloads = (await shop.view(id_, payloads=True)).payloads
    assert payloads["input"] == msgspec.json.encode({"text": text, "n": 10**40, "f": 1.0})
    assert payloads["out:0:-1"] == msgspec.json.encode(text)
    assert (await shop.claim_one()).payloads["out:0:-1"] == msgspec.json.encode(text)


async def test_branches_that_settle_at_once_leave_no_gap_and_finish_once(shop: Shop) -> None:
    branches = [step(f"s{n}", needs=[]) for n in range(30)]
    await shop.register(steps=[*branches, step("last", needs=[f"s{n}" for n in range(30)])])
    id_ = await shop.start()
    leases = await shop.claim(max=30)
    await asyncio.gather(*(shop.complete(granted, n) for n, granted in enumerate(leases)))
    await shop.complete(await shop.claim_one())
    journal = await shop.journal(id_)
    assert journal.count("step.succeeded") == 31
    assert journal.count("execution.completed") == 1


async def test_a_fence_that_is_too_old_changes_nothing(shop: Shop) -> None:
    await shop.register()
    id_ = await shop.start()
    granted = await shop.claim_one()
    await shop.store.submit(Decide(c.GiveBack(granted.attempt.id), attempt_id=granted.attempt.id))
    again = await shop.claim_one()
    before = await shop.view(id_, attempts=True, payloads=True)
    refused = await shop.complete(granted)
    assert isinstance(refused, c.Refused)
    after = await shop.view(id_, attempts=True, payloads=True)
    assert (after.execution, after.steps) == (before.execution, before.steps)
    assert isinstance(await shop.complete(again), c.Told)


async def test_what_others_wrote_to_the_file_is_seen(shop: Shop) -> None:
    await shop.register()
    id_ = await shop.start()
    granted = await shop.claim_one()
    shop.backend.query("update attempts set principal = 'moved' where id = ?", granted.attempt.id)
    assert await shop.complete(granted) == c.NotFound()
    shop.backend.query("update executions set tenant = 'moved' where id = ?", id_)
    assert await shop.command(id_, CANCEL, tenants=("moved",)) == c.Done("cancelled")


async def test_many_executions_at_once_each_keep_their_own(shop: Shop) -> None:
    await shop.register(steps=[step("a"), step("b")], output={"sum": {"$cel": "steps.a.output + steps.b.output"}})
    ids = {await shop.start(): number for number in range(50)}
    for _ in ("a", "b"):
        leases = await shop.claim(max=50)
        assert len(leases) == 50
        await asyncio.gather(*(shop.complete(granted, ids[granted.execution.id]) for granted in leases))
    for id_, number in ids.items():
        payloads = (await shop.view(id_)).payloads
        assert msgspec.json.decode(payloads["output"]) == {"sum": 2 * number}
