"""`stepd start`: what it sends, what it prints, and how it ends when it waits."""

import json
from pathlib import Path

import pytest

from tests.cli.answers import ID, ended, event, show_run, step, view
from tests.cli.program import Program
from tests.sdk.peer import DROPPED, Peer, Reply


@pytest.fixture
def started(peer: Peer) -> Peer:
    """A scripted daemon that starts what it is told to."""
    peer.always("executions", Reply(202, view(step())))
    return peer


def test_it_prints_the_id_and_nothing_else(started: Peer, stepd: Program) -> None:
    result = stepd("start", "jobs").expect(0)
    assert (result.out, result.err) == (f"{ID}\n", "")
    assert started.calls[0].body == {"workflow": "jobs", "input": None}


def test_with_json_it_prints_the_view(started: Peer, stepd: Program) -> None:
    assert json.loads(stepd("start", "jobs", "--json").expect(0).out) == view(step())


def test_all_that_is_given_is_sent(started: Peer, stepd: Program) -> None:
    options = (
        ["--version", "2", "--correlation", "order 7", "--label", "team=blue", "--label", "x=a=b", "--tenant", "acme"],
        [
            "--priority",
            "-5",
            "--budget-cost",
            "2.5",
            "--budget-tokens",
            "9",
            "--start-at",
            "2026-12-01T00:00:00Z",
            "--state",
            '{"n": 1.0}',
            "--idempotency-key",
            "k-1",
        ],
    )
    stepd("start", "jobs", *options[0], *options[1]).expect(0)
    call = started.calls[0]
    assert call.headers["idempotency-key"] == "k-1"
    assert call.body == {
        "workflow": "jobs",
        "input": None,
        "version": "2",
        "correlation": "order 7",
        "labels": {"team": "blue", "x": "a=b"},
        "tenant": "acme",
        "priority": -5,
        "budget": {"cost": 2.5, "tokens": 9},
        "start_at": "2026-12-01T00:00:00Z",
        "state": {"n": 1.0},
    }


def test_the_input_passes_unchanged_from_every_source(started: Peer, stepd: Program, tmp_path: Path) -> None:
    text = '{"b": 1.0,  "a": [100000000000000000000000000000, "\\u0000", "ä"], "b2": -0}'
    file = tmp_path / "input.json"
    file.write_text(text, encoding="utf-8")
    stepd("start", "jobs", "--input", text).expect(0)
    stepd("start", "jobs", "--input", f"@{file}").expect(0)
    stepd("start", "jobs", "--input", "-", input=text).expect(0)
    sent = [call.raw.decode() for call in started.calls]
    assert sent == ['{"workflow":"jobs","input":' + text + "}"] * 3


def test_a_lost_answer_starts_nothing_twice(started: Peer, stepd: Program) -> None:
    started.scripts.clear()
    started.script("executions", DROPPED, Reply(202, view()))
    assert stepd("start", "jobs").expect(0).out == f"{ID}\n"
    assert len({call.headers["idempotency-key"] for call in started.calls}) == 1
    assert len(started.calls) == 2


@pytest.mark.parametrize(
    ("status", "code"), [("completed", 0), ("failed", 1), ("cancelled", 2), ("reconciliation_required", 3)]
)
def test_with_wait_the_exit_code_says_how_it_ended(started: Peer, stepd: Program, status: str, code: int) -> None:
    show_run(
        started,
        ended(status, step(), output={"n": 1}),
        event(1, "execution.created"),
        event(2, "attempt.leased", "work"),
        event(25, f"execution.{status}"),
    )
    result = stepd("start", "jobs", "--wait").expect(code)
    assert result.lines[0] == ID
    assert "attempt 1 running on w-1" in result.out
    assert result.lines[-1].split() == ["output", '{"n":', "1}"]
    assert result.err == ""


def test_with_wait_and_json_only_the_last_view_is_printed(started: Peer, stepd: Program) -> None:
    last = ended("failed", step(status="failed"))
    show_run(started, last, event(1, "execution.created"), event(25, "execution.failed"))
    assert json.loads(stepd("start", "jobs", "--wait", "--json").expect(1).out) == last
