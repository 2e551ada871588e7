"""Waits, sleeps and decisions in the machine: what a table can't show over HTTP, by the clock and in bulk."""

from __future__ import annotations

from typing import Any

import pytest

from stepd.engine import commands as c
from stepd.engine.machine import decide
from stepd.engine.model import Parked
from stepd.engine.work import Loaded, Missing, Work
from tests.engine.world import ACTOR, World

INTEGER = {"type": "integer"}


def wait(id_: str, event: str = "go", **fields: Any) -> dict[str, Any]:
    return {"id": id_, "kind": "wait", "event": event, "needs": [], **fields}


def read(id_: str, **fields: Any) -> dict[str, Any]:
    return {"id": id_, "effect": "read_only", "needs": [], **fields}


def statuses(world: World) -> dict[str, str]:
    return {id_: world.status(id_) for id_ in world.definition.by_id}


def finish(world: World, step: str) -> None:
    granted = world.claim(step)
    assert granted is not None
    world.complete(granted.attempt)


def test_the_wait_that_was_armed_first_is_resumed_whatever_its_place() -> None:
    world = World({"steps": [read("a"), read("b"), wait("third", needs=["b"]), wait("second", needs=["a"]), wait("w")]})
    for step in ("a", "b"):
        world.now += 10
        finish(world, step)
    for resumed in ("w", "second", "third"):
        world.signal("go")
        assert world.status(resumed) == "succeeded"
    assert world.execution.status == "completed"


def test_a_time_out_counts_from_the_arming() -> None:
    world = World({"steps": [read("a"), wait("w", needs=["a"], timeout_seconds=10)]})
    world.pass_time(60_000)
    finish(world, "a")
    world.pass_time(9_999)
    assert world.status("w") == "waiting"
    world.pass_time(1)
    assert world.status("w") == "failed"
    assert world.execution.status == "failed"


def test_until_a_time_out_is_swept_the_wait_is_armed() -> None:
    world = World({"steps": [wait("w", timeout_seconds=10)]})
    world.now += 60_000
    world.signal("go", 1)
    assert (world.execution.status, world.output("w")) == ("completed", 1)


def test_kept_signals_come_before_what_fell_due_in_a_pause() -> None:
    steps = [
        wait("told", timeout_seconds=5),
        wait("untold", "come", timeout_seconds=5, on_timeout="skip"),
        {"id": "nap", "kind": "sleep", "seconds": 5, "needs": []},
    ]
    world = World({"steps": steps})
    world.run(c.Pause(ACTOR))
    world.pass_time(60_000)
    world.signal("go", 1)
    assert statuses(world) == dict.fromkeys(("told", "untold", "nap"), "waiting")
    world.run(c.Resume(ACTOR))
    assert statuses(world) == {"told": "succeeded", "untold": "waiting", "nap": "waiting"}
    world.pass_time(0)
    assert statuses(world) == {"told": "succeeded", "untold": "skipped", "nap": "succeeded"}
    assert world.execution.status == "completed"


def test_a_kept_signal_passes_waits_that_it_does_not_fit() -> None:
    world = World({"steps": [read("a"), wait("n", needs=["a"], payload_schema=INTEGER), wait("any", needs=["a"])]})
    for payload in ("x", 1, "y"):
        world.signal("go", payload)
    finish(world, "a")
    assert (world.output("n"), world.output("any")) == (1, "x")
    assert [signal.taken_by for signal in world.signals.values()] == [2, 1, None]


def test_a_thousand_signals_are_kept_and_no_more() -> None:
    world = World({"steps": [read("a"), wait("w", needs=["a"])]})
    assert all(world.signal("go", number) == c.Done("queued") for number in range(1_000))
    before = world.execution
    assert world.signal("go") == c.TooMany(1_000)
    assert world.execution == before
    finish(world, "a")
    assert (world.output("w"), world.execution.signals_kept) == (0, 999)


def test_one_that_resumes_a_wait_needs_no_room() -> None:
    world = World({"steps": [read("a"), wait("n", needs=[], payload_schema=INTEGER), wait("w", needs=["a"])]})
    for _ in range(1_000):
        world.signal("go", "x")
    assert world.signal("go", "x") == c.TooMany(1_000)
    assert world.signal("go", 1) == c.Done("queued")


def test_an_event_that_comes_again_does_nothing() -> None:
    world = World({"steps": [wait("w1"), wait("w2"), wait("w3")]})
    for source in ("e1", "e1", "e2"):
        world.signal("go", source=source)
    assert statuses(world) == {"w1": "succeeded", "w2": "succeeded", "w3": "waiting"}
    assert world.types().count("signal.received") == 2


def test_many_waits_are_armed_and_resumed_in_one_decision_each() -> None:
    world = World({"steps": [wait(f"w{number}") for number in range(400)]})
    with pytest.raises(Missing) as missing:
        decide(Work(world.definition, world.settings, world.now, Loaded(world.execution)), c.Signal(ACTOR, "go", b"1"))
    assert len(missing.value.needs) == 400, "rows are asked for together"
    world.signal("go")
    world.run(c.Pause(ACTOR))
    for number in range(398):
        world.signal("go", number)
    world.run(c.Resume(ACTOR))
    assert list(statuses(world).values()).count("waiting") == 1


def test_an_ending_holds_waits_and_sleeps_and_no_signal_or_timer_touches_them() -> None:
    steps = [
        {"id": "write", "effect": "idempotent_write"},
        wait("w", timeout_seconds=5),
        {"id": "nap", "kind": "sleep", "seconds": 5, "needs": []},
    ]
    world = World({"steps": steps})
    granted = world.claim("write")
    assert granted is not None
    world.cancel()
    world.pass_time(20_000)
    assert [world.row(step).parked for step in ("w", "nap")] == [Parked.HELD] * 2
    assert world.signal("go") == c.Conflict("not_signalable", "cancelling", "execution")
    assert statuses(world) == {"write": "running", "w": "waiting", "nap": "waiting"}
    world.complete(granted.attempt)
    assert world.execution.status == "cancelled"
    assert statuses(world) == {"write": "succeeded", "w": "cancelled", "nap": "cancelled"}


def test_large_outputs_of_decisions_are_left_to_the_sweeper_in_parts() -> None:
    rules = [{"then": {"$cel": "input"}}]
    steps = [{"id": f"d{number}", "kind": "decision", "rules": rules, "needs": []} for number in range(60)]
    world = World({"steps": steps}, input="x" * 200_000)
    done = list(statuses(world).values()).count("succeeded")
    assert 20 <= done < 60
    world.pass_time(0)
    assert world.execution.status == "completed"


def test_an_operator_who_resumes_arms_waits_anew_and_lets_sleeps_keep_their_time() -> None:
    steps = [
        {"id": "write", "effect": "idempotent_write", "needs": []},
        read("bad"),
        wait("w", timeout_seconds=100),
        wait("given", "come", timeout_seconds=100),
        {"id": "short", "kind": "sleep", "seconds": 50, "needs": []},
        {"id": "long", "kind": "sleep", "seconds": 150, "needs": []},
    ]
    world = World({"steps": steps})
    finish(world, "write")
    granted = world.claim("bad")
    assert granted is not None
    world.fail(granted.attempt, "fatal")
    assert world.execution.status == "reconciliation_required"
    assert world.signal("go") == c.Conflict("not_signalable", "reconciliation_required", "execution")
    world.pass_time(120_000)
    world.resume_with()
    assert [event.step for event in world.events if event.type == "wait.armed"][-2:] == ["w", "given"]
    world.pass_time(0)
    world.signal("come")
    finish(world, "bad")
    assert statuses(world) == {
        "write": "succeeded",
        "bad": "succeeded",
        "w": "waiting",
        "given": "succeeded",
        "short": "succeeded",
        "long": "waiting",
    }
    world.pass_time(30_000)
    assert (world.status("long"), world.status("w")) == ("succeeded", "waiting")
    world.pass_time(70_000)
    assert world.status("w") == "failed"


def test_a_signal_kept_before_an_ending_takes_a_wait_that_is_armed_after_it() -> None:
    steps = [
        {"id": "write", "effect": "idempotent_write", "needs": []},
        read("bad"),
        wait("w", needs=["bad"]),
    ]
    world = World({"steps": steps})
    world.signal("go", 1)
    finish(world, "write")
    granted = world.claim("bad")
    assert granted is not None
    world.fail(granted.attempt, "fatal")
    world.resume_with()
    finish(world, "bad")
    assert (world.execution.status, world.output("w")) == ("completed", 1)
