"""Starts, views, lists and what else callers do with executions, by the rules of keys and tenants."""

import asyncio
from typing import Any

import pytest

from stepd.service import executions, reads, tracelist
from stepd.service.base import Caller
from stepd_protocol.problems import Problem
from tests.service.conftest import ME, Service
from tests.service.waiting import until

READ = {"id": "a", "effect": "read_only"}
STARTER = Caller("starter", "k1", frozenset({"execute"}), None)
OF_A = Caller("a", None, frozenset({"execute", "read"}), ("a",))
OF_BOTH = Caller("ab", None, frozenset({"execute", "read"}), ("a", "b"))


def pointers(problem: Any) -> set[str]:
    assert isinstance(problem, Problem)
    assert isinstance(problem.errors, list)
    return {fault.path for fault in problem.errors}


async def test_faults_of_a_start_are_told_together(service: Service) -> None:
    _, problem = await service.start(state=[], start_at="soon", exclusive=True, priority=101, input=1)
    assert pointers(problem) == {"/state", "/start_at", "/correlation", "/priority"}
    _, problem = await service.start(name="no name", state=[])
    assert pointers(problem) == {"/workflow", "/state"}
    _, problem = await service.start(labels={f"k{number}": "v" for number in range(65)})
    assert pointers(problem) == {"/labels"}


@pytest.mark.parametrize("field", ["input", "state"])
async def test_an_input_over_its_limit_is_413_with_limit_and_size(service: Service, field: str) -> None:
    value: Any = "x" * 262_144 if field == "input" else {"s": "x" * 262_144}
    status, problem = await service.start(**{field: value})
    assert (status, problem.code, problem.limit) == (413, "payload_too_large", 262_144)
    assert problem.size > 262_144
    assert pointers(problem) == {f"/{field}"}


@pytest.mark.parametrize("key", ["", "x" * 256, "a b", "é", "a\n"])
async def test_an_idempotency_key_is_visible_ascii(service: Service, key: str) -> None:
    status, problem = await service.start(key=key)
    assert (status, problem.code) == (422, "invalid_request")
    assert "Idempotency-Key" in problem.detail


async def test_a_start_said_again_gets_the_first_answer(service: Service) -> None:
    await service.register(READ)
    body = b'{"workflow":"w","input":{"a":1,"b":2}}'
    first = await executions.start(service.daemon, ME, body, "key", None)
    again = await executions.start(service.daemon, ME, b'{"input":{"b":2,"a":1},"workflow":"w"}', "key", None)
    assert not isinstance(first, Problem)
    assert not isinstance(again, Problem)
    assert (again.status, again.body) == (202, first.body)
    assert dict(again.headers) == {**dict(first.headers), "Idempotency-Replayed": "true"}
    assert (await service.start(key="key"))[0] == 409


async def test_twenty_starts_at_once_with_one_key_are_one(service: Service) -> None:
    await service.register(READ)
    answers = await asyncio.gather(*(service.start(key="one") for _ in range(20)))
    assert {status for status, _ in answers} == {202}
    assert len({view["id"] for _, view in answers}) == 1


async def test_a_workflow_that_is_not_registered_is_not_found(service: Service) -> None:
    assert (await service.start(name="nobody"))[1].code == "not_found"
    await service.register(READ)
    assert (await service.start(version="9"))[1].code == "not_found"


async def test_an_exclusive_execution_occupies_its_place(service: Service) -> None:
    await service.register(READ)
    _, first = await service.start(exclusive=True, correlation="k")
    status, problem = await service.start(exclusive=True, correlation="k")
    assert (status, problem.code, problem.execution.id) == (409, "occupied", first["id"])
    assert (await service.start(exclusive=True, correlation="other"))[0] == 202


async def test_the_tenant_is_the_key_s(service: Service) -> None:
    await service.register(READ)
    assert (await service.start(caller=OF_A))[1]["tenant"] == "a"
    assert (await service.start(caller=OF_BOTH, tenant="b"))[1]["tenant"] == "b"
    assert pointers((await service.start(caller=OF_BOTH))[1]) == {"/tenant"}
    status, problem = await service.start(caller=OF_A, tenant="b")
    assert (status, problem.code) == (403, "forbidden")
    assert (await service.start())[1]["tenant"] is None


async def test_other_tenants_do_not_exist(service: Service) -> None:
    await service.register(READ)
    _, theirs = await service.start(tenant="b")
    assert (await service.view(theirs["id"], caller=OF_A))[0] == 404
    assert (await service.list(caller=OF_A))[1]["items"] == []
    answer = await executions.cancel(service.daemon, OF_A, theirs["id"], b"{}")
    assert isinstance(answer, Problem)
    assert answer.code == "not_found"
    assert (await service.claim(caller=Caller("w", None, frozenset({"worker"}), ("a",))))[1]["leases"] == []


async def test_a_key_that_may_not_read_sees_what_it_started(service: Service) -> None:
    await service.register(READ)
    _, own = await service.start(caller=STARTER)
    _, other = await service.start()
    assert (await service.view(own["id"], caller=STARTER))[0] == 200
    assert (await service.view(other["id"], caller=STARTER))[0] == 404
    assert (await service.view(own["id"], caller=STARTER, include="payloads"))[0] == 403
    assert [item["id"] for item in (await service.list(caller=STARTER))[1]["items"]] == [own["id"]]
    answer = await executions.cancel(service.daemon, STARTER, other["id"], b'{"reason":"x"}')
    assert not isinstance(answer, Problem)
    assert answer.status == 202
    assert b"workflow" not in answer.body
    assert other["id"].encode() in answer.body


async def test_a_view_may_wait_for_the_end(service: Service) -> None:
    lease = await service.lease()
    waiting = asyncio.create_task(service.view(lease["execution"]["id"], wait_seconds="30"))
    await asyncio.sleep(0)
    await service.complete(lease)
    _, view = await asyncio.wait_for(waiting, 2)
    assert view["status"] == "completed"
    _, view = await asyncio.wait_for(service.view(view["id"], wait_seconds="30"), 2)
    assert view["status"] == "completed"


async def test_a_view_waits_no_longer_than_told_and_not_for_a_daemon_that_stops(service: Service) -> None:
    _, run = (await service.register(READ)), (await service.start())[1]
    _, view = await asyncio.wait_for(service.view(run["id"], wait_seconds="0.05"), 2)
    assert view["status"] == "queued"
    waiting = asyncio.create_task(service.view(run["id"], wait_seconds="30"))
    await until(lambda: len(service.daemon.watch))
    service.daemon.watch.stop()
    assert (await asyncio.wait_for(waiting, 2))[1]["status"] == "queued"


@pytest.mark.parametrize("query", [{"wait_seconds": "61"}, {"include": "fences"}, {"wait": "1"}, {"include": ""}])
async def test_a_view_takes_known_parameters_only(service: Service, query: dict[str, str]) -> None:
    answer = await reads.view(service.daemon, ME, "x", list(query.items()))
    assert pointers(answer) == {f"/{next(iter(query))}"}


async def test_a_view_tells_why_it_stands_until_a_worker_comes(service: Service) -> None:
    await service.register(READ, {"id": "b", "effect": "read_only"})
    _, run = await service.start()
    _, view = await service.view(run["id"])
    assert view["blocked"] == view["steps"][0]["blocked"]
    assert view["blocked"]["detail"] == "no live worker serves w 1, step a"
    assert view["steps"][1]["blocked"] is None
    assert [item["id"] for item in (await service.list(("blocked", "true")))[1]["items"]] == [run["id"]]
    assert (await service.list(("blocked", "false")))[1]["items"] == []
    await service.claim(serves=[{"workflow": "w", "steps": ["b"]}])
    assert (await service.view(run["id"]))[1]["blocked"] is not None
    await service.claim(serves=[{"workflow": "w", "version": "1", "steps": ["a"]}], claim_id="d")
    assert (await service.view(run["id"]))[1]["blocked"] is None
    assert (await service.list(("blocked", "true")))[1]["items"] == []
    assert len((await service.list(("blocked", "false")))[1]["items"]) == 1


async def test_a_write_that_began_shows_when_and_one_told_too_late_is_kept(service: Service) -> None:
    lease = await service.lease(effect="non_idempotent_write")
    id_ = lease["execution"]["id"]
    _, view = await service.view(id_, include="attempts")
    assert view["steps"][0]["attempts"][0]["started_at"] is None
    await service.heartbeat(lease, started=True)
    _, view = await service.view(id_, include="attempts")
    assert view["steps"][0]["attempts"][0]["started_at"] is not None
    await executions.cancel(service.daemon, ME, id_, b'{"force":true}')
    status, _ = await service.complete(lease, output={"paid": True})
    assert status == 409
    _, view = await service.view(id_, include="attempts")
    stale = view["steps"][0]["attempts"][0]["stale_outcome"]
    assert (stale["outcome"], "output" in stale) == ("complete", False)
    _, view = await service.view(id_, include="attempts,payloads")
    assert view["steps"][0]["attempts"][0]["stale_outcome"]["output"] == {"paid": True}
    assert view["steps"][0]["status"] == "uncertain"


async def test_nothing_that_proves_ownership_is_shown(service: Service) -> None:
    lease = await service.lease()
    await service.complete(lease, output=1)
    _, view = await service.view(lease["execution"]["id"], include="attempts,payloads")
    journal = await reads.events(service.daemon, ME, lease["execution"]["id"], [])
    spans = await tracelist.spans(service.daemon, ME, lease["execution"]["id"], [])
    assert not isinstance(journal, Problem)
    assert not isinstance(spans, Problem)
    for shown in (str(view), journal.body.decode(), spans.body.decode()):
        assert lease["id"] not in shown
        for word in ("fence", "claim_id", "lease_id", "idempotency_key", "hash", "digest", "principal"):
            assert f'{word}"' not in shown
            assert f"'{word}'" not in shown


async def test_a_list_goes_on_where_its_cursor_stands(service: Service) -> None:
    await service.register(READ)
    ids = [(await service.start(labels={"team": "x"}))[1]["id"] for _ in range(5)]
    _, page = await service.list(("limit", "2"), ("label", "team:x"))
    assert [item["id"] for item in page["items"]] == ids[:2:-1]
    await service.start(labels={"team": "x"})
    _, second = await service.list(("limit", "2"), ("cursor", page["next"]))
    assert [item["id"] for item in second["items"]] == ids[2:0:-1]
    _, last = await service.list(("limit", "2"), ("cursor", second["next"]), ("label", "team:x"))
    assert ([item["id"] for item in last["items"]], last["next"]) == (ids[:1], None)
    status, problem = await service.list(("cursor", page["next"]), ("label", "team:y"), ("order", "oldest"))
    assert (status, pointers(problem)) == (422, {"/label", "/order"})
    _, oldest = await service.list(("order", "oldest"), ("limit", "1"))
    assert [item["id"] for item in oldest["items"]] == ids[:1]


@pytest.mark.parametrize(
    "pair",
    [
        ("status", "done"),
        ("limit", "0"),
        ("limit", "201"),
        ("cursor", "x"),
        ("order", "up"),
        ("label", "x"),
        ("created_after", "x"),
        ("colour", "x"),
        ("blocked", "1"),
    ],
)
async def test_a_list_refuses_what_it_does_not_know(service: Service, pair: tuple[str, str]) -> None:
    status, problem = await service.list(pair)
    assert (status, pointers(problem)) == (422, {f"/{pair[0]}"})


async def test_reads_are_written_down_once_an_hour(service: Service) -> None:
    await service.register(READ)
    _, run = await service.start()
    for _ in range(3):
        await service.view(run["id"])
        await reads.events(service.daemon, ME, run["id"], [])
    assert [row for row in service.audited() if row[1] == "execution.read"] == [("me", "execution.read", "done")]


async def test_refused_attempts_are_written_down(service: Service) -> None:
    lease = await service.lease()
    await service.complete(lease)
    answer = await executions.cancel(service.daemon, ME, lease["execution"]["id"], b"{}")
    assert isinstance(answer, Problem)
    assert answer.code == "already_ended"
    assert ("me", "execution.cancel", "refused: already_ended") in service.audited()
