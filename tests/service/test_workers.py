"""The worker's calls as the service answers them: leases whole, outcomes settled, refusals by their names."""

import asyncio
from typing import Any

import msgspec

from stepd.service import executions, workers
from stepd.service.base import Caller, Reply
from stepd_protocol.problems import Problem, Settled
from tests.service.conftest import ME, Service

WRITE = "non_idempotent_write"
ALSO = {"worker": "billing-1", "claim_id": "n", "serves": [{"workflow": "w"}]}


def without(problem: Any, *members: str) -> dict[str, Any]:
    """A problem's members but these."""
    assert isinstance(problem, Problem)
    return {name: value for name, value in msgspec.structs.asdict(problem).items() if name not in members}


async def test_payloads_pass_through_as_their_bytes(service: Service) -> None:
    await service.register({"id": "a", "effect": "read_only"})
    input_ = b'{ "big": 12345678901234567890123, "one": 1.0, "text": "\\u0000" }'
    await executions.start(service.daemon, ME, b'{"workflow":"w","input":%b}' % input_, None, None)
    body = b'{"worker":"x","claim_id":"c","wait_seconds":0,"serves":[{"workflow":"w"}]}'
    answer = await workers.claim(service.daemon, ME, body, asyncio.Event())
    assert isinstance(answer, Reply)
    assert b'"input":%b,' % input_ in answer.body


async def test_a_lease_has_all_that_a_worker_needs(service: Service) -> None:
    await service.register(
        {"id": "a", "effect": WRITE, "lease_seconds": 6, "reclaim_seconds": 2, "timeout_seconds": 60}
    )
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    _, run = await service.start(correlation="k", labels={"team": "x"}, state={"s": 1}, trace=trace)
    _, answer = await service.claim(instance="life-1")
    (lease,) = answer["leases"]
    assert lease["execution"] == {
        "id": run["id"],
        "workflow": "w",
        "version": "1",
        "correlation": "k",
        "tenant": None,
        "labels": {"team": "x"},
        "created_at": run["created_at"],
    }
    assert (lease["fence"], lease["attempt"], lease["max_attempts"]) == (1, 1, 3)
    assert (lease["effect"], lease["delivery"], lease["start_required"]) == (WRITE, "at_most_once", True)
    assert (lease["lease_seconds"], lease["heartbeat_seconds"], lease["reclaim_seconds"]) == (6, 2, 2)
    assert (lease["timeout_seconds"], lease["state"], lease["input"]) == (60, {"s": 1}, None)
    assert lease["idempotency_key"] == f"{run['id']}:a"
    assert lease["traceparent"].startswith("00-4bf92f3577b34da6a3ce929d0e0e4736-")
    assert lease["traceparent"] != trace


async def test_ancestors_that_do_not_fit_are_marked(service: Service) -> None:
    big = "x" * 200_000
    steps = [{"id": f"s{number}", "effect": "read_only"} for number in range(7)]
    await service.register(*steps, {"id": "last", "effect": "read_only", "input": None})
    await service.start()
    for number in range(7):
        _, answer = await service.claim(f"c{number}")
        await service.complete(answer["leases"][0], output=big)
    _, answer = await service.claim("last")
    shown = answer["leases"][0]["steps"]
    assert list(shown) == ["s6", "s5", "s4", "s3", "s2", "s1", "s0"]
    assert [name for name, step in shown.items() if step.get("omitted")] == ["s1", "s0"]
    assert all(step["output"] == big for step in shown.values() if "omitted" not in step)


async def test_previous_tells_of_the_attempt_before(service: Service) -> None:
    lease = await service.lease()
    await service.heartbeat(lease, progress={"page": 7})
    _, told = await service.fail(lease, "interrupted", message="no", details={"k": 1}, next=ALSO)
    (again,) = told["leases"]
    error = {"class": "interrupted", "message": "no", "details": {"k": 1}}
    assert again["previous"] == {"attempt": 1, "progress": {"page": 7}, "error": error}
    assert (again["attempt"], again["fence"]) == (1, 2)


async def test_an_output_that_breaks_its_schema_settles_and_says_so_again(service: Service) -> None:
    lease = await service.lease(output_schema={"type": "object"})
    status, first = await service.complete(lease, output=5, next=ALSO)
    assert (status, first.code) == (422, "invalid_output")
    assert first.settled == Settled(outcome="failed", at=first.settled.at)
    assert first.execution.status == "failed"
    status, again = await service.complete(lease, output=5)
    assert (status, again.replayed) == (422, True)
    assert without(again, "replayed") == without(first, "replayed")


async def test_an_output_over_its_limit_settles(service: Service) -> None:
    lease = await service.lease(effect="idempotent_write")
    status, problem = await service.complete(lease, output="x" * 262_144)
    assert (status, problem.code, problem.settled.outcome) == (422, "invalid_output", "failed")
    assert problem.execution.status == "reconciliation_required"


async def test_what_leaves_the_lease_as_it_was(service: Service) -> None:
    lease = await service.lease()
    for body in ({"state": 5}, {"surprise": 1}, {"fence": "x"}):
        status, problem = await service.complete(lease, **body)
        assert (status, problem.code) == (422, "invalid_request")
        assert problem.settled is msgspec.UNSET
    assert (await service.complete(lease))[0] == 200


async def test_a_fault_in_next_never_undoes_the_outcome(service: Service) -> None:
    faulty: list[Any] = [5, [], {}, {**ALSO, "wait_seconds": 5}, {**ALSO, "max": 0}, {**ALSO, "x": 1}, "x"]
    await service.register({"id": "a", "effect": "read_only"})
    for number, next_ in enumerate(faulty):
        await service.start()
        _, answer = await service.claim(f"c{number}")
        status, told = await service.complete(answer["leases"][0], next=next_)
        assert (status, told["leases"], told["execution"]["status"]) == (200, [], "completed")
        assert told["warnings"][0].startswith("next was not done: ")


async def test_next_is_done_only_with_a_200(service: Service) -> None:
    lease = await service.lease()
    await service.start()
    stranger = Caller("other", None, frozenset({"admin"}), None)
    assert (await service.complete(lease, caller=stranger, next=ALSO))[0] == 404
    assert (await service.complete({**lease, "fence": 9}, next=ALSO))[0] == 409
    assert len((await service.claim("d"))[1]["leases"]) == 1


async def test_a_holder_that_lost_its_scope_settles_and_claims_no_more(service: Service) -> None:
    lease = await service.lease()
    await service.start()
    _, told = await service.complete(lease, caller=Caller("me", None, frozenset(), None), next=ALSO)
    assert told["leases"] == []
    assert "no scope worker" in told["warnings"][0]


async def test_refusals_say_what_happened_and_hold_no_fence(service: Service) -> None:
    lease = await service.lease()
    status, problem = await service.heartbeat({**lease, "fence": 7})
    assert (status, problem.reason, problem.execution.status) == (409, "lease_lost", "running")
    await service.complete(lease)
    status, problem = await service.fail(lease, "fatal")
    assert (status, problem.reason, problem.settled.outcome) == (409, "already_settled", "succeeded")
    assert "fence" not in str(msgspec.json.encode(problem)).replace("the fence is not", "")


async def test_unservable_goes_back_and_the_instance_no_longer_counts(service: Service) -> None:
    lease = await service.lease()
    _, told = await service.fail(lease, "unservable")
    assert told["disposition"] == "requeued"
    assert (await service.claim("d"))[1]["leases"] == []
    _, view = await service.view(lease["execution"]["id"])
    assert view["blocked"]["code"] == "no_worker"
    assert len((await service.claim("e", instance="another"))[1]["leases"]) == 1


async def test_undelivered_leases_go_back_unless_named(service: Service) -> None:
    lease = await service.lease()
    await workers.undelivered(service.daemon, [lease["id"]])
    _, answer = await service.claim("d")
    (again,) = answer["leases"]
    assert (again["attempt"], again["fence"]) == (1, 3)
    await service.heartbeat(again)
    await workers.undelivered(service.daemon, [again["id"]])
    assert (await service.complete(again))[0] == 200
