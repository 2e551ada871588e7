"""Steps that run once an item: their items' lives, what one of them does to the step, and what the step comes to."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stepd.engine import commands as c
from stepd.engine.tally import tally_of
from tests.engine.world import ACTOR, World


def each(effect: str = "read_only", **more: Any) -> dict[str, Any]:
    return {"id": "each", "foreach": "input.items", "effect": effect, **more}


def world(*steps: dict[str, Any], items: Any = None, at_once: int = 200, **top: Any) -> World:
    return World({"steps": list(steps), **top}, input={"items": items or []}, items_at_once=at_once)


def counts(live: World, step: str = "each") -> dict[str, int]:
    return tally_of(live.row(step)).counts


def claim_all(live: World) -> list[c.Granted]:
    found = []
    while (granted := live.claim()) is not None:
        found.append(granted)
    return found


def test_an_item_is_a_lease_with_its_index_and_its_output_has_its_place() -> None:
    live = world(
        each(), {"id": "after", "effect": "read_only", "input": {"$cel": "steps.each.output"}}, items=["a", "b"]
    )
    first, second = claim_all(live)
    assert [granted.step.index for granted in (first, second)] == [0, 1]
    assert first.step.idempotency_key == "execution:each[0]"
    assert first.payloads["in:0:0"] == b'"a"'
    live.complete(second.attempt, "B")
    assert live.status("each") == "running"
    live.complete(first.attempt, "A")
    assert live.output("each") == ["A", "B"]
    after = live.claim()
    assert after is not None
    assert after.payloads["in:1:-1"] == b'["A","B"]'
    live.complete(after.attempt)
    assert live.execution.status == "completed"


def test_over_nothing_it_has_succeeded_with_nothing() -> None:
    live = world(each(), items=[])
    assert (live.execution.status, live.output("each")) == ("completed", [])


@pytest.mark.parametrize("value", [{"a": 1}, 5, "text", list(range(10_001))])
def test_what_is_no_list_or_too_long_fails_the_step(value: Any) -> None:
    live = World({"steps": [each()]}, input={"items": value})
    assert live.execution.status == "failed"
    assert msgspec.json.decode(live.row("each").error or b"")["class"] == "expression_failed"


def test_input_sees_item_and_index() -> None:
    live = world(
        each(input={"it": {"$cel": "item.name"}, "at": {"$cel": "index"}}), items=[{"name": "x"}, {"name": "y"}]
    )
    assert live.payloads["in:0:1"] == b'{"it":"y","at":1}'


def test_no_more_than_max_parallel_are_under_way() -> None:
    live = world(each(max_parallel=2), items=[1, 2, 3])
    first, second = claim_all(live)
    assert counts(live) == {"pending": 1, "running": 2}
    live.fail(first.attempt)
    assert claim_all(live) == [], "an item that waits for its retry keeps its place"
    live.complete(second.attempt)
    (third,) = claim_all(live)
    assert third.step.index == 2


def test_the_first_item_that_fails_fails_the_step() -> None:
    live = world(each(max_parallel=2), items=[1, 2, 3])
    first, _ = claim_all(live)
    live.fail(first.attempt, "broken")
    assert live.execution.status == "failed"
    assert counts(live) == {"failed": 1, "cancelled": 2}
    error = msgspec.json.decode(live.execution.error or b"")
    assert (error["class"], error["step"]) == ("broken", "each")
    assert [event.index for event in live.events if event.type == "step.failed"] == [0, None]


def test_writes_in_flight_are_settled_when_another_item_fails() -> None:
    live = world(each("idempotent_write"), items=[1, 2, 3])
    first, second = live.claim(), live.claim()
    assert first is not None
    assert second is not None
    live.fail(first.attempt, "broken", "none")
    assert live.execution.status == "failing"
    assert live.heartbeat(second.attempt).cancel is not None
    live.complete(second.attempt, "done")
    assert counts(live)["succeeded"] == 1
    assert live.claim() is None


def test_an_uncertain_item_makes_its_step_uncertain() -> None:
    live = world(each("non_idempotent_write"), items=[1, 2])
    first = live.claim()
    assert first is not None
    live.heartbeat(first.attempt, started=True)
    live.fail(first.attempt, "broken")
    assert (live.status("each"), live.execution.status) == ("uncertain", "reconciliation_required")
    assert live.items("each")[0].status == "uncertain"


def test_each_item_is_retried_and_caught_by_itself() -> None:
    live = world(
        each(
            retry={"max_attempts": 2},
            catch=[{"class": "retryable", "value": {"lost": {"$cel": "item"}, "i": {"$cel": "index"}}}],
        ),
        items=["a", "b"],
    )
    first, second = claim_all(live)
    live.complete(second.attempt, "B")
    live.fail(first.attempt)
    assert live.status("each") == "retry_wait"
    live.pass_time(5_000)
    again = live.claim()
    assert again is not None
    assert (again.step.index, again.attempt.number) == (0, 2)
    live.fail(again.attempt)
    assert live.output("each") == [{"lost": "a", "i": 0}, "B"]
    assert live.execution.status == "completed"


def test_what_catches_a_step_as_a_whole_sees_no_item() -> None:
    catch = [{"class": "expression_failed", "value": {"of": {"$cel": "item"}, "at": {"$cel": "index"}}}]
    live = World({"steps": [each(catch=catch)], "output": {"$cel": "steps.each.output"}}, input={"items": 5})
    assert (live.execution.status, live.payloads["output"]) == ("completed", b'{"of":null,"at":null}')


def test_an_item_whose_input_does_not_fit_may_be_caught() -> None:
    schema = {"type": "integer"}
    live = world(each(input_schema=schema, catch=[{"class": "invalid_input", "value": None}]), items=["a", 1])
    (only,) = claim_all(live)
    live.complete(only.attempt, 1)
    assert live.output("each") == [None, 1]


def test_an_item_whose_input_does_not_fit_fails_the_step() -> None:
    live = world(each(input_schema={"type": "integer"}), items=[1, "a"])
    assert live.execution.status == "failed"
    assert counts(live) == {"failed": 1, "cancelled": 1}


def test_items_are_made_in_slices_by_the_state_as_it_was() -> None:
    first = {"id": "first", "effect": "read_only"}
    other = {"id": "other", "effect": "read_only", "needs": ["first"], "priority": 1}
    live = world(first, other, each(needs=["first"], input={"$cel": "state.n"}), items=list(range(5)), at_once=2)
    start = live.claim()
    assert start is not None
    live.complete(start.attempt, state={"n": 1})
    assert len(live.items("each")) == 2
    beside = live.claim("other")
    assert beside is not None
    live.complete(beside.attempt, state={"n": 2})
    live.pass_time(0)
    assert [live.payloads[f"in:2:{index}"] for index in range(5)] == [b"1"] * 5


def test_a_pause_holds_up_the_slices() -> None:
    live = world(each(), items=list(range(5)), at_once=2)
    live.run(c.Pause(ACTOR))
    live.pass_time(1_000)
    assert len(live.items("each")) == 2
    live.run(c.Resume(ACTOR))
    live.pass_time(0)
    assert len(live.items("each")) == 5
    for granted in claim_all(live):
        live.complete(granted.attempt, granted.step.index)
    assert live.output("each") == [0, 1, 2, 3, 4]


def test_outputs_that_are_too_much_together_fail_the_step() -> None:
    live = world(each(), items=list(range(3)))
    live.settings = msgspec.structs.replace(live.settings, foreach_outputs_bytes=20)
    for granted in claim_all(live):
        live.complete(granted.attempt, "12345")
    assert live.execution.status == "failed"
    assert msgspec.json.decode(live.row("each").error or b"")["class"] == "invalid_output"


def test_writes_whose_outputs_are_too_much_together_are_uncertain() -> None:
    live = world(each("idempotent_write"), items=[1])
    live.settings = msgspec.structs.replace(live.settings, foreach_outputs_bytes=5)
    for granted in claim_all(live):
        live.complete(granted.attempt, "12345")
    assert (live.status("each"), live.execution.status) == ("uncertain", "reconciliation_required")


def test_a_queue_timeout_is_the_items() -> None:
    live = world(each(queue_timeout_seconds=5, catch=[{"class": "queue_timeout", "value": 0}]), items=[1, 2])
    first = live.claim()
    assert first is not None
    live.pass_time(6_000)
    live.complete(first.attempt, 1)
    assert live.output("each") == [1, 0]


def test_a_cancel_ends_all_items() -> None:
    live = world(each(max_parallel=1), items=list(range(4)), at_once=2)
    live.claim()
    live.cancel()
    assert live.execution.status == "cancelled"
    assert counts(live) == {"cancelled": 4}
    assert [row.status for row in live.items("each")] == ["cancelled"] * 2


def test_each_item_that_succeeded_is_undone_with_its_item_and_index() -> None:
    undo = {"id": "undo", "effect": "idempotent_write", "input": {"of": {"$cel": "item"}, "at": {"$cel": "index"}}}
    steps = [each("idempotent_write", input={"$cel": "index"}, compensate="undo"), undo]
    live = world(*steps, items=["a", "b", "c"], on_failure="compensate")
    first, second, third = claim_all(live)
    live.complete(second.attempt)
    live.complete(first.attempt)
    live.fail(third.attempt, "broken", "none")
    for expected in (b'{"of":"a","at":0}', b'{"of":"b","at":1}'):
        (undoing,) = claim_all(live)
        assert undoing.payloads[f"in:1:{undoing.step.index}"] == expected
        live.complete(undoing.attempt)
    assert live.execution.status == "failed"
