"""A thousand bodies of random fates, over a network that loses answers: all end, and slots are never exceeded."""

import asyncio
import logging
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from stepd_worker import Client, Context, NotApplied, Retry, Retryable, StepFailed, Workflow
from tests.sdk.proxy import proxied
from tests.sdk.running import wait_for
from tests.sdk.served import serving
from tests.support.daemon import running as running_daemon
from tests.support.wait import moment

SECONDS = 40.0
SLOTS = 12
EXECUTIONS, STEPS = 50, 20
NAME = "fateful"


def exit_now() -> None:
    sys.exit(1)


def spin() -> None:
    end = time.monotonic() + 0.01
    while time.monotonic() < end:
        pass


def recurse() -> None:
    recurse()


def raise_error(error: BaseException) -> None:
    raise error


FATES: list[Callable[[], object]] = [
    lambda: {"ok": True},
    lambda: None,
    lambda: time.sleep(0.01),
    spin,
    lambda: raise_error(Retryable("again", retry_after=0.01)),
    lambda: raise_error(NotApplied(Retryable("again"))),
    lambda: raise_error(StepFailed("declined", "no")),
    lambda: raise_error(KeyError("typo")),
    lambda: raise_error(KeyboardInterrupt()),
    lambda: raise_error(asyncio.CancelledError()),
    exit_now,
    recurse,
    object,
    lambda: "x" * 300_000,
    lambda: "x" * 2_000_000,
]


class Fates:
    """Bodies whose fate is drawn by chance, and how many ran at once."""

    def __init__(self) -> None:
        self.flow = Workflow(NAME)
        self.ran: Counter[tuple[str, int]] = Counter()
        self.running = self.most = 0
        self._lock = threading.Lock()
        for number in range(STEPS):
            self.flow.step(
                f"s{number}",
                effect="read_only",
                needs=[],
                retry=Retry(max_attempts=2, initial_seconds=0),
                catch=[{"class": "*", "value": "failed"}],
            )(self._plain if number % 2 else self._async)

    @contextmanager
    def _counted(self, ctx: Context) -> Iterator[Callable[[], object]]:
        with self._lock:
            self.ran[ctx.idempotency_key, ctx.fence] += 1
            self.running += 1
            self.most = max(self.most, self.running)
        try:
            yield random.Random(f"{ctx.execution.correlation} {ctx.step} {ctx.attempt}").choice(FATES)
        finally:
            with self._lock:
                self.running -= 1

    def _plain(self, ctx: Context, input: Any) -> object:
        with self._counted(ctx) as fate:
            return fate()

    async def _async(self, ctx: Context, input: Any) -> object:
        with self._counted(ctx) as fate:
            await asyncio.sleep(0.005)
            return fate()


@contextmanager
def leases_watched(client: Client) -> Iterator[list[int]]:
    """How many leases the daemon says that the worker has, looked up again and again."""
    seen, over = list[int](), threading.Event()

    def watch() -> None:
        while not over.is_set():
            seen.extend(worker["leases"] for worker in client.workers()["items"] if worker["name"] == NAME)
            moment(0.02)

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield seen
    finally:
        over.set()
        watching.join(SECONDS)


def test_a_thousand_bodies_of_random_fates_never_take_more_leases_than_slots(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)  # hundreds of stacks, which take longer to write than all else
    fates = Fates()
    with (
        running_daemon(tmp_path / "stepd.db") as daemon,
        Client(daemon.url) as client,
        proxied(daemon.port) as proxy,
        serving(client, fates.flow, url=proxy.url, name=NAME, concurrency=SLOTS) as run,
        leases_watched(client) as leases,
    ):
        proxy.drop_every = 50
        views = [client.start(NAME, correlation=f"c-{number}") for number in range(EXECUTIONS)]
        ended = [client.wait(view["id"], timeout_seconds=SECONDS)["status"] for view in views]
        assert run.error is None
        wait_for(lambda: fates.running == 0, "the last body to end")
        lost = [
            event
            for view in views
            for event in client.events(view["id"])
            if event["type"] in ("attempt.orphaned", "attempt.lost")
        ]
    assert Counter(ended) == {"completed": EXECUTIONS}
    assert lost == []
    assert len({key for key, _ in fates.ran}) == EXECUTIONS * STEPS
    assert set(fates.ran.values()) == {1}, "no attempt may run twice"
    assert len(fates.ran) > EXECUTIONS * STEPS, "some are tried again"
    assert 2 <= fates.most <= SLOTS
    assert 1 <= max(leases) <= SLOTS
