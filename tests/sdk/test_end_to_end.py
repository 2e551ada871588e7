"""Client and worker with a real daemon on a file: what a program sees when all three do their part."""

import asyncio
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stepd_worker import (
    ApiError,
    Client,
    Context,
    ExecutionNotCompleted,
    NotApplied,
    Retry,
    Retryable,
    StepFailed,
    Worker,
    Workflow,
    cel,
)
from tests.sdk.running import wait_for
from tests.sdk.served import is_served, serving
from tests.support.daemon import Daemon
from tests.support.daemon import running as running_daemon

SECONDS = 20.0
AGAIN_AT_ONCE = Retry(max_attempts=3, initial_seconds=0.05)


@dataclass
class Order:
    amount: int


def test_steps_state_and_output(client: Client) -> None:
    shop = Workflow("shop", output={"paid": cel("steps.charge.output.cents"), "label": cel("state.label")})

    @shop.step(effect="read_only")
    async def price(ctx: Context, input: Order) -> dict[str, int]:
        ctx.state["label"] = "priced"
        return {"cents": input.amount * 100}

    @shop.step(effect="idempotent_write", input=cel("steps.price.output"))
    def charge(ctx: Context, input: Any, steps: Any) -> dict[str, Any]:
        assert ctx.state["label"] == "priced"
        assert ctx.idempotency_key == f"{ctx.execution.id}:charge"
        return {"cents": input["cents"], "seen": steps.price.output}

    with serving(client, shop):
        view = client.start("shop", Order(3))
        assert client.result(view["id"], timeout_seconds=SECONDS) == {"paid": 300, "label": "priced"}
        types = [event["type"] for event in client.events(view["id"], live=True)]
    assert types[0] == "execution.created"
    assert types[-1] == "execution.completed"
    assert client.list(workflow="shop")["items"][0]["id"] == view["id"]


async def test_the_same_in_a_loop(daemon: Daemon) -> None:
    echo = Workflow("echo", output=cel("steps.say.output"))

    @echo.step(effect="read_only")
    async def say(ctx: Context, input: Any) -> Any:
        return input

    worker = Worker(daemon.url, concurrency=4).register(echo)
    serving = asyncio.create_task(worker.serve_async())
    async with Client(daemon.url) as client:
        await asyncio.to_thread(wait_for, lambda: is_served(client, "echo"), "the worker to serve")
        views = await asyncio.gather(*(client.start.aio("echo", n) for n in range(20)))
        results = await asyncio.gather(*(client.result.aio(v["id"], timeout_seconds=SECONDS) for v in views))
        events = [event["seq"] async for event in client.events.aio(views[0]["id"])]
    worker.stop()
    await serving
    assert results == list(range(20))
    assert events == list(range(1, len(events) + 1))


def test_one_key_starts_one_execution(client: Client) -> None:
    once = Workflow("once")
    once.step("work", effect="read_only")(_nothing)
    with serving(client, once):
        first = client.start("once", 1, idempotency_key="order-1")
        again = client.start("once", 1, idempotency_key="order-1")
        assert first["id"] == again["id"]
        with pytest.raises(ApiError, match="idempotency_conflict"):
            client.start("once", 2, idempotency_key="order-1")


def test_a_retry_goes_on_from_what_was_told(client: Client) -> None:
    flaky = Workflow("flaky", output=cel("steps.work.output"))

    @flaky.step(effect="idempotent_write", retry=AGAIN_AT_ONCE)
    async def work(ctx: Context, input: Any) -> Any:
        if ctx.attempt < 3:
            raise Retryable(f"attempt {ctx.attempt}", details={"attempt": ctx.attempt})
        assert ctx.previous.error is not None
        return {"attempt": ctx.attempt, "before": ctx.previous.error.message}

    with serving(client, flaky):
        view = client.start("flaky")
        output = client.result(view["id"], timeout_seconds=SECONDS)
    assert output == {"attempt": 3, "before": "attempt 2"}


def test_failures_have_classes(client: Client) -> None:
    paying = Workflow("paying", on_failure="fail", output=cel("steps.charge.output"))

    @paying.step(effect="read_only", catch=[{"class": "card_declined", "value": {"declined": True}}])
    async def charge(ctx: Context, input: Any) -> None:
        raise StepFailed(input["class"], "no funds")

    with serving(client, paying):
        caught = client.start("paying", {"class": "card_declined"})
        failed = client.start("paying", {"class": "card_stolen"})
        assert client.result(caught["id"], timeout_seconds=SECONDS) == {"declined": True}
        with pytest.raises(ExecutionNotCompleted, match="card_stolen: no funds"):
            client.result(failed["id"], timeout_seconds=SECONDS)


def test_a_write_that_may_have_happened_waits_for_an_operator(client: Client) -> None:
    risky = Workflow("risky")

    @risky.step(effect="non_idempotent_write", retry=AGAIN_AT_ONCE)
    def charge(ctx: Context, input: Any) -> None:
        if input == "surely not" and ctx.attempt == 1:
            raise NotApplied(Retryable("refused by the bank"))
        if input == "who knows":
            raise Retryable("no answer from the bank")

    with serving(client, risky):
        sure = client.start("risky", "surely not")
        unsure = client.start("risky", "who knows")
        assert client.wait(sure["id"], timeout_seconds=SECONDS)["status"] == "completed"
        view = client.wait(unsure["id"], timeout_seconds=SECONDS)
    assert view["status"] == "reconciliation_required"
    assert view["steps"][0]["status"] == "uncertain"


@pytest.mark.parametrize("plain", [True, False])
def test_an_effect_begins_when_the_body_says_so(client: Client, plain: bool) -> None:
    name = f"announced-{plain}"
    flow, seen = Workflow(name), list[list[str]]()

    def types(ctx: Context) -> list[str]:
        return [event["type"] for event in client.events(ctx.execution.id) if event["type"].startswith("attempt")]

    async def async_body(ctx: Context, input: Any) -> None:
        seen.append(await asyncio.to_thread(types, ctx))
        await ctx.begin_effect()
        seen.append(await asyncio.to_thread(types, ctx))

    def plain_body(ctx: Context, input: Any) -> None:
        seen.append(types(ctx))
        ctx.begin_effect()
        seen.append(types(ctx))

    flow.step("work", effect="non_idempotent_write", begins_effect=True)(plain_body if plain else async_body)
    with serving(client, flow):
        assert client.wait(client.start(name)["id"], timeout_seconds=SECONDS)["status"] == "completed"
    assert seen == [["attempt.leased"], ["attempt.leased", "attempt.started"]]


@pytest.mark.parametrize("plain", [True, False])
def test_a_cancel_reaches_the_body_of_a_write(client: Client, plain: bool) -> None:
    name = f"cancelled-{plain}"
    flow, begun, reasons = Workflow(name), threading.Event(), list[str | None]()

    async def async_body(ctx: Context, input: Any) -> None:
        begun.set()
        try:
            await asyncio.sleep(SECONDS)
        except asyncio.CancelledError:
            reasons.append(ctx.cancelled.reason)
            raise NotApplied(StepFailed("cancelled")) from None

    def plain_body(ctx: Context, input: Any) -> None:
        begun.set()
        ctx.cancelled.wait(SECONDS)
        reasons.append(ctx.cancelled.reason)
        raise NotApplied(StepFailed("cancelled"))

    flow.step("work", effect="idempotent_write")(plain_body if plain else async_body)
    with serving(client, flow):
        view = client.start(name)
        assert begun.wait(SECONDS)
        client.cancel(view["id"], reason="enough")
        view = client.wait(view["id"], timeout_seconds=SECONDS)
    assert reasons == ["cancel_requested"]
    assert view["status"] == "cancelled"


def test_a_read_of_a_cancelled_execution_is_told_that_it_ended(client: Client) -> None:
    flow, begun, reasons = Workflow("reading"), threading.Event(), list[str | None]()

    @flow.step(effect="read_only")
    def work(ctx: Context, input: Any) -> None:
        begun.set()
        ctx.cancelled.wait(SECONDS)
        reasons.append(ctx.cancelled.reason)

    with serving(client, flow):
        view = client.start("reading")
        assert begun.wait(SECONDS)
        client.cancel(view["id"])
        assert client.wait(view["id"], timeout_seconds=SECONDS)["status"] == "cancelled"
        wait_for(lambda: reasons, "the body to hear of it")
    assert reasons == ["execution_ended"]


def test_what_a_stopping_worker_interrupts_another_one_does(client: Client) -> None:
    flow, begun = Workflow("handed-over", output=cel("steps.work.output")), threading.Event()

    @flow.step(effect="idempotent_write")
    def work(ctx: Context, input: Any) -> str:
        if begun.is_set():
            return "done by the other"
        begun.set()
        ctx.cancelled.wait(SECONDS)
        ctx.raise_if_cancelled()
        return "never"

    with serving(client, flow, name="first", drain_seconds=0.1) as first:
        view = client.start("handed-over")
        assert begun.wait(SECONDS)
        first.stop()
    with serving(client, flow, name="second"):
        assert client.result(view["id"], timeout_seconds=SECONDS) == "done by the other"
        view = client.get(view["id"], include=["attempts"])
    attempts = view["steps"][0]["attempts"]
    assert [(attempt["worker"], attempt["status"]) for attempt in attempts] == [
        ("first", "requeued"),
        ("second", "succeeded"),
    ]


def test_usage_of_spans_is_summed_up(client: Client) -> None:
    flow = Workflow("telling")

    @flow.step(effect="read_only")
    async def work(ctx: Context, input: Any) -> None:
        for tokens in (10, 20):
            with ctx.span("call", kind="client") as span:
                span.usage(model="m-1", input_tokens=tokens, output_tokens=1)

    with serving(client, flow):
        view = client.wait(client.start("telling")["id"], timeout_seconds=SECONDS)
    assert (view["usage"]["input_tokens"], view["usage"]["output_tokens"]) == (30, 2)


def test_many_steps_through_few_slots(client: Client) -> None:
    flow, ran, lock = Workflow("many", output=cel("steps.last.output")), dict[tuple[str, str], int](), threading.Lock()

    def count(ctx: Context) -> None:
        with lock:
            ran[ctx.execution.id, ctx.step] = ran.get((ctx.execution.id, ctx.step), 0) + 1

    @flow.step(effect="idempotent_write")
    async def first(ctx: Context, input: Any) -> Any:
        count(ctx)
        return input

    @flow.step(effect="idempotent_write")
    def middle(ctx: Context, input: Any) -> None:
        count(ctx)

    @flow.step(effect="idempotent_write", input=cel("steps.first.output"))
    async def last(ctx: Context, input: Any) -> Any:
        count(ctx)
        return input

    with serving(client, flow, concurrency=8):
        ids = [client.start("many", n)["id"] for n in range(60)]
        results = [client.result(execution, timeout_seconds=60) for execution in ids]
    assert results == list(range(60))
    assert len(ran) == 180
    assert set(ran.values()) == {1}


def test_a_restarted_daemon_costs_a_running_body_nothing(tmp_path: Path) -> None:
    flow, begun, release = Workflow("outage"), threading.Event(), threading.Event()

    @flow.step(effect="non_idempotent_write")
    def charge(ctx: Context, input: Any) -> str:
        begun.set()
        release.wait(SECONDS)
        return "charged"

    with running_daemon(tmp_path / "stepd.db") as daemon, Client(daemon.url) as client, serving(client, flow):
        view = client.start("outage")
        assert begun.wait(SECONDS)
        daemon.kill()
        release.set()
        daemon.start()
        view = client.wait(view["id"], timeout_seconds=SECONDS)
        view = client.get(view["id"], include=["payloads", "attempts"])
    assert view["status"] == "completed"
    assert view["steps"][0]["output"] == "charged"
    assert len(view["steps"][0]["attempts"]) == 1


async def _nothing(ctx: Context, input: Any) -> None:
    """Does nothing."""
