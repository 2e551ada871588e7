"""The failure table cell by cell, and the time of the next attempt, on a single step."""

from __future__ import annotations

from typing import Any

import pytest

from stepd.engine import commands as c
from stepd.engine.verdicts import backoff_ms, retry_after_ms
from tests.engine.world import World, compiled

READ = {"effect": "read_only"}
READ_ONCE = {"effect": "read_only", "delivery": "at_most_once"}
IDEMPOTENT = {"effect": "idempotent_write"}
IDEMPOTENT_ONCE = {"effect": "idempotent_write", "delivery": "at_most_once"}
WRITE = {"effect": "non_idempotent_write"}

CELLS = [
    # step, class, effect reported, attempts left, disposition
    (READ, "retryable", None, True, "retry_scheduled"),
    (READ, "retryable", "applied", True, "retry_scheduled"),
    (READ, "retryable", None, False, "step_failed"),
    (READ, "fatal", None, True, "step_failed"),
    (READ, "card_declined", None, True, "step_failed"),
    (READ, "interrupted", None, True, "requeued"),
    (READ, "unservable", None, True, "requeued"),
    (READ, "cancelled", None, True, "step_failed"),
    (IDEMPOTENT, "retryable", "none", True, "retry_scheduled"),
    (IDEMPOTENT, "retryable", None, True, "retry_scheduled"),
    (IDEMPOTENT, "retryable", "applied", True, "retry_scheduled"),
    (IDEMPOTENT, "retryable", "none", False, "step_failed"),
    (IDEMPOTENT, "retryable", None, False, "uncertain"),
    (IDEMPOTENT, "retryable", "applied", False, "uncertain"),
    (IDEMPOTENT, "fatal", "none", True, "step_failed"),
    (IDEMPOTENT, "fatal", None, True, "uncertain"),
    (IDEMPOTENT, "fatal", "applied", True, "uncertain"),
    (IDEMPOTENT, "interrupted", None, True, "requeued"),
    (IDEMPOTENT, "unservable", None, True, "requeued"),
    (WRITE, "retryable", "none", True, "retry_scheduled"),
    (WRITE, "retryable", None, True, "uncertain"),
    (WRITE, "retryable", "applied", True, "uncertain"),
    (WRITE, "retryable", "absent", True, "retry_scheduled"),
    (WRITE, "retryable", "none", False, "step_failed"),
    (WRITE, "fatal", "none", True, "step_failed"),
    (WRITE, "fatal", None, True, "uncertain"),
    (WRITE, "fatal", "absent", True, "step_failed"),
    (WRITE, "interrupted", "none", True, "requeued"),
    (WRITE, "interrupted", None, True, "uncertain"),
    (WRITE, "unservable", None, True, "step_failed_after_start"),
    (IDEMPOTENT_ONCE, "retryable", None, True, "uncertain"),
    (IDEMPOTENT_ONCE, "retryable", "applied", True, "uncertain"),
    (IDEMPOTENT_ONCE, "retryable", "none", True, "retry_scheduled"),
]


def world_of(step: dict[str, Any], *, attempts: int = 3, **definition: Any) -> World:
    task = {"id": "only", "retry": {"max_attempts": attempts}, **step}
    return World({"steps": [task], **definition})


@pytest.mark.parametrize(("step", "class_", "effect", "left", "disposition"), CELLS)
def test_a_started_body_that_fails(
    step: dict[str, Any], class_: str, effect: str | None, left: bool, disposition: str
) -> None:
    world = world_of(step, attempts=3 if left else 1)
    granted = world.claim()
    assert granted is not None
    if granted.attempt.status == "leased":
        world.heartbeat(granted.attempt, started=True)
    told = world.fail(granted.attempt, class_, effect)
    expected = "uncertain" if disposition == "step_failed_after_start" else disposition
    assert told.disposition == expected


@pytest.mark.parametrize("step", [READ_ONCE, IDEMPOTENT_ONCE, WRITE])
@pytest.mark.parametrize(
    ("class_", "effect", "disposition"),
    [
        ("retryable", None, "retry_scheduled"),
        ("retryable", "unknown", "retry_scheduled"),
        ("fatal", None, "step_failed"),
        ("interrupted", None, "requeued"),
        ("unservable", None, "requeued"),
    ],
)
def test_what_fails_before_it_started_left_nothing(
    step: dict[str, Any], class_: str, effect: str | None, disposition: str
) -> None:
    world = world_of(step)
    granted = world.claim()
    assert granted is not None
    assert world.fail(granted.attempt, class_, effect).disposition == disposition


def test_what_fails_before_it_started_but_was_applied_counts_as_applied() -> None:
    world = world_of(WRITE)
    granted = world.claim()
    assert granted is not None
    assert world.fail(granted.attempt, "retryable", "applied").disposition == "uncertain"


@pytest.mark.parametrize(
    ("step", "started", "status"),
    [
        (READ, False, "queued"),
        (IDEMPOTENT, False, "queued"),
        (READ_ONCE, True, "failed"),
        (READ_ONCE, False, "queued"),
        (IDEMPOTENT_ONCE, True, "uncertain"),
        (IDEMPOTENT_ONCE, False, "queued"),
        (WRITE, True, "uncertain"),
        (WRITE, False, "queued"),
    ],
)
def test_a_lapsed_lease_is_taken_back_by_delivery_and_effect(step: dict[str, Any], started: bool, status: str) -> None:
    world = world_of(step)
    granted = world.claim()
    assert granted is not None
    if started:
        world.heartbeat(granted.attempt, started=True)
    world.pass_time(46_000)
    assert world.status("only") == status
    spent = 0 if granted.attempt.status == "leased" and not started else 1
    assert world.row("only").spent == spent


def test_an_idempotent_write_lost_on_its_last_attempt_is_uncertain() -> None:
    world = world_of(IDEMPOTENT, attempts=1)
    world.claim()
    world.pass_time(46_000)
    assert world.status("only") == "uncertain"


def test_absent_clears_what_earlier_attempts_left() -> None:
    world = world_of(IDEMPOTENT)
    first = world.claim()
    assert first is not None
    world.fail(first.attempt, "retryable")
    assert world.row("only").effect == "unknown"
    world.pass_time(10_000)
    second = world.claim()
    assert second is not None
    assert world.fail(second.attempt, "fatal", "absent").disposition == "step_failed"


def test_none_speaks_for_its_own_attempt_only() -> None:
    world = world_of(IDEMPOTENT)
    first = world.claim()
    assert first is not None
    world.fail(first.attempt, "retryable")
    world.pass_time(10_000)
    second = world.claim()
    assert second is not None
    assert world.fail(second.attempt, "fatal", "none").disposition == "uncertain"


def test_the_twentieth_interruption_in_a_row_counts_as_retryable() -> None:
    world = world_of(READ)
    told = []
    for _ in range(20):
        granted = world.claim()
        assert granted is not None
        told.append(world.fail(granted.attempt, "interrupted").disposition)
    assert told == ["requeued"] * 19 + ["retry_scheduled"]
    assert world.row("only").spent == 1


def test_unservable_after_a_started_heartbeat_is_fatal_under_either_delivery() -> None:
    world = world_of(READ)
    granted = world.claim()
    assert granted is not None
    world.heartbeat(granted.attempt, started=True)
    assert world.fail(granted.attempt, "unservable").disposition == "step_failed"


def test_a_caught_failure_is_a_success_without_a_standing_write() -> None:
    catch = [{"class": "card_declined", "value": {"paid": False}}]
    world = world_of({**WRITE, "catch": catch})
    granted = world.claim()
    assert granted is not None
    told = world.fail(granted.attempt, "card_declined", "none")
    assert (told.disposition, world.execution.status) == ("caught", "completed")
    assert world.row("only").caught


def test_an_uncertain_step_is_never_caught() -> None:
    world = world_of({**WRITE, "catch": [{"class": "*", "value": 1}]})
    granted = world.claim()
    assert granted is not None
    world.heartbeat(granted.attempt, started=True)
    assert world.fail(granted.attempt, "fatal").disposition == "uncertain"


def test_out_of_attempts_is_caught_by_its_last_class() -> None:
    world = world_of({**READ, "catch": [{"class": "retryable", "value": 1}]}, attempts=1)
    granted = world.claim()
    assert granted is not None
    assert world.fail(granted.attempt, "retryable").disposition == "caught"


def test_a_retry_that_could_not_begin_before_the_time_out_is_out_of_attempts() -> None:
    world = world_of(READ, timeout_seconds=5)
    granted = world.claim()
    assert granted is not None
    assert world.fail(granted.attempt, "retryable", retry_in_ms=60_000).disposition == "step_failed"


def test_an_attempt_that_times_out_is_fenced_and_judged() -> None:
    world = world_of({**IDEMPOTENT, "timeout_seconds": 20})
    granted = world.claim()
    assert granted is not None
    world.pass_time(20_000)
    assert world.status("only") == "retry_wait"
    answer = world.complete(granted.attempt)
    assert isinstance(answer, c.Refused)
    assert answer.reason == "lease_lost"
    assert world.attempts[granted.attempt.id].stale


STEP = compiled({"steps": [{"id": "s", "effect": "read_only"}]}).steps[0]


@pytest.mark.parametrize(
    ("failures", "jitter", "wait_ms"),
    [
        (1, 1000, 2_000),
        (2, 1000, 4_000),
        (5, 1000, 32_000),
        (6, 1000, 60_000),
        (2_000, 1000, 60_000),
        (1, 800, 1_600),
        (1, 1200, 2_400),
        (6, 1200, 60_000),
        (6, 800, 48_000),
    ],
)
def test_back_off_grows_and_is_capped(failures: int, jitter: int, wait_ms: int) -> None:
    assert backoff_ms(STEP, failures, jitter) == wait_ms


@pytest.mark.parametrize(
    ("delay_ms", "at", "wait_ms"),
    [
        (None, None, 0),
        (5_000, None, 5_000),
        (10**21, None, 120_000),
        (-1, None, 0),
        (None, 1_000, 0),
        (None, 11_000, 1_000),
        (None, 10**14, 120_000),
    ],
)
def test_retry_after_is_cut_and_what_is_past_is_ignored(delay_ms: int | None, at: int | None, wait_ms: int) -> None:
    assert retry_after_ms(delay_ms, at, 10_000) == wait_ms
