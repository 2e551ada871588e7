"""Resolving steps that run more than once: items and rounds are told by their index, and the step follows them."""

from __future__ import annotations

from typing import Any

import msgspec

from stepd.engine.commands import Granted
from stepd.engine.resolutions import Resolved, Unresolvable
from stepd.engine.tally import tally_of
from tests.engine.world import World, result


def each(effect: str = "non_idempotent_write", **more: Any) -> dict[str, Any]:
    return {"id": "each", "foreach": "input.items", "effect": effect, **more}


def loop(effect: str, **more: Any) -> dict[str, Any]:
    return {"id": "loop", "effect": effect, "repeat": {"until": "last == 9", "max": 2}, **more}


def world(step: dict[str, Any], *items: Any) -> World:
    return World({"steps": [step]}, input={"items": list(items)})


def claim(live: World) -> Granted:
    granted = live.claim()
    assert granted is not None
    live.heartbeat(granted.attempt, started=True)
    return granted


def test_an_uncertain_item_is_told_by_its_index_and_the_others_go_on() -> None:
    live = world(each(), "a", "b", "c")
    live.complete(claim(live).attempt, 0)
    live.fail(claim(live).attempt, "broken")
    assert live.execution.status == "reconciliation_required"
    assert isinstance(live.resume_with(result("each", "succeeded", 1, index=1)), Resolved)
    assert live.status("each") == "queued"
    last = claim(live)
    assert last.step.index == 2
    live.complete(last.attempt, 2)
    assert (live.execution.status, live.output("each")) == ("completed", [0, 1, 2])


def test_a_step_is_not_told_where_its_item_is() -> None:
    live = world(each(), "a")
    live.fail(claim(live).attempt, "broken")
    refused = live.resume_with(result("each", "absent"))
    assert isinstance(refused, Unresolvable)
    assert {place for place, _ in refused.faults} == {"/results/0/index", "/results"}
    assert "item 0 of step each is uncertain" in refused.faults[1][1]


def test_of_a_foreach_only_the_items_that_did_not_succeed_are_queued_again() -> None:
    live = world(each("idempotent_write", retry={"max_attempts": 1}), "a", "b")
    live.complete(claim(live).attempt, 0)
    live.fail(claim(live).attempt, "broken", "none")
    assert (live.execution.status, live.status("each")) == ("reconciliation_required", "failed")
    assert isinstance(live.resume_with(), Resolved)
    again = claim(live)
    assert (again.step.index, again.attempt.number) == (1, 1)
    live.complete(again.attempt, 1)
    assert (live.execution.status, live.output("each")) == ("completed", [0, 1])


def test_an_item_that_had_no_input_is_evaluated_on_the_state_as_it_is() -> None:
    step = each("idempotent_write", input={"$cel": "index == 0 ? 1 : state.n"}, max_parallel=1)
    other = {"id": "other", "effect": "non_idempotent_write", "needs": []}
    live = World({"steps": [other, step | {"needs": []}]}, input={"items": [1, 2, 3]}, items_at_once=1)
    live.heartbeat(claim(live).attempt, started=True)
    live.pass_time(0)
    assert live.status("each") == "failed"
    live.pass_time(60_000)
    assert live.execution.status == "reconciliation_required"
    assert isinstance(live.resume_with(result("other", "succeeded", 1, state={"n": 7})), Resolved)
    live.pass_time(0)
    inputs = []
    for _ in range(3):
        granted = claim(live)
        inputs.append(msgspec.json.decode(granted.payloads[f"in:1:{granted.step.index}"] or b""))
        live.complete(granted.attempt, granted.step.index)
    assert (inputs, live.execution.status) == ([1, 7, 7], "completed")


def test_writes_out_of_rounds_get_as_many_again_where_they_are_told_absent() -> None:
    live = world(loop("idempotent_write"))
    for output in (1, 2):
        live.complete(claim(live).attempt, output)
    assert live.status("loop") == "uncertain"
    assert isinstance(live.resume_with(result("loop", "absent")), Resolved)
    third = claim(live)
    assert third.step.index == 2
    live.complete(third.attempt, 9)
    assert (live.execution.status, live.output("loop")) == ("completed", 9)


def test_writes_out_of_rounds_may_be_given_their_output_by_hand() -> None:
    live = world(loop("idempotent_write"))
    for output in (1, 2):
        live.complete(claim(live).attempt, output)
    assert isinstance(live.resume_with(result("loop", "succeeded", "enough")), Resolved)
    assert (live.execution.status, live.output("loop")) == ("completed", "enough")


def test_a_round_that_failed_is_run_again_and_the_loop_goes_on() -> None:
    live = world(loop("idempotent_write"))
    live.complete(claim(live).attempt, 1)
    live.fail(claim(live).attempt, "broken", "none")
    assert live.execution.status == "reconciliation_required"
    assert isinstance(live.resume_with(), Resolved)
    again = claim(live)
    assert again.step.index == 1
    live.complete(again.attempt, 9)
    assert live.execution.status == "completed"


def test_a_close_ends_items_that_were_held() -> None:
    live = world(each(), "a", "b")
    live.fail(claim(live).attempt, "broken")
    assert isinstance(live.close("accepted"), Resolved)
    assert (live.execution.status, live.status("each")) == ("failed", "failed")
    assert tally_of(live.row("each")).counts == {"failed": 1, "cancelled": 1}
