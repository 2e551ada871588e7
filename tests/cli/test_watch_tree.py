"""What `stepd watch` shows below a step: attempts, items and rounds, the steps of a child, tokens and cost."""

from __future__ import annotations

import re

import pytest

from tests.cli.answers import ID, USAGE, ended, event, in_turn, step, stream, view
from tests.cli.program import Program, Result
from tests.sdk.peer import Peer, Reply
from tests.support.client import Http
from tests.support.definitions import AT_ONCE, cel, read
from tests.support.flow import make_flow
from tests.support.wait import beside

CHILD = "0194-c"


def last_picture(result: Result) -> list[str]:
    """What stays on the terminal."""
    text = result.plain
    return text[text.rindex("jobs 1  ") :].splitlines()


def test_attempts_that_went_wrong_stand_below_their_step(peer: Peer, stepd: Program) -> None:
    tried = [
        one
        for number in range(1, 6)
        for one in (
            event(number * 2, "attempt.leased", "pay", attempt=number),
            event(
                number * 2 + 1, "attempt.failed", "pay", attempt=number, data={"class": "x", "message": f"no {number}"}
            ),
        )
    ]
    last = ended("failed", step("pay", "failed", attempt=5))
    peer.scripts += [
        in_turn(ID, Reply(200, view(step("pay"))), Reply(200, last)),
        in_turn("events", stream(event(1, "execution.created"), *tried, event(25, "execution.failed"))),
    ]
    lines = last_picture(stepd.on_terminal("watch", ID).expect(1))
    assert [" ".join(line.split()) for line in lines[2:6]] == [
        "✗ pay failed 5 0.90 s x: no 5",
        "├─ attempt 3 failed 0.10 s on w-1, x: no 3",
        "├─ attempt 4 failed 0.10 s on w-1, x: no 4",
        "└─ attempt 5 failed 0.10 s on w-1, x: no 5",
    ]


def test_items_that_tell_something_are_named_and_the_others_counted(peer: Peer, stepd: Program) -> None:
    counts = {"succeeded": 90, "running": 9, "failed": 1}
    events = [event(2, "attempt.leased", "all", index=index) for index in range(10)]
    events += [
        event(3, "attempt.failed", "all", index=4, data={"class": "broken"}),
        event(3, "step.failed", "all", index=4),
    ]
    last = ended("cancelled", step("all", "failed", attempt=0, items=counts))
    peer.scripts += [
        in_turn(ID, Reply(200, view(step("all", items=counts))), Reply(200, last)),
        in_turn("events", stream(event(1, "execution.created"), *events, event(25, "execution.cancelled"))),
    ]
    lines = last_picture(stepd.on_terminal("watch", ID).expect(2))
    words = [" ".join(line.split()) for line in lines[2:10]]
    assert words[0].startswith("✗ all failed")
    assert "90 of 100 items, 1 failed, 9 running" in words[0]
    assert [line.split()[2] for line in words[1:7]] == ["[0]", "[1]", "[2]", "[3]", "[4]", "[5]"]
    assert "failed" in words[5]
    assert "broken" in words[5]
    assert words[7] == "└─ … 4 more"


def test_the_steps_of_a_child_and_what_it_used_stand_below_its_step(peer: Peer, stepd: Program) -> None:
    usage = USAGE | {"input_tokens": 1_200, "output_tokens": 34, "cost": 0.00123, "currency": "USD"}
    child = view(step("a", "succeeded"), step("b", "running"), usage=usage) | {"id": CHILD, "workflow": "small"}
    whole = usage | {"unpriced_tokens": 7, "cost": 1234.5}
    last = ended("cancelled", step("sub", "waiting", attempt=0, child=CHILD), usage=whole)
    peer.scripts += [
        in_turn(CHILD, Reply(200, child)),
        in_turn(ID, Reply(200, view(step("sub", "waiting", attempt=0, child=CHILD))), Reply(200, last)),
        in_turn("events", stream(event(1, "execution.created"), event(25, "execution.cancelled"))),
    ]
    head, _, *lines = last_picture(stepd.on_terminal("watch", ID).expect(2))
    assert head == f"jobs 1  cancelled  2.50 s  1,234 tokens, 1234.5 USD  {ID}"
    assert [line.split()[:3] for line in lines[1:4]] == [["▸", "└─", "small"], ["✓", "└─", "a"], ["▸", "└─", "b"]]
    assert lines[1].endswith("1,234 tokens, 0.00123 USD")


def test_a_child_that_may_not_be_read_is_left_out(peer: Peer, stepd: Program) -> None:
    shown = step("sub", "waiting", attempt=0, child="nobody")
    peer.scripts += [
        in_turn(ID, Reply(200, view(shown)), Reply(200, ended("cancelled", shown))),
        in_turn("events", stream(event(1, "execution.created"), event(25, "execution.cancelled"))),
    ]
    assert "for its child nobody" in last_picture(stepd.on_terminal("watch", ID).expect(2))[2]


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
def test_a_real_run_fits_the_terminal_whatever_its_width(real: Program, http: Http, columns: int) -> None:
    small = make_flow(http, read("inner"))
    flow = make_flow(
        http,
        read("many", foreach="[1, 2, 3]", retry=AT_ONCE),
        {"id": "sub", "kind": "workflow", "workflow": small.name, "input": cel("steps.many.output")},
    )
    run = flow.start()
    watching = beside(lambda: real.on_terminal("watch", run.id, columns=columns, rows=12))
    flow.claim_one().fail("retryable", message="\x1b[31mno luck\n").expect(200)
    for _ in range(3):
        flow.claim_one().complete().expect(200)
    small.claim_one().complete().expect(200)
    result = watching.result(60).expect(0)
    drawn = re.split(r"\x1b\[\?25h", result.out)[0]
    assert "\x1b[31mno luck" not in result.out
    pictures = [
        line for part in drawn.split("\x1b[2K") for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", part).split("\n")
    ]
    assert max(len(line.rstrip("\r")) for line in pictures) <= columns
    assert f"{small.name}" in result.plain
    assert "inner" in result.plain
