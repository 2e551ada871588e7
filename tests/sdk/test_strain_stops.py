"""Workers that are told to stop at any moment: what they hold is finished or given back, nothing lapses or fails."""

import random
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from stepd_worker import Client, Context, Workflow
from tests.sdk.running import wait_for
from tests.sdk.served import serving, worker_process
from tests.sdk.straining import STEADY_STEPS
from tests.support.daemon import Daemon
from tests.support.wait import moment

SECONDS = 30.0
EXECUTIONS = 50
GAP_SECONDS = STEADY_STEPS / 100
LAPSES = frozenset({"attempt.orphaned", "attempt.lost", "attempt.late", "attempt.failed", "step.failed"})


def types_in(client: Client, executions: list[dict[str, Any]]) -> Counter[str]:
    """How often each event happened in these executions."""
    return Counter(event["type"] for view in executions for event in client.events(view["id"]))


@contextmanager
def stopped_at_random(url: str, folder: Path, seed: int) -> Iterator[list[int]]:
    """Two lines of worker processes, in each one after the other; the exit status of all that were told to stop."""
    over, statuses = threading.Event(), list[int]()

    def line(name: str) -> None:
        instants, log = random.Random(f"{seed} {name}"), folder / f"{name}.log"
        while not over.is_set():
            with worker_process(
                url, "tests.sdk.straining:steady", log, "--name", name, STRAINING_RECORD=str(folder / "record")
            ) as worker:
                over.wait(instants.uniform(0, 1.0))
                worker.terminate()
                statuses.append(worker.ended(SECONDS))

    with ThreadPoolExecutor(2) as lines:
        running = [lines.submit(line, name) for name in ("one", "two")]
        try:
            yield statuses
        finally:
            over.set()
            for each in running:
                each.result()


def test_stops_at_random_instants_under_load_lose_and_fail_nothing(
    daemon: Daemon, client: Client, tmp_path: Path
) -> None:
    with worker_process(
        daemon.url, "tests.sdk.straining:steady", tmp_path / "first.log", STRAINING_RECORD=str(tmp_path / "record")
    ) as first:
        first.terminate()
        assert first.ended(SECONDS) == 0
    views = list[dict[str, Any]]()
    with stopped_at_random(daemon.url, tmp_path, seed=1) as statuses:
        for _ in range(EXECUTIONS):
            views.append(client.start("steady"))
            moment(GAP_SECONDS)
        ended = [client.wait(view["id"], timeout_seconds=SECONDS)["status"] for view in views]
    assert set(ended) == {"completed"}
    happened = types_in(client, views)
    assert {type: count for type, count in happened.items() if type in LAPSES} == {}
    ran = Counter((tmp_path / "record").read_text().splitlines())
    assert len(ran) == EXECUTIONS * STEADY_STEPS
    assert set(ran.values()) == {1}
    assert set(statuses) == {0}
    assert len(statuses) >= 6


def test_bodies_that_do_not_stop_do_not_keep_the_worker(daemon: Daemon, client: Client, tmp_path: Path) -> None:
    with worker_process(
        daemon.url.replace("127.0.0.1", "localhost"),
        "tests.sdk.straining:stubborn",
        tmp_path / "worker.log",
        "--drain-seconds",
        "0.1",
    ) as worker:
        view = client.start("stubborn")
        wait_for(lambda: types_in(client, [view])["attempt.leased"] == 3, "all bodies to begin")
        worker.terminate()
        assert worker.ended(10) == 0
    happened = types_in(client, [view])
    assert happened["attempt.requeued"] == 3
    assert happened["attempt.lost"] == 0
    client.cancel(view["id"])
    assert "threads that bodies left behind are given up" in worker.output()


def test_a_second_signal_ends_a_drain(daemon: Daemon, client: Client, tmp_path: Path) -> None:
    with worker_process(
        daemon.url, "tests.sdk.straining:stubborn", tmp_path / "worker.log", "--drain-seconds", "60"
    ) as worker:
        view = client.start("stubborn")
        wait_for(lambda: types_in(client, [view])["attempt.leased"] == 3, "all bodies to begin")
        worker.terminate()
        wait_for(lambda: "Stopping with" in worker.output(), "the first signal to be noticed")
        worker.terminate()
        assert worker.ended(10) == 0

    # A claim that was on its way may have been dealt what came back: then it went back once more.
    def all_went_back() -> bool:
        types = types_in(client, [view])
        return types["attempt.requeued"] == types["attempt.leased"] >= 3

    wait_for(all_went_back, "every attempt to be back in the queue")
    client.cancel(view["id"])


def test_two_workers_of_one_name_share_the_work(client: Client) -> None:
    flow, ran, lock = Workflow("shared"), Counter[tuple[str, int]](), threading.Lock()

    def body(ctx: Context, input: Any) -> None:
        with lock:
            ran[ctx.idempotency_key, ctx.attempt] += 1
        ctx.cancelled.wait(0.01)

    for number in range(10):
        flow.step(f"s{number}", effect="non_idempotent_write", needs=[], lease_seconds=10)(body)
    with ExitStack() as workers:
        first = workers.enter_context(serving(client, flow, name="twin", drain_seconds=10))
        workers.enter_context(serving(client, flow, name="twin", drain_seconds=10))
        views = [client.start("shared") for _ in range(20)]
        wait_for(lambda: len(ran) > 40, "the work to be under way")
        twins = [worker for worker in client.workers()["items"] if worker["name"] == "twin"]
        first.stop()
        assert {client.wait(view["id"], timeout_seconds=SECONDS)["status"] for view in views} == {"completed"}
    assert len({worker["instance"] for worker in twins}) == 2
    assert len(ran) == 200
    assert set(ran.values()) == {1}
    assert {type for type in types_in(client, views) if type in LAPSES} == set()
