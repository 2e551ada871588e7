"""Steps that run again and again: when the next round comes, with which input, and how they end."""

from __future__ import annotations

from typing import Any

import msgspec

from stepd.engine import commands as c
from stepd.engine.tally import tally_of
from tests.engine.world import ACTOR, World


def loop(effect: str = "read_only", until: str = "last.done", **more: Any) -> dict[str, Any]:
    repeat = {"until": until, "max": more.pop("max", 5), **more.pop("repeat", {})}
    return {"id": "loop", "effect": effect, "repeat": repeat, **more}


def world(*steps: dict[str, Any], **more: Any) -> World:
    return World({"steps": list(steps)}, input={"n": 1}, **more)


def next_round(live: World) -> c.Granted:
    granted = live.claim("loop")
    assert granted is not None
    return granted


def class_of(error: bytes | None) -> str:
    found: str = msgspec.json.decode(error or b"")["class"]
    return found


def test_rounds_follow_each_other_until_the_condition_holds() -> None:
    live = world(loop(), {"id": "after", "effect": "read_only", "input": {"$cel": "steps.loop.output"}})
    first = next_round(live)
    assert (first.step.index, first.step.idempotency_key) == (0, "execution:loop[0]")
    live.complete(first.attempt, {"done": False})
    second = next_round(live)
    assert second.step.index == 1
    live.complete(second.attempt, {"done": True, "at": 1})
    assert live.output("loop") == {"done": True, "at": 1}
    assert live.claim("after") is not None


def test_the_next_round_is_made_where_the_last_one_is_settled() -> None:
    live = world(loop())
    live.complete(next_round(live).attempt, {"done": False})
    types = [(event.type, event.index) for event in live.events[-2:]]
    assert types == [("step.succeeded", 0), ("step.queued", 1)]


def test_without_next_the_input_stays_the_same() -> None:
    live = world(loop(input={"x": {"$cel": "input.n + 1"}}), items_at_once=2)
    for _ in range(3):
        granted = next_round(live)
        assert granted.payloads[f"in:0:{granted.step.index}"] == b'{"x":2}'
        live.complete(granted.attempt, {"done": False})
    assert world(loop()).claim() is not None, "the execution's own input is as good"


def test_next_sees_the_last_output_and_its_index() -> None:
    live = world(loop(repeat={"next": {"prev": {"$cel": "last.v"}, "i": {"$cel": "index"}}}))
    live.complete(next_round(live).attempt, {"done": False, "v": "x"})
    live.complete(next_round(live).attempt, {"done": False, "v": "y"})
    assert next_round(live).payloads["in:0:2"] == b'{"prev":"y","i":1}'


def test_until_sees_the_state_that_the_round_has_left() -> None:
    live = world(loop(until="state.n > 1"))
    live.complete(next_round(live).attempt, {}, state={"n": 1})
    live.complete(next_round(live).attempt, {}, state={"n": 2})
    assert live.execution.status == "completed"


def test_out_of_rounds_it_has_failed() -> None:
    live = world(loop(max=2))
    live.complete(next_round(live).attempt, {"done": False})
    live.complete(next_round(live).attempt, {"done": False})
    assert (live.execution.status, class_of(live.row("loop").error)) == ("failed", "repeat_limit")


def test_out_of_rounds_may_be_caught() -> None:
    live = world(loop(max=1, catch=[{"class": "repeat_limit", "value": "enough"}]))
    live.complete(next_round(live).attempt, {"done": False})
    assert (live.execution.status, live.output("loop")) == ("completed", "enough")


def test_writes_that_ran_out_of_rounds_are_uncertain() -> None:
    live = world(loop("idempotent_write", max=1))
    live.complete(next_round(live).attempt, {"done": False})
    assert (live.status("loop"), live.execution.status) == ("uncertain", "reconciliation_required")
    assert live.items("loop")[0].status == "succeeded"


def test_a_round_that_was_caught_is_followed_by_another() -> None:
    live = world(loop(catch=[{"class": "declined", "value": {"done": False, "why": "declined"}}]))
    live.fail(next_round(live).attempt, "declined")
    assert next_round(live).step.index == 1


def test_a_round_that_fails_fails_the_step() -> None:
    live = world(loop())
    live.complete(next_round(live).attempt, {"done": False})
    live.fail(next_round(live).attempt, "fatal")
    assert (live.execution.status, live.status("loop")) == ("failed", "failed")
    assert tally_of(live.row("loop")).counts == {"succeeded": 1, "failed": 1}


def test_a_condition_that_is_none_fails_the_step() -> None:
    live = world(loop(until="last.missing == 1"))
    live.complete(next_round(live).attempt, {"done": False})
    assert class_of(live.row("loop").error) == "expression_failed"


def test_a_next_that_fails_is_caught_round_by_round_and_never_holds_the_daemon() -> None:
    catch = [{"class": "*", "value": {"done": False}}]
    live = world(loop(max=7, repeat={"next": {"$cel": "last.missing"}}, catch=catch), items_at_once=2)
    live.complete(next_round(live).attempt, {"done": False})
    assert len(live.items("loop")) == 3
    live.pass_time(0)
    assert (live.execution.status, len(live.items("loop"))) == ("completed", 7)
    assert live.row("loop").caught


def test_while_paused_no_round_is_evaluated() -> None:
    live = world(loop())
    first = next_round(live)
    live.run(c.Pause(ACTOR))
    live.complete(first.attempt, {"done": False})
    assert len(live.items("loop")) == 1
    live.run(c.Resume(ACTOR))
    assert next_round(live).step.index == 1


def test_while_ending_no_round_follows() -> None:
    live = world(loop("idempotent_write"))
    first = next_round(live)
    live.cancel()
    live.complete(first.attempt, {"done": False})
    assert len(live.items("loop")) == 1
    assert live.execution.status == "cancelled"


def test_a_round_is_retried_by_itself() -> None:
    live = world(loop(retry={"max_attempts": 2}))
    live.complete(next_round(live).attempt, {"done": False})
    live.fail(next_round(live).attempt)
    assert live.status("loop") == "retry_wait"
    live.pass_time(5_000)
    again = next_round(live)
    assert (again.step.index, again.attempt.number) == (1, 2)
    live.complete(again.attempt, {"done": True})
    assert live.execution.status == "completed"
