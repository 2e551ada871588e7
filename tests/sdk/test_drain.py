"""A worker that is told to stop: what goes back, what may finish, what is interrupted, and that it ends."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from stepd_worker import Context, Worker
from tests.sdk.peer import DEADLINE_SECONDS, DROPPED, Peer, Reply, lease, problem
from tests.sdk.running import jobs, running


class Bodies:
    """Bodies that run until the test lets them go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.release = threading.Event()
        self.reasons: list[str | None] = []

    def plain(self, ctx: Context, input: Any) -> str:
        self.begun.set()
        self.release.wait(10)
        return "done"

    def willing(self, ctx: Context, input: Any) -> str:
        self.begun.set()
        ctx.cancelled.wait(10)
        self.reasons.append(ctx.cancelled.reason)
        ctx.raise_if_cancelled()
        return "done"

    async def asynchronous(self, ctx: Context, input: Any) -> str:
        self.begun.set()
        try:
            await asyncio.sleep(10)
        finally:
            self.reasons.append(ctx.cancelled.reason)
        return "done"


@pytest.fixture
def bodies() -> Iterator[Bodies]:
    bodies = Bodies()
    yield bodies
    bodies.release.set()


def test_the_parked_claim_is_withdrawn(peer: Peer, bodies: Bodies) -> None:
    with running(peer, jobs(bodies.plain)) as run:
        peer.wait_for("claim")
        run.stop()
    parked, withdrawn = peer.named("claim")
    assert withdrawn.body == parked.body | {"wait_seconds": 0}


def test_leases_that_come_with_the_withdrawal_go_back(peer: Peer, bodies: Bodies) -> None:
    with running(peer, jobs(bodies.plain)) as run:
        peer.wait_for("claim")
        dealt = {"leases": [lease()], "held_seconds": 0, "service": "service-1"}
        peer.scripts.append(lambda call: Reply(200, dealt) if (call.body or {}).get("wait_seconds") == 0 else None)
        run.stop()
    (fail,) = peer.named("fail")
    assert (fail.body["class"], fail.body["effect"]) == ("interrupted", "none")
    assert not bodies.begun.is_set()


def test_bodies_may_finish_and_beat_meanwhile(peer: Peer, bodies: Bodies) -> None:
    peer.deal(lease(heartbeat_seconds=0.05))
    with running(peer, jobs(bodies.plain)) as run:
        assert bodies.begun.wait(DEADLINE_SECONDS)
        run.worker.stop()
        beaten = len(peer.named("heartbeat"))
        peer.wait_for("heartbeat", beaten + 3)
        peer.deal(lease("l-2"))
        bodies.release.set()
        run.join()
    (complete,) = peer.named("complete")
    assert complete.body == {"fence": 3, "output": "done"}
    assert len(peer.queue) == 1


@pytest.mark.parametrize("kind", ["willing", "asynchronous"])
def test_bodies_are_interrupted_when_the_time_is_over(peer: Peer, bodies: Bodies, kind: str) -> None:
    peer.deal(lease())
    with running(peer, jobs(getattr(bodies, kind)), drain_seconds=0.2) as run:
        assert bodies.begun.wait(DEADLINE_SECONDS)
        run.stop()
    (fail,) = peer.named("fail")
    assert bodies.reasons == ["shutting_down"]
    assert (fail.body["class"], fail.body["effect"]) == ("interrupted", None)
    assert "next" not in fail.body


def test_a_body_that_does_not_stop_is_left_behind(peer: Peer, bodies: Bodies) -> None:
    peer.deal(lease())
    with running(peer, jobs(bodies.plain), drain_seconds=0.1) as run:
        assert bodies.begun.wait(DEADLINE_SECONDS)
        began = time.monotonic()
        run.stop()
        took = time.monotonic() - began
    (fail,) = peer.named("fail")
    assert fail.body["class"] == "interrupted"
    assert took < 4


def test_an_async_body_that_will_not_stop_is_left_behind_too(peer: Peer) -> None:
    begun, over = threading.Event(), threading.Event()

    async def body(ctx: Context, input: Any) -> None:
        begun.set()
        while not over.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    peer.deal(lease())
    with running(peer, jobs(body), drain_seconds=0.1) as run:
        assert begun.wait(DEADLINE_SECONDS)
        run.worker.stop()
        (fail,) = peer.wait_for("fail")
        over.set()
        run.join()
    assert fail.body["class"] == "interrupted"


@pytest.mark.parametrize("kind", ["plain", "willing", "asynchronous"])
def test_at_once_is_at_once(peer: Peer, bodies: Bodies, kind: str) -> None:
    peer.deal(lease())
    with running(peer, jobs(getattr(bodies, kind)), drain_seconds=60) as run:
        assert bodies.begun.wait(DEADLINE_SECONDS)
        run.worker.stop()
        began = time.monotonic()
        run.stop(drain=False)
        assert time.monotonic() - began < 2
    (fail,) = peer.named("fail")
    assert fail.body["class"] == "interrupted"


def test_it_ends_although_the_daemon_has_gone(peer: Peer, bodies: Bodies) -> None:
    peer.deal(lease())
    with running(peer, jobs(bodies.willing), drain_seconds=0.1) as run:
        assert bodies.begun.wait(DEADLINE_SECONDS)
        for name in ("claim", "complete", "fail", "heartbeat"):
            peer.always(name, DROPPED)
        run.stop()
    assert run.error is None


def test_an_outcome_is_said_again_during_the_drain(peer: Peer, bodies: Bodies) -> None:
    peer.deal(lease())
    with running(peer, jobs(bodies.plain)) as run:
        assert bodies.begun.wait(DEADLINE_SECONDS)
        run.worker.stop()
        peer.script("complete", DROPPED)
        bodies.release.set()
        run.join()
    first, second = peer.named("complete")
    assert first.raw == second.raw


def test_a_stop_that_comes_first_ends_the_next_serving(peer: Peer, bodies: Bodies) -> None:
    worker = Worker(peer.url, "w-1", 1).register(jobs(bodies.plain))
    worker.stop()
    worker.serve()
    assert peer.named("complete") == []


async def test_it_serves_in_a_loop_that_is_there(peer: Peer) -> None:
    async def body(ctx: Context, input: Any) -> str:
        return "done"

    worker = Worker(peer.url, "w-1", 1).register(jobs(body))
    peer.deal(lease())
    serving = asyncio.create_task(worker.serve_async())
    await asyncio.to_thread(peer.wait_for, "complete")
    with pytest.raises(RuntimeError, match="serves already"):
        await worker.serve_async()
    worker.stop()
    await serving
    assert len(peer.named("complete")) == 1


async def test_cancelling_what_serves_ends_it(peer: Peer, bodies: Bodies) -> None:
    worker = Worker(peer.url, "w-1", 1).register(jobs(bodies.asynchronous))
    peer.deal(lease())
    serving = asyncio.create_task(worker.serve_async())
    await asyncio.to_thread(bodies.begun.wait, DEADLINE_SECONDS)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert bodies.reasons == ["shutting_down"]


# --- As a process

MODULE = """
import time
from stepd_worker import Workflow

jobs = Workflow("jobs", "1")

@jobs.step("work", effect="idempotent_write")
def body(ctx, input):
    ctx.cancelled.wait(input.get("seconds", 0))
    ctx.raise_if_cancelled()
    return "done"
"""


@contextmanager
def _process(folder: Path, *arguments: str, **environment: str) -> "Iterator[subprocess.Popen[str]]":
    (folder / "flows_under_test.py").write_text(MODULE)
    process = subprocess.Popen(
        [sys.executable, "-m", "stepd_worker", "serve", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_exits_zero(peer: Peer, tmp_path: Path, number: signal.Signals) -> None:
    peer.deal(lease(input={"seconds": 0.3}))
    with _process(tmp_path, "flows_under_test:jobs", "--url", peer.url, "--name", "from-shell") as process:
        peer.wait_for("claim", 2)
        process.send_signal(number)
        assert process.wait(DEADLINE_SECONDS) == 0
    assert peer.named("claim")[0].body["worker"] == "from-shell"
    assert len(peer.named("complete")) == 1


def test_a_second_signal_ends_it_at_once(peer: Peer, tmp_path: Path) -> None:
    peer.deal(lease(input={"seconds": 60}))
    with _process(tmp_path, "flows_under_test:jobs", STEPD_URL=peer.url) as process:
        peer.wait_for("claim", 2)
        process.send_signal(signal.SIGTERM)
        # The withdrawal of the parked claim tells that the first one was heard.
        peer.wait_for("claim", 3)
        process.send_signal(signal.SIGTERM)
        assert process.wait(3) == 0
    assert [call.body["class"] for call in peer.named("fail")] == ["interrupted"]


def test_a_refused_key_exits_one(peer: Peer, tmp_path: Path) -> None:
    peer.always("jobs", problem(401, "unauthenticated"))
    with _process(tmp_path, "flows_under_test:jobs", STEPD_URL=peer.url) as process:
        assert process.wait(DEADLINE_SECONDS) == 1
        assert "401 unauthenticated" in (process.stderr.read() if process.stderr else "")


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("flows_under_test", "module:name"),
        ("flows_under_test:other", "it has: jobs"),
        ("nowhere:jobs", "cannot be imported"),
    ],
)
def test_what_cannot_be_served_exits_two_and_says_why(tmp_path: Path, target: str, says: str) -> None:
    with _process(tmp_path, target) as process:
        assert process.wait(DEADLINE_SECONDS) == 2
        assert says in (process.stderr.read() if process.stderr else "")


def test_serving_off_the_main_thread_leaves_signals_alone(peer: Peer, bodies: Bodies) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with running(peer, jobs(bodies.plain)):
        peer.wait_for("claim")
        assert signal.getsignal(signal.SIGTERM) is before
