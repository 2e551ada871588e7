"""A whole worker against a scripted daemon: what it claims, runs, says and says again."""

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from stepd_worker import Applied, Context, NotApplied, Retryable, StepFailed, Worker, Workflow
from tests.sdk.peer import Peer, Reply, lease
from tests.sdk.running import jobs, plus_one, raising, running, wait_for


def test_it_registers_claims_and_completes(peer: Peer) -> None:
    peer.deal(lease())
    with running(peer, jobs(plus_one), concurrency=3):
        (complete,) = peer.wait_for("complete")
    registered, claim = peer.calls[0], peer.named("claim")[0]
    assert (registered.method, registered.path) == ("PUT", "/v1/workflows/jobs")
    assert registered.body == {"version": "1", "steps": [{"id": "work", "effect": "idempotent_write"}]}
    assert claim.body["worker"] == "w-1"
    assert (claim.body["max"], claim.body["wait_seconds"]) == (3, 30)
    assert claim.body["serves"] == [{"workflow": "jobs", "version": "1", "steps": None}]
    assert complete.path == "/v1/leases/l-1/complete"
    said = complete.body
    following = said.pop("next")
    assert said == {"fence": 3, "output": {"n": 2}}
    assert (following["worker"], following["instance"]) == ("w-1", claim.body["instance"])
    assert following["wait_seconds"] == 0
    assert following["claim_id"] != claim.body["claim_id"]


def test_a_busy_slot_spends_one_call_a_step(peer: Peer) -> None:
    peer.deal(*(lease(f"l-{n}") for n in range(30)))
    with running(peer, jobs(plus_one), concurrency=1):
        peer.wait_for("complete", 30)
        assert len(peer.named("claim")) == 1


def test_a_plain_body_runs_on_a_thread_and_its_threads_are_reused(peer: Peer) -> None:
    names: list[str] = []

    def body(ctx: Context, input: Any) -> str:
        names.append(threading.current_thread().name)
        return "done"

    peer.deal(*(lease(f"l-{n}") for n in range(20)))
    with running(peer, jobs(body), concurrency=2):
        completes = peer.wait_for("complete", 20)
    assert {call.body["output"] for call in completes} == {"done"}
    assert len(set(names)) <= 2
    assert all(name.startswith("stepd-body-") for name in names)


@pytest.mark.parametrize("plain", [True, False])
def test_slots_are_never_exceeded(peer: Peer, plain: bool) -> None:
    lock, at_once, most = threading.Lock(), 0, 0

    def enter(by: int) -> None:
        nonlocal at_once, most
        with lock:
            at_once += by
            most = max(most, at_once)

    def plain_body(ctx: Context, input: Any) -> None:
        enter(1)
        time.sleep(0.01)
        enter(-1)

    async def async_body(ctx: Context, input: Any) -> None:
        enter(1)
        await asyncio.sleep(0.01)
        enter(-1)

    body: Callable[..., Any] = plain_body if plain else async_body
    with running(peer, jobs(body), concurrency=3):
        for n in range(40):
            peer.deal(lease(f"l-{n}"))
        completes = peer.wait_for("complete", 40)
    assert most == 3
    asked = 0
    for call in peer.calls:
        wanted = call.body if call.name == "claim" else (call.body or {}).get("next")
        asked = max(asked, wanted["max"] if wanted else 0)
    assert asked <= 3
    assert len({call.path for call in completes}) == 40


def test_more_leases_than_slots_are_given_back_unbegun(peer: Peer) -> None:
    release, begun = threading.Event(), []

    def body(ctx: Context, input: Any) -> None:
        begun.append(ctx.execution.id)
        release.wait(5)

    leases = [lease(f"l-{n}") for n in range(3)]
    peer.script("claim", Reply(200, {"leases": leases, "held_seconds": 0, "service": "service-1"}))
    with running(peer, jobs(body), concurrency=1):
        fails = peer.wait_for("fail", 2)
        release.set()
        peer.wait_for("complete")
    assert {(call.body["class"], call.body["effect"]) for call in fails} == {("interrupted", "none")}
    assert len(begun) == 1


def test_the_context_tells_what_the_lease_says(peer: Peer) -> None:
    seen: dict[str, Any] = {}

    async def body(ctx: Context, input: Any, steps: Any) -> None:
        seen.update(
            attempt=(ctx.attempt, ctx.max_attempts, ctx.fence, ctx.index),
            key=ctx.idempotency_key,
            execution=(ctx.execution.id, ctx.execution.workflow, ctx.execution.labels),
            previous=(ctx.previous.attempt, ctx.previous.progress),
            error=ctx.previous.error and ctx.previous.error.class_,
            fetched=steps.fetch.output,
            state=dict(ctx.state),
        )
        ctx.log.info("seen")

    error = {"class": "retryable", "message": "m", "details": None}
    peer.deal(
        lease(
            attempt=2,
            index=4,
            steps={"fetch": {"status": "succeeded", "output": [1, 2]}},
            state={"a": 1},
            previous={"attempt": 1, "progress": {"done": 7}, "error": error},
        )
    )
    with running(peer, jobs(body)):
        peer.wait_for("complete")
    assert seen == {
        "attempt": (2, 3, 3, 4),
        "key": "e-l-1:work",
        "execution": ("e-l-1", "jobs", {}),
        "previous": (1, {"done": 7}),
        "error": "retryable",
        "fetched": [1, 2],
        "state": {"a": 1},
    }


def test_state_usage_and_spans_go_with_the_outcome(peer: Peer) -> None:
    async def body(ctx: Context, input: Any) -> None:
        ctx.state["label"] = "billing"
        with ctx.span("outer", kind="client", model="m-1") as outer:
            with ctx.span("inner") as inner:
                inner.usage(model="m-1", input_tokens=812, output_tokens=64)
            outer.set("n", 1)
        ctx.set_usage(model="m-1", input_tokens=900)

    peer.deal(lease())
    with running(peer, jobs(body)):
        (complete,) = peer.wait_for("complete")
    inner, outer = complete.body["spans"]
    assert complete.body["state"] == {"label": "billing"}
    assert [usage["input_tokens"] for usage in complete.body["usage"]] == [900]
    assert (inner["name"], inner["parent_span_id"]) == ("inner", outer["span_id"])
    assert inner["usage"][0]["input_tokens"] == 812
    assert (outer["kind"], outer["attributes"], outer["parent_span_id"]) == ("client", {"model": "m-1", "n": 1}, None)
    assert int(outer["end_unix_nano"]) >= int(inner["end_unix_nano"]) >= int(inner["start_unix_nano"]) > 0


@dataclass
class Order:
    n: int


def test_a_typed_input_arrives_as_its_type(peer: Peer) -> None:
    async def body(ctx: Context, input: Order) -> int:
        return input.n

    peer.deal(lease(), lease("l-2", input={"n": "one"}))
    with running(peer, jobs(body)):
        (complete,), (fail,) = peer.wait_for("complete"), peer.wait_for("fail")
    assert complete.body["output"] == 1
    assert (fail.body["class"], fail.body["effect"]) == ("invalid_input", "none")


# --- How a body fails


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            Retryable("busy", retry_after=30, details={"a": 1}),
            {"class": "retryable", "message": "busy", "retry_after": 30, "details": {"a": 1}, "effect": None},
        ),
        (StepFailed("card_declined", "no funds"), {"class": "card_declined", "message": "no funds", "effect": None}),
        (NotApplied(Retryable("refused")), {"class": "retryable", "message": "refused", "effect": "none"}),
        (NotApplied(StepFailed("x", "y"), any_attempt=True), {"class": "x", "message": "y", "effect": "absent"}),
        (Applied(StepFailed("x", "y")), {"class": "x", "message": "y", "effect": "applied"}),
        (NotApplied(KeyError("k")), {"class": "fatal", "message": "KeyError: 'k'", "effect": "none"}),
        (RuntimeError("boom"), {"class": "fatal", "message": "RuntimeError: boom", "effect": None}),
        (asyncio.CancelledError(), {"class": "fatal", "message": "The body was cancelled, but nobody asked for it"}),
        (SystemExit(3), {"class": "fatal", "message": "SystemExit: 3"}),
    ],
)
def test_what_is_said_of_a_body_that_raises(
    peer: Peer, error: Exception, said: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    peer.deal(lease())
    with running(peer, jobs(raising(error))):
        (fail,) = peer.wait_for("fail")
    assert {key: fail.body.get(key) for key in said} == said
    assert "Traceback" not in fail.raw.decode()
    assert ("Traceback" in caplog.text) == said["message"].startswith(("RuntimeError", "KeyError", "SystemExit"))


@pytest.mark.parametrize(("timeout", "most"), [(None, 30), (5, 5)])
def test_a_body_knows_how_long_its_attempt_lasts(peer: Peer, timeout: float | None, most: float) -> None:
    async def body(ctx: Context, input: Any) -> Any:
        return ctx.seconds_left

    peer.deal(lease(timeout_seconds=timeout, lease_seconds=30))
    with running(peer, jobs(body)):
        (complete,) = peer.wait_for("complete")
    assert most - 5 < complete.body["output"] <= most


def test_an_output_without_json_is_an_invalid_output_of_work_that_was_done(peer: Peer) -> None:
    async def body(ctx: Context, input: Any) -> Any:
        return {"ratio": float("nan")}

    peer.deal(lease(), lease("l-2", effect="idempotent_write"))
    with running(peer, jobs(body)):
        fail = peer.wait_for("fail", 2)[0]
    assert (fail.body["class"], fail.body["effect"]) == ("invalid_output", "applied")
    assert "NaN" in fail.body["message"]


def test_what_this_worker_lacks_is_unservable(peer: Peer) -> None:
    other = lease("l-2")
    other["execution"] = other["execution"] | {"version": "2"}
    peer.deal(lease("l-1", step="other"), other, lease("l-3", effect="non_idempotent_write"))
    with running(peer, jobs(plus_one)):
        fails = {call.path.split("/")[3]: call.body for call in peer.wait_for("fail", 3)}
    assert {body["class"] for body in fails.values()} == {"unservable"}
    assert {body["effect"] for body in fails.values()} == {"none"}
    assert "step 'other'" in fails["l-1"]["message"]
    assert "version '2'" in fails["l-2"]["message"]
    assert "non_idempotent_write" in fails["l-3"]["message"]


def test_its_settings_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPD_WORKER_NAME", "from-env")
    monkeypatch.setenv("STEPD_WORKER_CONCURRENCY", "7")
    monkeypatch.setenv("STEPD_WORKER_DRAIN_SECONDS", "1.5")
    worker = Worker()
    assert (worker.name, worker.concurrency, worker.drain_seconds) == ("from-env", 7, 1.5)
    monkeypatch.setenv("STEPD_WORKER_CONCURRENCY", "many")
    with pytest.raises(ValueError, match="STEPD_WORKER_CONCURRENCY"):
        Worker()
    with pytest.raises(ValueError, match="slots"):
        Worker(concurrency=0)
    with pytest.raises(ValueError, match="'a b'"):
        Worker(name="a b", concurrency=1)
    with pytest.raises(ValueError, match="has no body"):
        Worker(concurrency=1).register(Workflow("empty"))
    with pytest.raises(ValueError, match="registered already"):
        Worker(concurrency=1).register(jobs(plus_one), jobs(plus_one))
    with pytest.raises(ValueError, match="nothing to serve"):
        Worker(concurrency=1).serve()


def test_a_name_of_its_own_is_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STEPD_WORKER_NAME", raising=False)
    monkeypatch.setattr("socket.gethostname", lambda: "_ä host" + "x" * 200)
    assert len(Worker(concurrency=1).name) <= 128


def test_waiting_is_done_without_polling(peer: Peer) -> None:
    with running(peer, jobs(plus_one)):
        peer.wait_for("claim")
        wait_for(lambda: len(peer.named("claim")) == 1, "one parked claim")
    claims = [call for call in peer.named("claim") if call.body["wait_seconds"]]
    assert len(claims) == 1
