"""Dealing: which step goes to which claim, in which order, and what a claim that is sent again is answered."""

from __future__ import annotations

import asyncio
from itertools import permutations

import pytest

from stepd.engine.commands import Actor, Granted, Pause, Resume
from stepd.store.base import Deal, Serve
from tests.store.shop import Shop, claim, complete, heartbeat, step


def executions(leases: list[Granted]) -> list[str]:
    return [granted.execution.id for granted in leases]


async def test_a_lease_comes_with_the_rows_it_is_made_of(shop: Shop) -> None:
    await shop.register()
    id_ = await shop.start(input={"n": 7})
    granted = await shop.claim_one(worker="w", instance="w-9")
    assert granted.execution.id == id_
    assert (granted.step.step, granted.step.status, granted.step.lease_id) == ("only", "running", granted.attempt.id)
    assert (granted.attempt.worker, granted.attempt.instance, granted.attempt.fence) == ("w", "w-9", 1)
    assert granted.payloads == {"input": b'{"n":7}', "state": b"{}"}
    rows = await shop.view(id_, attempts=True)
    assert (rows.execution, rows.steps, rows.attempts) == (granted.execution, [granted.step], [granted.attempt])


async def test_priority_goes_before_due_time_before_creation(shop: Shop) -> None:
    await shop.register(steps=[step("first"), step("second")])
    await shop.register("urgent", steps=[step("only", priority=10)])
    older = await shop.start()
    shop.clock.at += 1
    younger = await shop.start()
    shop.clock.at += 1
    preferred = await shop.start(priority=5)
    shop.clock.at += 1
    urgent = await shop.start("urgent")
    for granted in await shop.claim(max=2):
        assert granted.execution.id in (preferred, older)
        shop.clock.at += 1
        await shop.complete(granted)
    # Now the second step of the preferred one, the first of the younger and, due later, the second of the older.
    wanted = claim(serves=(Serve("flow"), Serve("urgent")), max=10)
    (dealt,) = await shop.deal(wanted)
    assert executions(dealt.leases) == [urgent, preferred, younger, older]


async def test_of_steps_due_at_one_time_the_older_execution_goes_first(shop: Shop) -> None:
    await shop.register(steps=[step("first"), step("second")])
    ids = []
    for _ in range(4):
        ids.append(await shop.start())
        shop.clock.at += 1
    leases = await shop.claim(max=4)
    for granted in reversed(leases):
        await shop.complete(granted)
    assert executions(await shop.claim(max=4)) == ids


async def test_order_holds_over_versions_and_workflows(shop: Shop) -> None:
    for version in ("1", "2", "3"):
        await shop.register(version=version)
    ids = []
    for version in ("3", "1", "2", "1", "3"):
        ids.append(await shop.start(version=version))
        shop.clock.at += 1
    assert executions(await shop.claim(max=3)) == ids[:3]
    assert executions(await shop.claim(max=3)) == ids[3:]


async def test_steps_of_one_execution_go_in_the_order_of_the_definition(shop: Shop) -> None:
    await shop.register(steps=[step("b", needs=[]), step("a", needs=[]), step("c", needs=[])])
    await shop.start()
    assert [granted.step.step for granted in await shop.claim(max=2)] == ["b", "a"]
    assert [granted.step.step for granted in await shop.claim(max=2)] == ["c"]


async def test_a_claim_gets_only_what_it_serves(shop: Shop) -> None:
    await shop.register(version="1", steps=[step("x", needs=[]), step("y", needs=[])])
    await shop.register(version="2", steps=[step("x", needs=[]), step("y", needs=[])])
    await shop.register("other")
    for version in ("1", "2"):
        await shop.start(version=version)
    assert await shop.claim(workflow="other", max=9) == []
    assert await shop.claim(workflow="unknown", max=9) == []
    assert await shop.claim(version="9", max=9) == []
    found = await shop.claim(version="2", steps={"y", "z"}, max=9)
    assert [(granted.execution.version, granted.step.step) for granted in found] == [("2", "y")]
    found = await shop.claim(steps={"y"}, max=9)
    assert [(granted.execution.version, granted.step.step) for granted in found] == [("1", "y")]
    both = (Serve("flow", "1"), Serve("flow", "2", frozenset({"x"})))
    assert [granted.step.step for granted in await shop.claim(serves=both, max=9)] == ["x", "x"]


async def test_what_nobody_here_serves_does_not_hide_what_somebody_does(shop: Shop) -> None:
    await shop.register(steps=[step("wanted", when="input.n == 1"), step("many", needs=[])])
    for _ in range(40):
        await shop.start(input={"n": 0})
    id_ = await shop.start(input={"n": 1})
    first, second = await shop.deal(claim(steps={"many"}, max=3), claim(steps={"wanted"}, max=3))
    assert [granted.step.step for granted in first.leases] == ["many"] * 3
    assert executions(second.leases) == [id_]


@pytest.mark.parametrize("maxima", list(permutations((1, 2, 4))))
async def test_the_first_claim_that_a_step_fits_and_that_has_room_gets_it(shop: Shop, maxima: tuple[int, ...]) -> None:
    await shop.register()
    ids = []
    for _ in range(6):
        ids.append(await shop.start())
        shop.clock.at += 1
    dealt = await shop.deal(*(claim(max=room, worker=f"w{room}") for room in maxima))
    given = [executions(line.leases) for line in dealt]
    assert [id_ for line in given for id_ in line] == ids
    assert [len(line) for line in given][:2] == [min(room, 6) for room in maxima][:2]


async def test_no_step_is_given_twice(shop: Shop) -> None:
    await shop.register(steps=[step(f"s{n}", needs=[]) for n in range(5)])
    for tenant in ("a", "b", None):
        await shop.start(tenant=tenant)
    overlapping = [
        claim(max=4, tenants=("a", "b")),
        claim(max=4, tenants=("b",)),
        claim(max=4, serves=(Serve("flow"), Serve("flow", "1"))),
        claim(max=4),
    ]
    dealt = await shop.deal(*overlapping)
    given = [(granted.execution.id, granted.step.ordinal) for line in dealt for granted in line.leases]
    assert len(given) == len(set(given)) == 15


async def test_tenants_are_filtered(shop: Shop) -> None:
    await shop.register()
    ids = {}
    for tenant in ("a", "b", None):
        ids[tenant] = await shop.start(tenant=tenant)
        shop.clock.at += 1
    assert await shop.claim(tenants=(), max=9) == []
    assert await shop.claim(tenants=("c",), max=9) == []
    assert executions(await shop.claim(tenants=("b", "c"), max=9)) == [ids["b"]]
    assert executions(await shop.claim(tenants=("a",), version="1", max=9)) == [ids["a"]]
    assert executions(await shop.claim(max=9)) == [ids[None]]


async def test_a_step_called_unservable_goes_to_others_and_hides_nothing(shop: Shop) -> None:
    await shop.register()
    shunned = []
    for _ in range(5):
        shunned.append(await shop.start())
        shop.clock.at += 1
    for granted in await shop.claim(max=5):
        await shop.fail(granted, "unservable")
    last = await shop.start()
    assert executions(await shop.claim(max=2)) == [last]
    assert await shop.claim(max=2) == []
    assert executions(await shop.claim(instance="w-2", max=2)) == shunned[:2]
    assert executions(await shop.claim(principal="other", max=1)) == shunned[2:3]
    shop.clock.at += 60_000
    assert executions(await shop.claim(max=9)) == shunned[3:]


async def test_paused_and_settled_steps_are_not_dealt(shop: Shop) -> None:
    await shop.register()
    paused, running = await shop.start(), await shop.start()
    await shop.command(paused, Pause(Actor("p")))
    granted = await shop.claim_one(max=9)
    assert granted.execution.id == running
    await shop.complete(granted)
    assert await shop.claim(max=9) == []
    await shop.command(paused, Resume(Actor("p")))
    assert executions(await shop.claim(max=9)) == [paused]


async def test_an_answer_does_not_grow_too_heavy_but_one_lease_always_fits(shop: Shop) -> None:
    await shop.register()
    for _ in range(4):
        await shop.start(input="x" * 1000)
    first, second, third = await shop.deal(
        claim(max=4, answer_bytes=10), claim(max=4, answer_bytes=2100), claim(max=4, answer_bytes=10)
    )
    assert [len(dealt.leases) for dealt in (first, second, third)] == [1, 2, 1]


async def test_a_deal_too_large_for_one_transaction_tells_that_there_is_more(shop: Shop) -> None:
    await shop.register(steps=[step(f"s{n}", needs=[]) for n in range(150)])
    await shop.start()
    dealt = await shop.deal(claim(max=100), claim(max=100))
    given = sum(len(line.leases) for line in dealt)
    assert 0 < given < 150
    assert shop.told[-1].ready
    assert len(await shop.claim(max=100)) == 150 - given
    assert not shop.told[-1].ready


async def test_a_deal_can_depend_on_the_answer_before_it(shop: Shop) -> None:
    await shop.register()
    await shop.start()
    operation = complete(await shop.claim_one())
    await shop.start()
    refused = Deal([claim(), claim()], only_if=lambda: operation.answer is None)
    told, dealt = await shop.store.submit(operation, refused)
    assert [line.leases for line in dealt] == [[], []]
    assert told == operation.answer
    _, dealt = await shop.store.submit(operation, Deal([claim()], only_if=lambda: operation.answer is not None))
    assert len(dealt[0].leases) == 1


async def test_one_call_settles_a_step_and_takes_the_next(shop: Shop) -> None:
    await shop.register(steps=[step("a"), step("b")])
    id_ = await shop.start()
    _, (dealt,) = await shop.store.submit(complete(await shop.claim_one(), {"x": 1}), Deal([claim()]))
    (granted,) = dealt.leases
    assert (granted.execution.id, granted.step.step) == (id_, "b")
    assert granted.payloads["out:0:-1"] == b'{"x":1}'


# -- a claim sent again ---------------------------------------------------------------------------------------------


async def test_a_claim_sent_again_gets_the_same_leases_renewed(shop: Shop) -> None:
    await shop.register()
    for _ in range(3):
        await shop.start()
    request = claim(max=2)
    (first,) = await shop.deal(request)
    assert not first.known
    shop.clock.at += 10_000
    await shop.reopen()
    (again,) = await shop.deal(claim(max=2, claim_id=request.claim_id))
    assert again.known
    assert [granted.attempt.id for granted in again.leases] == [granted.attempt.id for granted in first.leases]
    assert [granted.payloads for granted in again.leases] == [granted.payloads for granted in first.leases]
    for before, after in zip(first.leases, again.leases, strict=True):
        assert after.attempt.expires_at == before.attempt.expires_at + 10_000
        assert after.attempt.named
    assert len(await shop.claim(max=9)) == 1


async def test_only_the_living_leases_are_answered_again_and_no_others(shop: Shop) -> None:
    await shop.register()
    for _ in range(3):
        await shop.start()
    request = claim(max=2)
    (first,) = await shop.deal(request)
    await shop.complete(first.leases[0])
    (again,) = await shop.deal(request)
    assert (again.known, len(again.leases)) == (True, 1)
    await shop.complete(first.leases[1])
    (again,) = await shop.deal(request)
    assert (again.known, again.leases) == (True, [])


async def test_a_claim_that_waits_is_dealt_once_however_it_is_sent(shop: Shop) -> None:
    await shop.register()
    waiting = claim()
    assert (await shop.deal(waiting))[0].leases == []
    await shop.start()
    await shop.start()
    (elsewhere,) = await shop.deal(claim(claim_id=waiting.claim_id))
    (known,) = await shop.deal(waiting)
    assert known.known
    assert [granted.attempt.id for granted in known.leases] == [granted.attempt.id for granted in elsewhere.leases]


async def test_a_claim_that_was_dealt_nothing_waits_anew(shop: Shop) -> None:
    await shop.register()
    request = claim()
    assert [dealt.known for dealt in await shop.deal(request)] == [False]
    await shop.start()
    (dealt,) = await shop.deal(request)
    assert (dealt.known, len(dealt.leases)) == (False, 1)


async def test_a_claim_sent_again_is_answered_with_leases_of_its_tenants(shop: Shop) -> None:
    await shop.register()
    mine = await shop.start(tenant="a")
    await shop.start(tenant="b")
    assert len(await shop.claim(claim_id="x", max=2, tenants=("a", "b"))) == 2
    assert executions(await shop.claim(claim_id="x", max=2, tenants=("a",))) == [mine]
    assert await shop.claim(claim_id="x", max=2, tenants=("c",)) == []
    assert len(await shop.claim(claim_id="x")) == 2


async def test_claim_ids_are_apart_by_principal(shop: Shop) -> None:
    await shop.register()
    for _ in range(2):
        await shop.start()
    mine, theirs = claim(claim_id="x"), claim(claim_id="x", principal="another")
    dealt = await shop.deal(mine, theirs)
    assert [(line.known, len(line.leases)) for line in dealt] == [(False, 1), (False, 1)]


async def test_claims_at_once_share_what_there_is(shop: Shop) -> None:
    await shop.register()
    for _ in range(20):
        await shop.start()
    found = await asyncio.gather(*(shop.claim(max=3, worker=f"w{n}") for n in range(10)))
    given = [id_ for leases in found for id_ in executions(leases)]
    assert len(given) == len(set(given)) == 20


async def test_heartbeats_keep_a_lease_that_was_dealt(shop: Shop) -> None:
    await shop.register()
    await shop.start()
    granted = await shop.claim_one()
    shop.clock.at += 10_000
    (alive,) = await shop.store.submit(heartbeat(granted))
    assert alive.expires_at == granted.attempt.expires_at + 10_000
