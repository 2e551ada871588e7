"""A parent with one child, in a few words: what the tests of children begin with."""

from __future__ import annotations

from typing import Any

import msgspec

from stepd.engine import commands as c
from tests.engine.family import Family
from tests.engine.world import World

READ = {"id": "look", "effect": "read_only", "retry": {"max_attempts": 1}}
WRITE = {"id": "write", "effect": "idempotent_write", "retry": {"max_attempts": 1}}


def family(child: list[dict[str, Any]], *, then: list[dict[str, Any]] | None = None, **parent: Any) -> Family:
    """A parent whose step `sub` has a child of these steps; the child's output is that of its first step."""
    call = {"id": "sub", "kind": "workflow", "workflow": "child", **parent.pop("step", {})}
    before = parent.pop("before", [])
    start = {name: parent.pop(name) for name in ("input", "correlation", "priority") if name in parent}
    output = {"$cel": f"steps.{child[0]['id']}.output"}
    ends = {"on_failure": parent.pop("child_on_failure", "fail")}
    definitions = {
        "parent": {"steps": [*before, call, *(then or [])], "output": {"$cel": "steps.sub.output"}, **parent},
        "child": {"steps": child, "output": output, **ends},
    }
    made = Family(definitions, **start)
    if not before:
        made.carry()
    return made


def do(world: World, output: Any = None) -> c.Granted:
    """Claims what there is and completes it."""
    granted = world.claim()
    assert granted is not None
    world.complete(granted.attempt, output)
    return granted


def error_of(world: World, step: str = "sub") -> dict[str, Any]:
    error = world.row(step).error
    assert error is not None
    decoded: dict[str, Any] = msgspec.json.decode(error)
    return decoded


def doubtful() -> Family:
    """A child whose write nobody knows of."""
    run = family([WRITE], child_on_failure="reconcile")
    granted = run.child.claim()
    assert granted is not None
    run.child.fail(granted.attempt, "fatal", "unknown")
    run.carry()
    return run
