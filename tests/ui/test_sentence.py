"""The sentence at the top of an execution's page: what it does or waits for, in each standing."""

from __future__ import annotations

from typing import Any

import pytest

from stepd.ui.sentence import Armed, Link, Mark, Moment, Sentence, armed_of, sentence_of

AT = "2026-12-01T12:00:00.000Z"


def view(status: str, *steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "status": status,
        "direction": "forward",
        "error": None,
        "standing_writes": [],
        "steps": list(steps),
        **more,
    }


def step(id_: str, status: str, index: int | None = None, **more: Any) -> dict[str, Any]:
    return {
        "id": id_,
        "index": index,
        "status": status,
        "blocked": None,
        "next_attempt_at": None,
        "error": None,
        **more,
    }


def said(view: dict[str, Any], armed: dict[tuple[str, int | None], Armed] | None = None) -> str:
    return sentence_of(view, armed or {}, None).text


FAILED = {"class": "card_declined", "message": "no money"}
NO_WORKER = {"code": "no_worker", "since": AT}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (view("completed"), "It has completed."),
        (view("failed", error=FAILED), "It has failed: card_declined (no money)."),
        (view("cancelled"), "It was cancelled."),
        (view("paused"), "It is paused: nothing is handed out until somebody resumes it."),
        (
            view("paused", paused={"reason": "budget_exceeded"}),
            "It is paused: its budget is used up. Resume it with a greater one to go on.",
        ),
        (view("running"), "It waits for its next step."),
        (view("queued", step("a", "queued")), "Waits for a worker to take a."),
        (view("running", step("a", "running", attempts=[{"attempt": 2, "worker": "w1"}])), "Runs a (attempt 2 on w1)."),
        (view("running", step("a", "running"), step("b", "leased")), "Runs a and b."),
        (view("running", *(step(f"s{n}", "running") for n in range(5))), "Runs s0, s1, s2 and 2 more."),
        (view("running", step("a", "queued", blocked=NO_WORKER)), f"No live worker serves a, since {AT}."),
        (
            view("running", step("a", "retry_wait", next_attempt_at=AT, error=FAILED)),
            f"Tries a again at {AT} after card_declined (no money).",
        ),
        (view("waiting", step("a", "waiting", child="c-1")), "Waits for the child of a, c-1."),
        (view("running", step("a", "running"), step("b", "waiting")), "Runs a; waits in b."),
        (
            view("waiting", step("a", "waiting", blocked={"code": "child_reconciliation", "execution": "c-1"})),
            "The child of a needs an operator: c-1.",
        ),
        (
            view("reconciliation_required", step("pay", "uncertain")),
            "It needs an operator: nobody can know whether the write of pay happened.",
        ),
        (
            view("reconciliation_required", standing_writes=[{"step": "pay", "index": None}], error=FAILED),
            "It needs an operator: the write of pay stands, and it did not end well: card_declined (no money).",
        ),
        (
            view("reconciliation_required", error=FAILED),
            "It needs an operator: it can't end by itself: card_declined (no money).",
        ),
        (view("cancelling", step("a", "running")), "It is being cancelled: it waits for a."),
        (view("cancelling", step("a", "queued", held=True)), "It is being cancelled."),
        (
            view("failing", step("undo", "running"), direction="compensate", error=FAILED),
            "It is failing: card_declined (no money), and undoes what it has done: it waits for undo.",
        ),
    ],
)
def test_what_is_said(given: dict[str, Any], text: str) -> None:
    assert said(given) == text


def test_a_scheduled_one_says_when_it_begins() -> None:
    assert sentence_of(view("scheduled"), {}, AT) == Sentence(("It begins at ", Moment(AT), "."), "calm")


def test_what_is_waited_for_comes_from_the_journal() -> None:
    events: list[Any] = [
        {"type": "wait.armed", "step": "ask", "index": None, "data": {"event": "approval", "timeout_at": AT}},
        {"type": "wait.armed", "step": "nap", "index": 3, "data": {"until": AT}},
        {"type": "step.queued", "step": "ask", "index": None, "data": {}},
    ]
    armed = armed_of(events)
    given = view("waiting", step("ask", "waiting"), step("nap", "waiting", 3))
    assert said(given, armed) == f"Waits for the signal approval, until {AT}; sleeps until {AT}."
    parts = sentence_of(given, armed, None).parts
    assert Mark("approval") in parts
    assert Moment(AT) in parts


def test_many_things_are_counted() -> None:
    given = view("waiting", *(step(f"s{n}", "waiting", child=f"c{n}") for n in range(5)))
    assert said(given).endswith("; and 2 more.")
    assert Link("c0") in sentence_of(given, {}, None).parts


def test_a_long_message_is_cut() -> None:
    given = view("failed", error={"class": "fatal", "message": "x" * 5_000})
    assert len(said(given)) < 400
