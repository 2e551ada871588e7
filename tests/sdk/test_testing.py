"""`stepd_worker.testing`: bodies without a daemon, one at a time and a whole workflow."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from stepd_worker import Context, NotApplied, Retry, Retryable, StepFailed, Workflow, cel
from stepd_worker.testing import NeedsDaemon, run, run_step


@dataclass
class Order:
    amount: int


def _shop() -> Workflow:
    shop = Workflow("shop")

    @shop.step(effect="read_only", retry=Retry(max_attempts=3))
    async def price(ctx: Context, input: Order) -> dict[str, int]:
        if ctx.attempt < 3:
            raise Retryable("not yet", retry_after=10)
        ctx.state["priced"] = True
        return {"total": input.amount * 2}

    @shop.step(effect="non_idempotent_write", input={"cents": cel("steps.price.output.total")}, begins_effect=True)
    def charge(ctx: Context, input: Any, steps: Any) -> dict[str, Any]:
        ctx.begin_effect()
        ctx.progress({"at": "charge"})
        with ctx.span("call") as span:
            span.usage(model="m", output_tokens=3)
        if input["cents"] > 100:
            raise StepFailed("too_much", f"{input['cents']} is too much", details={"most": 100})
        return {
            "cents": input["cents"],
            "key": ctx.idempotency_key,
            "seen": steps.price.output,
            "state": dict(ctx.state),
        }

    @shop.step(effect="read_only", when="steps.charge.output.refused", catch=[{"class": "*", "value": "unsent"}])
    async def apologize(ctx: Context, input: Any) -> None:
        raise NotApplied(RuntimeError("no mail today"))

    return shop


def test_one_attempt_of_a_step() -> None:
    first = run_step(_shop(), "price", {"amount": 4})
    assert (first.status, first.class_, first.message, first.retry_after) == ("failed", "retryable", "not yet", 10)
    third = run_step(_shop(), "price", Order(4), attempt=3)
    assert (third.status, third.output, third.state) == ("succeeded", {"total": 8}, {"priced": True})


def test_what_a_body_told_on_the_way() -> None:
    result = run_step(_shop(), "charge", {"cents": 500}, steps={"price": {"total": 1}})
    assert (result.class_, result.details) == ("too_much", {"most": 100})
    assert result.progress == {"at": "charge"}
    assert [(span.name, span.usage and span.usage[0].output_tokens) for span in result.spans] == [("call", 3)]


def test_a_whole_workflow() -> None:
    result = run(_shop(), {"amount": 5}, conditions={"apologize": True})
    assert (result.status, result.failed_step) == ("completed", None)
    assert result.steps["price"].attempts == 3
    assert result.steps["charge"].output == {
        "cents": 10,
        "key": "test-execution:charge",
        "seen": {"total": 10},
        "state": {"priced": True},
    }
    assert result.steps["apologize"].output == "unsent"
    assert result.state == {"priced": True}


def test_a_failure_ends_it() -> None:
    result = run(_shop(), {"amount": 500})
    assert (result.status, result.failed_step) == ("failed", "charge")
    assert "apologize" not in result.steps


def test_what_computes_must_be_answered() -> None:
    flow = Workflow("flow")

    @flow.step(effect="read_only", when="input.n > 3", input={"twice": cel("input.n * 2")})
    async def work(ctx: Context, input: Any) -> Any:
        return input

    flow.wait("approved", event="approval")
    with pytest.raises(NeedsDaemon, match=r"condition of step 'work'.*conditions=\{'work': True\}"):
        run(flow, {"n": 4})
    with pytest.raises(NeedsDaemon, match=r"input of step 'work'.*inputs=\{'work'"):
        run(flow, {"n": 4}, conditions={"work": True})
    with pytest.raises(NeedsDaemon, match=r"'approved' is not run here: give outputs=\{'approved'"):
        run(flow, {"n": 4}, conditions={"work": True}, inputs={"work": {"twice": 8}})
    result = run(flow, {"n": 4}, conditions={"work": False}, outputs={"approved": "yes"})
    assert {name: step.status for name, step in result.steps.items()} == {"work": "skipped", "approved": "succeeded"}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("input", {"a": [{"b c": 1}]}),
        ("input.a[0]", {"b c": 1}),
        (' input["a"] [0]["b c"] ', 1),
        ("input.a[0]['b c']", 1),
    ],
)
def test_what_is_only_selected_needs_no_daemon(expression: str, value: Any) -> None:
    flow = Workflow("flow")

    @flow.step(effect="read_only", input=cel(expression))
    async def work(ctx: Context, input: Any) -> Any:
        return input

    assert run(flow, {"a": [{"b c": 1}]}).steps["work"].output == value


def test_what_is_not_there_is_named() -> None:
    flow = Workflow("flow")
    flow.step("work", effect="read_only", input=cel("input.b"))(_echo)
    with pytest.raises(LookupError, match=r"'input.b', but there is no 'b'"):
        run(flow, {"a": 1})
    with pytest.raises(KeyError, match="it has: work"):
        run_step(flow, "wrok")


def test_a_body_that_is_told_to_stop() -> None:
    flow = Workflow("flow")
    reasons: list[str | None] = []

    @flow.step(effect="idempotent_write")
    async def sleeper(ctx: Context, input: Any) -> None:
        try:
            await asyncio.sleep(30)
        finally:
            reasons.append(ctx.cancelled.reason)

    @flow.step(effect="idempotent_write")
    def waiter(ctx: Context, input: Any) -> str:
        ctx.cancelled.wait(30)
        return f"went on after {ctx.cancelled.reason}"

    assert run_step(flow, "sleeper", cancel="cancel_requested").status == "stopped"
    assert reasons == ["cancel_requested"]
    assert run_step(flow, "waiter", cancel="lease_lost").output == "went on after lease_lost"


async def test_it_may_be_called_in_an_async_test() -> None:
    flow = Workflow("flow")
    flow.step("work", effect="read_only")(_echo)
    assert run_step(flow, "work", [1]).output == [1]


async def _echo(ctx: Context, input: Any) -> Any:
    return input
