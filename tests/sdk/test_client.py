"""The client against a scripted daemon: what it sends, what it sends again, what it raises."""

import asyncio
import json
from dataclasses import replace

import pytest

from stepd_worker import ApiError, Client, ExecutionNotCompleted, Unreachable
from tests.sdk.peer import DROPPED, Peer, Reply, problem

VIEW = {"id": "e-1", "workflow": "jobs", "status": "running", "output": None, "error": None}
ENDED = VIEW | {"status": "completed", "output": {"n": 2}}


@pytest.fixture
def client(peer: Peer) -> Client:
    return Client(peer.url, "secret", retry_seconds=5)


def test_start_sends_what_is_given_and_a_key_of_its_own(peer: Peer, client: Client) -> None:
    peer.always("executions", Reply(202, VIEW))
    with client:
        assert client.start("jobs", {"n": 1}, labels={"a": "b"})["id"] == "e-1"
        client.start("jobs", {"n": 1})
    first, second = peer.named("executions")
    assert first.body == {"workflow": "jobs", "input": {"n": 1}, "labels": {"a": "b"}}
    assert first.headers["authorization"] == "Bearer secret"
    assert first.headers["content-type"] == "application/json"
    assert len(first.headers["idempotency-key"]) == 36
    assert first.headers["idempotency-key"] != second.headers["idempotency-key"]


def test_a_lost_answer_is_asked_for_with_the_same_bytes(peer: Peer, client: Client) -> None:
    peer.script(
        "executions", DROPPED, replace(problem(503, "unavailable"), headers={"Retry-After": "0"}), Reply(202, VIEW)
    )
    with client:
        client.start("jobs", {"n": 1})
    calls = peer.named("executions")
    assert len(calls) == 3
    assert len({(call.raw, call.headers["idempotency-key"]) for call in calls}) == 1


async def test_the_same_call_is_awaited(peer: Peer, client: Client) -> None:
    peer.always("e-1", Reply(200, ENDED))
    async with client:
        assert (await client.get.aio("e-1"))["status"] == "completed"
        assert await client.result.aio("e-1") == {"n": 2}


async def test_many_calls_wait_side_by_side(peer: Peer, client: Client) -> None:
    peer.always("executions", Reply(202, VIEW, delay=0.2))
    async with client, asyncio.timeout(1.5):
        views = await asyncio.gather(*(client.start.aio("jobs") for _ in range(20)))
    assert len(views) == len(peer.named("executions")) == 20


def test_a_refusal_is_raised_at_once_with_all_it_says(peer: Peer, client: Client) -> None:
    faults = [{"path": "/workflow", "message": "must be a name"}]
    peer.always("executions", problem(422, "invalid_request", errors=faults))
    with client, pytest.raises(ApiError) as caught:
        client.start("no name")
    assert (caught.value.status, caught.value.code, caught.value.errors) == (422, "invalid_request", faults)
    assert "/workflow: must be a name" in str(caught.value)
    assert len(peer.calls) == 1


def test_an_answer_of_something_else_is_an_error_that_shows_it(peer: Peer, client: Client) -> None:
    peer.always("service", Reply(404, b"<h1>nginx</h1>"))
    with client, pytest.raises(ApiError, match=r"404 unknown.*nginx"):
        client.service()


def test_patience_ends_with_the_last_trouble(peer: Peer) -> None:
    peer.always("service", problem(503, "unavailable"))
    with Client(peer.url, retry_seconds=0) as client, pytest.raises(ApiError, match="unavailable"):
        client.service()


def test_nobody_there_says_where() -> None:
    with Client("http://127.0.0.1:9", retry_seconds=0) as client, pytest.raises(Unreachable, match=r"127\.0\.0\.1:9"):
        client.service()


def test_where_and_who_come_from_the_environment(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPD_URL", peer.url + "/")
    monkeypatch.setenv("STEPD_KEY", "from-env")
    peer.always("service", Reply(200, {"id": "s"}))
    with Client() as client:
        assert client.service() == {"id": "s"}
    assert peer.calls[0].headers["authorization"] == "Bearer from-env"


def test_an_address_that_is_none_is_refused_with_the_way_out() -> None:
    with pytest.raises(ValueError, match="STEPD_URL"):
        Client("localhost:7117")


def test_wait_asks_again_until_it_has_ended(peer: Peer, client: Client) -> None:
    peer.script("e-1", Reply(200, VIEW), Reply(200, VIEW), Reply(200, ENDED))
    with client:
        assert client.wait("e-1")["status"] == "completed"
    assert [call.path for call in peer.calls] == ["/v1/executions/e-1?wait_seconds=30.0"] * 3


def test_wait_has_an_end(peer: Peer, client: Client) -> None:
    peer.always("e-1", Reply(200, VIEW, delay=0.1))
    with client, pytest.raises(TimeoutError, match="still running"):
        client.wait("e-1", timeout_seconds=0.2)


def test_a_result_that_never_was_is_raised_with_its_view(peer: Peer, client: Client) -> None:
    error = {"class": "card_declined", "message": "no funds", "step": "charge", "cause": None}
    peer.always("e-1", Reply(200, VIEW | {"status": "failed", "error": error}))
    with client, pytest.raises(ExecutionNotCompleted, match="card_declined: no funds") as caught:
        client.result("e-1")
    assert caught.value.execution["status"] == "failed"


def test_list_says_its_filters(peer: Peer, client: Client) -> None:
    peer.always("executions", Reply(200, {"items": [], "next": None}))
    with client:
        client.list(workflow="jobs", status=["queued", "running"], label="a:b c", blocked=True, limit=5)
        client.list(status="failed")
    assert [call.path for call in peer.calls] == [
        "/v1/executions?workflow=jobs&status=queued&status=running&label=a%3Ab+c&blocked=true&limit=5",
        "/v1/executions?status=failed",
    ]


def test_the_steering_calls(peer: Peer, client: Client) -> None:
    for name in ("cancel", "pause", "resume", "current", "jobs", "workflows", "workers"):
        peer.always(name, Reply(202, {}))
    with client:
        client.cancel("e-1", reason="enough", force=True)
        client.cancel("e-1")
        client.pause("e-1")
        client.resume("e-1")
        client.use("jobs", "2")
        client.workflow("jobs")
        client.workflows()
        client.workers()
    assert [(call.method, call.path, call.body) for call in peer.calls] == [
        ("POST", "/v1/executions/e-1/cancel", {"reason": "enough", "force": True}),
        ("POST", "/v1/executions/e-1/cancel", {}),
        ("POST", "/v1/executions/e-1/pause", {}),
        ("POST", "/v1/executions/e-1/resume", {}),
        ("POST", "/v1/workflows/jobs/current", {"version": "2"}),
        ("GET", "/v1/workflows/jobs", None),
        ("GET", "/v1/workflows", None),
        ("GET", "/v1/workers", None),
    ]


def test_signals_and_events_bear_a_key_of_their_own(peer: Peer, client: Client) -> None:
    peer.always("signals", Reply(202, VIEW))
    peer.script("events", DROPPED, Reply(202, {"delivered": 2}))
    with client:
        assert client.signal("e-1", "approval", {"by": "ann"})["id"] == "e-1"
        client.signal("e-1", "approval", idempotency_key="mine")
        assert client.publish("paid", "order 17", 5) == {"delivered": 2}
    first, second, lost, again = peer.calls
    assert (first.method, first.path) == ("POST", "/v1/executions/e-1/signals")
    assert first.body == {"name": "approval", "payload": {"by": "ann"}}
    assert len(first.headers["idempotency-key"]) == 36
    assert (second.body, second.headers["idempotency-key"]) == ({"name": "approval", "payload": None}, "mine")
    assert (again.path, again.body) == ("/v1/events", {"name": "paid", "correlation": "order 17", "payload": 5})
    assert (lost.raw, lost.headers["idempotency-key"]) == (again.raw, again.headers["idempotency-key"])


async def test_signals_and_events_are_awaited(peer: Peer, client: Client) -> None:
    peer.always("signals", Reply(202, VIEW))
    peer.always("events", Reply(202, {"delivered": 0}))
    async with client:
        assert (await client.signal.aio("e-1", "approval"))["id"] == "e-1"
        assert await client.publish.aio("paid", "order 17") == {"delivered": 0}


def _event(seq: int, type: str = "step.queued") -> dict[str, object]:
    return {"seq": seq, "at": "2026-11-30T12:00:00.000Z", "type": type, "data": {}}


def _sse(*events: dict[str, object]) -> Reply:
    lines = ": hello\n\n" + "".join(f"id: {e['seq']}\nevent: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events)
    return Reply(200, lines.encode(), {"Content-Type": "text/event-stream"})


def test_the_stored_journal_is_read_page_by_page(peer: Peer, client: Client) -> None:
    peer.script(
        "events",
        Reply(200, {"items": [_event(1), _event(2)], "next": 2}),
        Reply(200, {"items": [_event(3)], "next": None}),
    )
    with client:
        assert [event["seq"] for event in client.events("e-1")] == [1, 2, 3]
    assert [call.path.partition("?")[2] for call in peer.calls] == ["after=0", "after=2"]


def test_a_cut_stream_is_taken_up_where_it_broke(peer: Peer, client: Client) -> None:
    peer.script("events", _sse(_event(1), _event(2)), DROPPED, _sse(_event(3), _event(4, "execution.completed")))
    with client:
        assert [event["seq"] for event in client.events("e-1", live=True)] == [1, 2, 3, 4]
    assert [call.headers["last-event-id"] for call in peer.calls] == ["0", "2", "2"]
    assert {call.headers["accept"] for call in peer.calls} == {"text/event-stream"}


async def test_a_stream_of_an_ended_execution_stops(peer: Peer, client: Client) -> None:
    peer.always("events", Reply(204))
    async with client:
        assert [event async for event in client.events.aio("e-1", after=9, live=True)] == []


def test_a_stream_can_be_left(peer: Peer, client: Client) -> None:
    peer.always("events", _sse(_event(1), _event(2)))
    with client:
        events = client.events("e-1", live=True)
        assert next(events)["seq"] == 1
        del events


def test_a_stream_that_is_refused_raises(peer: Peer, client: Client) -> None:
    peer.always("events", problem(404, "not_found"))
    with client, pytest.raises(ApiError, match="not_found"):
        next(client.events("e-1", live=True))


def test_a_resolution_is_sent_again_with_its_key_until_there_is_an_answer(peer: Peer, client: Client) -> None:
    taken = Reply(200, {"id": "e-1", "status": "running"})
    peer.script("resolve", DROPPED, taken, taken)
    results = [{"step": "charge", "outcome": "absent"}]
    with client:
        assert client.resolve("e-1", results=results, reference="4711", reason="seen")["status"] == "running"
        client.resolve("e/1", close="accepted", reference="4711", reason="seen", expected_revision=3)
    first, again, closed = peer.named("resolve")
    assert (first.raw, first.headers["idempotency-key"]) == (again.raw, again.headers["idempotency-key"])
    evidence = {"reference": "4711", "reason": "seen"}
    assert first.body == {"action": "resume", "results": results, "evidence": evidence}
    assert closed.path == "/v1/admin/executions/e%2F1/resolve"
    body = {"action": "close", "verification": "accepted", "expected_revision": 3, "evidence": evidence}
    assert closed.body == body
