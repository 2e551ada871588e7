"""Completions that race the sweep, five hundred times: each attempt ends once, and both sides agree how."""

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.crash.conftest import MakeDaemon
from tests.support.client import Http
from tests.support.definitions import brief, read, write
from tests.support.flow import Flow, Run, make_flow
from tests.support.wait import moment

READS, WRITES = 300, 200
THREADS = 16
LEASE, RECLAIM = 0.05, 0.05


def when(number: int) -> float:
    """Seconds from the claim to the completion: in half of the rounds at the take-back, else within the sweep."""
    chance = random.Random(number)
    return chance.uniform(0.08, 0.13) if number % 2 else chance.uniform(0.1, 1.2)


@pytest.mark.slow
def test_a_read_s_completion_races_the_sweep(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()
    retry = {"max_attempts": 1000, "initial_seconds": 0}

    def play(number: int) -> int:
        work = make_flow(Http(daemon.url), read(**brief(LEASE, RECLAIM), retry=retry))
        run, lease = work.begin()
        moment(when(number))
        answer = lease.complete("first")
        if answer.status == 200:
            check_settled_once(run)
            assert "attempt.lost" not in run.types()
        else:
            answer.expect_refusal("lease_lost")
            assert run.types().count("attempt.lost") >= 1
            complete_somehow(work)
            check_settled_once(run)
        return answer.status

    check_both_sides_won(play, READS)


@pytest.mark.slow
def test_a_write_s_completion_races_the_sweep(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()

    def play(number: int) -> int:
        work = make_flow(Http(daemon.url), write(**brief(0.3, 0)))
        run, lease = work.begin()
        if lease.heartbeat(started=True).status != 200:
            return 0
        moment(0.2 + when(number))
        answer = lease.complete("charged")
        view = run.view(include="payloads")
        if answer.status == 200:
            assert view["status"] == "completed"
            assert "attempt.lost" not in run.types()
        else:
            answer.expect_refusal("lease_lost")
            assert (view["status"], view["steps"][0]["status"]) == ("reconciliation_required", "uncertain")
            assert run.types().count("attempt.stale_outcome") == 1
        return answer.status

    check_both_sides_won(play, WRITES)


def check_both_sides_won(play: Callable[[int], int], rounds: int) -> None:
    """Plays all rounds, and makes sure that the race was one: each side won some of them."""
    with ThreadPoolExecutor(THREADS) as pool:
        results = list(pool.map(play, range(rounds)))
    assert results.count(200) >= 5, f"{results.count(200)} completions were in time"
    assert results.count(409) >= 5, f"{results.count(409)} attempts were taken back"


def complete_somehow(work: Flow) -> None:
    """Completes the step in one of its further attempts, whose leases are as short."""
    for _ in range(50):
        if work.claim_one(wait_seconds=10).complete("later").status == 200:
            return
    raise AssertionError("no attempt could be completed")


def check_settled_once(run: Run) -> None:
    assert run.view()["status"] == "completed"
    assert run.types().count("step.succeeded") == 1
