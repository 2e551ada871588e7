"""Bodies that do their worst, with a real daemon: each costs itself at most, never a lease, a slot or the worker."""

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Never

import pytest

from stepd_worker import Client, Context, Retryable, StepFailed, Workflow, cel
from tests.sdk.served import serving, worker_process
from tests.support.daemon import Daemon

SECONDS = 20.0
MEGABYTE = 1_000_000


def ends(client: Client, execution: dict[str, Any]) -> dict[str, Any]:
    """The view of an execution that has ended, or waits for an operator."""
    return client.wait(execution["id"], timeout_seconds=SECONDS)


def error_of(view: dict[str, Any]) -> str:
    return f"{view['error']['class']}: {view['error']['message']}"


def lost_in(client: Client, execution: dict[str, Any]) -> list[str]:
    """What the journal has of leases that lapsed."""
    types = [event["type"] for event in client.events(execution["id"])]
    return [type for type in types if type in ("attempt.orphaned", "attempt.lost", "attempt.late")]


# --- Time


def spin(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


@pytest.mark.parametrize("plain", [True, False])
def test_bodies_that_spin_keep_their_leases_and_their_neighbours(client: Client, plain: bool) -> None:
    flow, begun = Workflow(f"spinning-{plain}"), threading.Event()

    async def on_the_loop(ctx: Context, input: Any) -> None:
        await asyncio.to_thread(begun.wait, SECONDS)
        spin(2)

    def on_a_thread(ctx: Context, input: Any) -> None:
        assert begun.wait(SECONDS)
        spin(2)

    async def neighbour(ctx: Context, input: Any) -> None:
        begun.set()
        await asyncio.sleep(1.5)

    for number in range(2 if plain else 1):
        flow.step(f"spins-{number}", effect="non_idempotent_write", needs=[])(on_a_thread if plain else on_the_loop)
    flow.step("neighbour", effect="non_idempotent_write", needs=[])(neighbour)
    with serving(client, flow):
        view = client.start(flow.name)
        assert ends(client, view)["status"] == "completed"
    assert lost_in(client, view) == []


def test_a_lease_that_came_while_the_loop_was_blocked_and_is_lost_does_not_begin(client: Client) -> None:
    flow, blocked, ran = Workflow("blocking"), threading.Event(), list[int]()

    @flow.step(effect="read_only")
    async def work(ctx: Context, input: Any) -> None:
        if input == "block":
            blocked.set()
            spin(2)
        else:
            ran.append(ctx.attempt)

    with serving(client, flow):
        blocking = client.start("blocking", "block")
        assert blocked.wait(SECONDS)
        others = [client.start("blocking", "quick") for _ in range(3)]
        assert {ends(client, view)["status"] for view in (blocking, *others)} == {"completed"}
    assert len(ran) == 3
    assert any(lost_in(client, view) for view in others), "the leases should have lapsed while the loop stood still"


# --- Ends


async def exit_in_a_task() -> Never:
    sys.exit("a task of a body")


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("says nothing")


class ExitingText(Exception):
    def __str__(self) -> str:
        sys.exit("in __str__")


def recurse(depth: int) -> int:
    return recurse(depth + 1) + 1


def raising(error: BaseException) -> Callable[[], Never]:
    def act() -> Never:
        raise error

    return act


WORST: dict[str, tuple[Callable[[], object], str]] = {
    "sys.exit": (lambda: sys.exit(3), "fatal: SystemExit: 3"),
    "sys.exit without a word": (sys.exit, "fatal: SystemExit"),
    "KeyboardInterrupt": (raising(KeyboardInterrupt()), "fatal: KeyboardInterrupt"),
    "GeneratorExit": (raising(GeneratorExit()), "fatal: GeneratorExit"),
    "CancelledError": (raising(asyncio.CancelledError()), "fatal: The body was cancelled, but nobody asked for it"),
    "RecursionError": (lambda: recurse(0), "fatal: RecursionError: maximum recursion depth exceeded"),
    "MemoryError": (raising(MemoryError()), "fatal: MemoryError"),
    "an error whose text fails": (raising(Mute()), "fatal: Mute"),
    "an error whose text exits": (raising(ExitingText()), "fatal: ExitingText"),
    "a name of a file that is no UTF-8": (raising(OSError("/tmp/\udcff")), "fatal: OSError: /tmp/?"),
    "a class that is no name": (raising(StepFailed("no name", "x")), "no name for a class: x"),
    "a class that is no text": (raising(StepFailed(None, "x")), "no name for a class: x"),  # type: ignore[arg-type]  # as a body might
    "a long message": (raising(StepFailed("big", "x" * 10 * MEGABYTE)), "big: xxx"),
    "large details": (raising(StepFailed("big", "x", details="y" * 10 * MEGABYTE)), "big: x"),
    "a wait that is none": (raising(Retryable("x", retry_after=float("nan"))), "retryable: x"),
}


@pytest.mark.parametrize("effect", ["read_only", "non_idempotent_write"])
@pytest.mark.parametrize("plain", [True, False], ids=["plain", "async"])
def test_whatever_a_body_raises_is_its_outcome(client: Client, plain: bool, effect: Any) -> None:
    flow = Workflow(f"raising-{plain}-{effect}", on_failure="fail")

    def body(ctx: Context, input: Any) -> object:
        return "well" if input == "well" else WORST[input][0]()

    async def async_body(ctx: Context, input: Any) -> object:
        return body(ctx, input)

    once: Any = {"max_attempts": 1}
    flow.step("work", effect=effect, retry=once)(body if plain else async_body)
    with serving(client, flow):
        views = {name: client.start(flow.name, name) for name in WORST}
        ended = {name: ends(client, view) for name, view in views.items()}
        assert ends(client, client.start(flow.name, "well"))["status"] == "completed"
    if effect == "read_only":
        said = {name: error_of(view) for name, view in ended.items()}
        assert {name: said[name] for name, (_, expected) in WORST.items() if expected not in said[name]} == {}
    else:
        assert {view["status"] for view in ended.values()} == {"reconciliation_required"}
    assert [name for name, view in views.items() if lost_in(client, view)] == []


def test_what_tasks_and_callbacks_of_a_body_raise_does_not_end_the_worker(client: Client) -> None:
    flow, begun = Workflow("exiting", on_failure="fail"), threading.Event()

    @flow.step(effect="read_only")
    async def work(ctx: Context, input: Any) -> str:
        match input:
            case "a task that it waits for":
                await asyncio.create_task(exit_in_a_task())
            case "a task that it forgets":
                forgotten = asyncio.create_task(exit_in_a_task())
                await asyncio.sleep(0.1)
                assert forgotten.done()
            case "a stopped loop":
                asyncio.get_running_loop().stop()
                await asyncio.sleep(0.1)
            case "a callback":
                ctx.on_cancel(sys.exit)
                begun.set()
                await asyncio.sleep(SECONDS)
        return "went on"

    with serving(client, flow) as run:
        assert error_of(ends(client, client.start("exiting", "a task that it waits for"))).startswith(
            "fatal: SystemExit"
        )
        assert ends(client, client.start("exiting", "a task that it forgets"))["status"] == "completed"
        assert ends(client, client.start("exiting", "a stopped loop"))["status"] == "completed"
        called_back = client.start("exiting", "a callback")
        assert begun.wait(SECONDS)
        client.cancel(called_back["id"])
        assert ends(client, called_back)["status"] == "cancelled"
        assert ends(client, client.start("exiting", "well"))["status"] == "completed"
        assert run.error is None


# --- Outputs


class Model:
    """Not pydantic's, but as any class may have it."""

    def model_dump(self, mode: str) -> Never:
        raise RuntimeError("no dump today")


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def circle() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


OUTPUTS: dict[str, Callable[[], object]] = {
    "50 MB": lambda: "x" * 50 * MEGABYTE,
    "more than an output may have": lambda: "x" * 300_000,
    "NaN": lambda: {"a": [float("nan")]},
    "a lone surrogate": lambda: "\ud800",
    "an object": object,
    "a model that fails": Model,
    "a circle": circle,
    "200 levels": lambda: deep(200),
    "100,000 levels": lambda: deep(100_000),
    "a function": lambda: len,
    "keys that are no text": lambda: {(1, 2): 3},
}


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "async"])
def test_an_output_that_cannot_be_sent_is_invalid_and_not_lost(client: Client, plain: bool) -> None:
    flow = Workflow(f"returning-{plain}", on_failure="fail")

    def body(ctx: Context, input: Any) -> object:
        return OUTPUTS[input]()

    async def async_body(ctx: Context, input: Any) -> object:
        return body(ctx, input)

    flow.step("work", effect="idempotent_write")(body if plain else async_body)
    with serving(client, flow):
        views = {name: client.start(flow.name, name) for name in OUTPUTS}
        ended = {name: ends(client, view) for name, view in views.items()}
        attempts = [client.get(view["id"], include=["attempts"])["steps"][0]["attempts"] for view in views.values()]
    assert {name for name, view in ended.items() if not error_of(view).startswith("invalid_output: ")} == set()
    assert [attempt["effect"] for each in attempts for attempt in each] == ["applied"] * len(OUTPUTS)
    assert [name for name, view in views.items() if lost_in(client, view)] == []


def test_telemetry_costs_no_lease_and_no_outcome(client: Client) -> None:
    flow = Workflow("telling-much", output=cel("steps.work.output"))

    @flow.step(effect="non_idempotent_write")
    def work(ctx: Context, input: Any) -> str:
        ctx.progress("x" * 50 * MEGABYTE)
        for number in range(150):
            with ctx.span("call \udcff" + "y" * 1000, kind="client", text="z" * 10_000, thing=object()) as span:
                span.usage(model="m-1", output_tokens=1)
                span.set("list", ends_up_wrong := [number])
            ends_up_wrong.append(object())  # type: ignore[arg-type]  # as a body might
        with ctx.span("larger than any may be", text="z" * MEGABYTE) as span:
            span.usage(model="m-1", output_tokens=1)
        ctx.set_usage(model="m-2", input_tokens=object())  # type: ignore[arg-type]  # as a body might
        ctx.cancelled.wait(1.5)
        return "told"

    with serving(client, flow):
        view = client.start("telling-much")
        assert client.result(view["id"], timeout_seconds=SECONDS) == "told"
    assert lost_in(client, view) == []
    assert ends(client, view)["usage"]["output_tokens"] == 151


# --- Processes


def test_a_forked_child_ends_where_the_body_does(daemon: Daemon, client: Client, tmp_path: Path) -> None:
    statuses = {"return": 0, "sys.exit": 7, "raise": 1}
    with worker_process(daemon.url, "tests.sdk.straining:forking", tmp_path / "worker.log") as worker:
        ended = {way: ends(client, client.start("forking", way)) for way in statuses}
        views = {way: client.get(view["id"], include=["payloads"]) for way, view in ended.items()}
        worker.terminate()
        assert worker.ended(SECONDS) == 0
    outputs = {way: [step["output"] for step in view["steps"]] for way, view in views.items()}
    assert outputs == {way: [status, status] for way, status in statuses.items()}
    assert [way for way, view in views.items() if lost_in(client, view)] == []
