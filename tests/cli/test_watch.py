"""`stepd watch`: an execution as it goes, in lines and on a terminal, through cut streams, to its end."""

import json
import re
import signal

from tests.cli.answers import ID, ended, event, in_turn, show_run, step, stream, view
from tests.cli.program import Program
from tests.sdk.peer import DROPPED, Peer, Reply, problem

RETRIED = (
    event(1, "execution.created"),
    event(2, "attempt.leased", "fetch"),
    event(5, "attempt.failed", "fetch", data={"class": "retryable", "message": "no luck"}),
    event(5, "step.retry_scheduled", "fetch", data={"next_attempt_at": "2026-11-30T12:00:01.000Z"}) | {"seq": 6},
    event(10, "attempt.leased", "fetch", attempt=2),
    event(20, "step.succeeded", "fetch", attempt=2),
    event(25, "execution.completed"),
)
DONE = ended("completed", step("fetch", "succeeded", attempt=2))


def test_in_a_pipe_it_prints_a_line_for_each_event(peer: Peer, stepd: Program) -> None:
    show_run(peer, DONE, *RETRIED)
    assert stepd("watch", ID).expect(0).lines == [
        "     0.10 s  execution  created",
        "     0.20 s  fetch      attempt 1 running on w-1",
        "     0.50 s  fetch      attempt 1 failed: retryable: no luck",
        "     0.50 s  fetch      to be tried again in 0.50 s",
        "     1.00 s  fetch      attempt 2 running on w-1",
        "     2.00 s  fetch      succeeded",
        "     2.50 s  execution  completed",
    ]


def test_on_a_terminal_it_draws_a_line_for_each_step(peer: Peer, stepd: Program) -> None:
    waiting = step("fetch", "retry_wait", error={"class": "retryable", "message": "no luck", "details": None})
    peer.scripts += [
        in_turn(ID, Reply(200, view(step("fetch", "queued", attempt=0))), Reply(200, view(waiting)), Reply(200, DONE)),
        in_turn(
            "events", stream(*RETRIED[:4]), Reply(200, b"", {"Content-Type": "text/event-stream"}), stream(*RETRIED[4:])
        ),
    ]
    result = stepd.on_terminal("watch", ID).expect(0)
    assert "retry_wait" in result.plain
    assert "retryable: no luck" in result.plain
    assert result.plain.splitlines()[-3:] == [
        f"jobs 1  completed  2.50 s  {ID}",
        "   step   status     attempt  elapsed",
        "✓  fetch  succeeded  2        1.80 s   on w-1, after retryable: no luck",
    ]
    assert "\x1b[?25h" in result.out, "the cursor is shown again"


def test_a_terminal_that_is_too_low_shows_what_matters_and_counts_the_rest(peer: Peer, stepd: Program) -> None:
    steps = [step(f"s{place:02d}", "running" if place == 30 else "pending", attempt=0) for place in range(60)]
    peer.scripts += [
        in_turn(ID, *[Reply(200, view(*steps))] * 2, Reply(200, ended("cancelled", *steps))),
        in_turn("events", stream(event(1, "execution.created")), stream(event(25, "execution.cancelled"))),
    ]
    result = stepd.on_terminal("watch", ID, rows=16).expect(2)
    drawn, _, last = result.plain.rpartition("jobs 1  ")
    assert "s30" in drawn
    assert "… and 50 more: 50 pending" in drawn
    assert "s59" not in drawn
    assert "s59" in last


def test_a_stream_that_is_cut_is_taken_up_where_it_was(peer: Peer, stepd: Program) -> None:
    peer.scripts += [
        in_turn(ID, Reply(200, view(step("fetch"))), Reply(200, DONE)),
        in_turn("events", stream(*RETRIED[:3]), DROPPED, problem(503, "unavailable"), stream(*RETRIED[3:])),
    ]
    lines = stepd("watch", ID).expect(0).lines
    told = [line for line in lines if "no answer" not in line]
    assert len(told) == len(RETRIED)
    assert [call.headers.get("last-event-id") for call in peer.named("events")] == ["0", "5", "5", "5"]


def test_one_that_went_on_after_reconciliation_is_watched_to_its_end(peer: Peer, stepd: Program) -> None:
    show_run(
        peer,
        DONE,
        event(1, "execution.created"),
        event(2, "execution.reconciliation_required", data={"uncertain": ["fetch"]}),
        event(3, "execution.resolved"),
        event(25, "execution.completed"),
    )
    lines = stepd("watch", ID).expect(0).lines
    assert "needs reconciliation: uncertain fetch" in lines[1]
    assert len(lines) == 4


def test_what_went_wrong_stands_at_the_end(peer: Peer, stepd: Program) -> None:
    error = {"class": "card_declined", "message": "no money", "step": "pay", "cause": None}
    writes = [{"step": "book", "index": None}]
    last = ended("reconciliation_required", step("pay", "failed"), error=error, standing_writes=writes)
    show_run(peer, last, event(25, "execution.reconciliation_required"))
    assert stepd("watch", ID).expect(3).lines[-2:] == [
        "error              card_declined: no money (step pay)",
        "writes that stand  book",
    ]


def test_many_items_whose_write_stands_are_told_by_their_number(peer: Peer, stepd: Program) -> None:
    writes = [{"step": step, "index": index} for step, count in (("many", 6), ("few", 2)) for index in range(count)]
    last = ended("reconciliation_required", step("pay", "failed"), standing_writes=writes)
    show_run(peer, last, event(25, "execution.reconciliation_required"))
    assert stepd("watch", ID).expect(3).lines[-1] == "writes that stand  many (6 items), few[0], few[1]"


def test_an_execution_that_is_not_there_ends_with_66(peer: Peer, stepd: Program) -> None:
    assert "test: not_found" in stepd("watch", "nobody").expect(66).err


def test_ctrl_c_stops_the_watch_and_says_that_the_execution_goes_on(peer: Peer, stepd: Program) -> None:
    peer.always(ID, Reply(200, view(step())))
    peer.always("events", Reply(200, b"", {"Content-Type": "text/event-stream"}))
    process = stepd.launch("watch", ID)
    peer.wait_for("events")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert f"stepd watch {ID}" in said
    assert "Traceback" not in said


def test_with_json_it_prints_the_view_at_the_end_only(peer: Peer, stepd: Program) -> None:
    show_run(peer, DONE, *RETRIED)
    assert json.loads(stepd("watch", ID, "--json").expect(0).out) == DONE


def test_a_name_that_looks_like_a_command_of_the_terminal_is_harmless(peer: Peer, stepd: Program) -> None:
    evil = "\x1b[31m[red]x[/red]\x1b]0;title\x07\u202e"
    error = {"class": evil, "message": evil, "step": evil, "cause": None}
    last = ended("failed", step(evil, "failed", error={"class": evil, "message": evil, "details": evil}), error=error)
    told = event(20, "attempt.failed", evil, worker=evil, data={"class": evil, "message": evil})
    show_run(peer, last, told, event(25, "execution.failed", data={"error": error}))
    for result in (stepd("watch", ID).expect(1), stepd.on_terminal("watch", ID, columns=400).expect(1)):
        assert not re.findall(r"[^\r\n -~✓✗·▸…⠀-⣿├└─]", result.plain)
        assert "[red]x[/red]" in result.plain
        assert r"\x1b[31m" in result.plain
        assert "\x1b]0;" not in result.out
