"""How events read: each type has words of its own, and an unknown one is told all the same."""

import pytest

from stepd.wording.journal import tell
from stepd_protocol.names import EVENT_TYPES
from tests.cli.answers import event

# The kinds of steps that have these don't run yet; until then their type and data say it.
WITHOUT_WORDS = {
    "child.started",
    "child.ended",
}


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_every_type_of_event_is_told_in_words(kind: str) -> None:
    told = tell(event(1, kind, "work" if kind.startswith(("step", "attempt")) else None))
    assert told.text
    assert (kind in told.text) == (kind in WITHOUT_WORDS)


def test_a_type_that_came_later_is_told_with_its_data() -> None:
    told = tell(event(1, "step.polished", "work", data={"with": "wax\x1b[2J"}))
    assert told.subject == "work"
    assert told.text == r'step.polished, attempt 1 on w-1 {"with": "wax\u001b[2J"}'


@pytest.mark.parametrize(
    ("told", "text"),
    [
        (event(1, "attempt.leased", "work", data={"status": "leased"}), "attempt 1 leased on w-1"),
        (event(1, "attempt.leased", "work", data={"status": "running"}), "attempt 1 running on w-1"),
        (
            event(1, "attempt.failed", "work", attempt=2, data={"class": "retryable", "message": "no\nluck"}),
            r"attempt 2 failed: retryable: no\nluck",
        ),
        (
            event(1, "step.retry_scheduled", "work", data={"next_attempt_at": "2026-11-30T12:00:02.100Z"}),
            "to be tried again in 2.00 s",
        ),
        (event(1, "step.retry_scheduled", "work", data={"next_attempt_at": None}), "to be tried again"),
        (event(1, "step.queued", "work", data={"items": 12}), "queued, 12 items"),
        (event(1, "step.cancelled", "work"), "cancelled"),
        (event(1, "step.failed", "work", data={"error": {"class": "fatal", "message": "no"}}), "failed: fatal: no"),
        (event(1, "execution.failing", data={"error": {"class": "fatal"}}), "is failing: fatal"),
        (
            event(1, "execution.cancel_requested", data={"reason": "late", "force": True}),
            "cancel asked for, by force: late",
        ),
        (event(1, "signal.received", data={"name": "go", "signal": 1}), "signal received: go"),
        (event(1, "wait.armed", "ask", data={"event": "go", "timeout_at": None}), "waits for a signal: go"),
        (event(1, "wait.armed", "nap", data={"until": "2026-11-30T12:00:02.100Z"}), "waits for 2.00 s"),
        (event(1, "wait.resumed", "ask", data={"event": "go", "signal": 1}), "resumed by a signal: go"),
        (event(1, "wait.timed_out", "ask", data={"on_timeout": "skip"}), "nothing came in time"),
        (event(1, "timer.fired", "nap"), "its time has come"),
        (event(1, "decision.made", "route", data={"rule_ids": ["a", "b"]}), "decided by a, b"),
        (event(1, "decision.made", "route", data={"rule_ids": []}), "decided by its default"),
        (
            event(1, "execution.reconciliation_required", data={"uncertain": ["pay"], "standing_writes": ["book"]}),
            "needs reconciliation: uncertain pay; writes that stand book",
        ),
    ],
)
def test_the_words_say_what_the_data_says(told: dict[str, object], text: str) -> None:
    assert tell(told).text == text


def test_an_item_is_named_with_its_place() -> None:
    assert tell(event(1, "step.succeeded", "work", index=3)).subject == "work[3]"
