"""A network that fails between worker and daemon: what is in hand goes on, and nothing is done twice."""

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from stepd_worker import Client, Context, Workflow
from tests.sdk.proxy import Proxy, problem_bytes, proxied
from tests.sdk.running import wait_for
from tests.sdk.served import serving
from tests.support.daemon import Daemon
from tests.support.wait import moment

SECONDS = 20.0
LEASE_SECONDS = 1.0


@pytest.fixture
def proxy(daemon: Daemon) -> Iterator[Proxy]:
    with proxied(daemon.port) as proxy:
        yield proxy


def attempts_of(client: Client, execution: dict[str, Any]) -> list[str]:
    """The attempts' events of an execution."""
    return [event["type"] for event in client.events(execution["id"]) if event["type"].startswith("attempt.")]


class Held:
    """A workflow whose body runs until the test lets it go, and what its body saw."""

    def __init__(self, name: str, effect: Any, lease_seconds: float = LEASE_SECONDS) -> None:
        self.flow = Workflow(name)
        self.begun, self.release, self.told = threading.Event(), threading.Event(), threading.Event()
        self.runs = list[int]()
        self.reason: str | None = None
        self.flow.step("work", effect=effect, lease_seconds=lease_seconds)(self._body)

    def _body(self, ctx: Context, input: Any) -> str:
        self.runs.append(ctx.attempt)
        ctx.on_cancel(self.told.set)
        self.begun.set()
        while not self.release.wait(0.01):
            if ctx.cancelled.is_set():
                self.reason = ctx.cancelled.reason
                ctx.raise_if_cancelled()
        return "done"


def test_half_a_lease_without_the_daemon_costs_nothing(client: Client, proxy: Proxy) -> None:
    held = Held("half", "non_idempotent_write", 2 * LEASE_SECONDS)  # the rest of half a lease is time to come back in
    with serving(client, held.flow, url=proxy.url):
        view = client.start(held.flow.name)
        assert held.begun.wait(SECONDS)
        for _ in range(2):
            proxy.cut()
            moment(LEASE_SECONDS)
            proxy.mend()
            proxy.expect_more("heartbeat", 2)  # so that the first was answered
        assert not held.told.is_set()
        held.release.set()
        assert client.wait(view["id"], timeout_seconds=SECONDS)["status"] == "completed"
    assert not {"attempt.orphaned", "attempt.lost", "attempt.late"} & set(attempts_of(client, view))
    assert held.runs == [1]


def test_a_read_is_stopped_when_it_can_be_taken_back_and_done_again(client: Client, proxy: Proxy) -> None:
    held = Held("three-reads", "read_only")
    with serving(client, held.flow, url=proxy.url):
        view = client.start(held.flow.name)
        assert held.begun.wait(SECONDS)
        proxy.cut()
        assert held.told.wait(3 * LEASE_SECONDS), "the body should have been told to stop by the worker's own clock"
        assert held.reason in (None, "lease_lost")
        moment(LEASE_SECONDS)
        held.release.set()
        proxy.mend()
        assert client.wait(view["id"], timeout_seconds=SECONDS)["status"] == "completed"
    assert len(held.runs) == 2
    assert "attempt.lost" in attempts_of(client, view)


def test_a_write_is_told_as_evidence_when_the_daemon_is_back(client: Client, proxy: Proxy) -> None:
    held = Held("three-writes", "non_idempotent_write")
    with serving(client, held.flow, url=proxy.url):
        view = client.start(held.flow.name)
        assert held.begun.wait(SECONDS)
        proxy.cut()
        held.release.set()
        view = client.wait(view["id"], timeout_seconds=SECONDS)
        assert view["status"] == "reconciliation_required"
        moment(LEASE_SECONDS)
        proxy.mend()

        def evidence() -> Any:
            attempts = client.get(view["id"], include=["attempts", "payloads"])["steps"][0]["attempts"]
            return attempts[0].get("stale_outcome")

        wait_for(evidence, "the outcome to come as evidence")
    assert held.runs == [1]


def test_an_outcome_that_was_ready_when_the_network_failed_arrives_late(client: Client, proxy: Proxy) -> None:
    held = Held("late", "idempotent_write")
    with serving(client, held.flow, url=proxy.url):
        view = client.start(held.flow.name)
        assert held.begun.wait(SECONDS)
        proxy.cut()
        held.release.set()
        wait_for(lambda: "attempt.orphaned" in attempts_of(client, view), "the lease to lapse")
        proxy.mend()
        assert client.wait(view["id"], timeout_seconds=SECONDS)["status"] == "completed"


def test_badly_answered_heartbeats_are_sent_again(client: Client, proxy: Proxy) -> None:
    held = Held("beats", "non_idempotent_write")
    with serving(client, held.flow, url=proxy.url):
        view = client.start(held.flow.name)
        assert held.begun.wait(SECONDS)
        for status, code in ((500, "internal"), (503, "unavailable"), (429, "too_busy")):
            proxy.answers["heartbeat"] = problem_bytes(status, code)
            proxy.expect_more("heartbeat", 2)
            del proxy.answers["heartbeat"]
            proxy.expect_more("heartbeat", 1)
        held.release.set()
        assert client.wait(view["id"], timeout_seconds=SECONDS)["status"] == "completed"
    assert not held.told.is_set()
    assert attempts_of(client, view) == ["attempt.leased", "attempt.started"]


def test_one_lost_answer_in_fifty_costs_time_only(client: Client, proxy: Proxy) -> None:
    flow, ran, lock = Workflow("lossy"), Counter[str](), threading.Lock()
    effects: list[Any] = ["read_only", "idempotent_write", "non_idempotent_write"]

    def body(ctx: Context, input: Any) -> None:
        with lock:
            ran[ctx.idempotency_key] += 1

    for number in range(12):
        flow.step(f"s{number}", effect=effects[number % 3], needs=[], lease_seconds=10, reclaim_seconds=10)(body)
    proxy.drop_every = 50
    with serving(client, flow, url=proxy.url, concurrency=8):
        views = [client.start("lossy") for _ in range(25)]
        assert {client.wait(view["id"], timeout_seconds=SECONDS)["status"] for view in views} == {"completed"}
    assert proxy.dropped >= 5
    assert len(ran) == 300
    assert set(ran.values()) == {1}
    assert not [view for view in views if {"attempt.orphaned", "attempt.lost"} & set(attempts_of(client, view))]
