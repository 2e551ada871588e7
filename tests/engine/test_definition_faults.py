"""Faults of definitions, each with its place, all of them at once."""

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepd.engine.canonical import encode
from stepd.engine.definition import Compiled, compile_definition
from stepd_protocol.limits import Limits
from tests.engine.definitions import LIMITS, faults_of, read, write

RULE = {"id": "r", "when": "true", "then": 1}


def one(step: Any, **fields: Any) -> dict[str, Any]:
    return {"steps": [step], **fields}


def outcome(*rules: Any, **fields: Any) -> dict[str, Any]:
    return one(read(), outcome={"rules": list(rules), **fields})


FORM: list[tuple[Any, str]] = [
    ([], ""),
    (5, ""),
    ({}, "/steps"),
    ({"steps": []}, "/steps"),
    ({"steps": {}}, "/steps"),
    ({"steps": [5]}, "/steps/0"),
    (one({"effect": "read_only"}), "/steps/0/id"),
    (one(read("a b")), "/steps/0/id"),
    (one(read("a\n")), "/steps/0/id"),
    (one(read("x" * 129)), "/steps/0/id"),
    (one({"id": 5, "effect": "read_only"}), "/steps/0/id"),
    (one(read(kind="magic")), "/steps/0/kind"),
    (one(read(kind=["task"])), "/steps/0/kind"),
    (one(read(colour="red")), "/steps/0/colour"),
    (one({**read(), "a/b": 1}), "/steps/0/a~1b"),
    (one(read(), colour="red"), "/colour"),
    (one(read(), version="a b"), "/version"),
    (one(read(), description=5), "/description"),
    (one(read(), exclusive=1), "/exclusive"),
    (one(read(), on_failure="explode"), "/on_failure"),
    (one(read(), on_restart=None), "/on_restart"),
    (one(read(), timeout_seconds=0), "/timeout_seconds"),
    (one(read(), retention_seconds=True), "/retention_seconds"),
    (one(read(), input_schema={"type": 5}), "/input_schema"),
    (one(read(), state_schema=5), "/state_schema"),
    (one(read(), output={"a": {"$cel": "1 +"}}), "/output/a/$cel"),
    (one({"id": "a"}), "/steps/0/effect"),
    (one({"id": "a", "effect": "harmless"}), "/steps/0/effect"),
    (one(write(delivery="at_least_once")), "/steps/0/delivery"),
    (one(read(delivery="exactly_once")), "/steps/0/delivery"),
    (one(read(retry=5)), "/steps/0/retry"),
    (one(read(retry={"attempts": 1})), "/steps/0/retry/attempts"),
    (one(read(retry={"max_attempts": 0})), "/steps/0/retry/max_attempts"),
    (one(read(retry={"max_attempts": 1001})), "/steps/0/retry/max_attempts"),
    (one(read(retry={"max_attempts": 1.5})), "/steps/0/retry/max_attempts"),
    (one(read(retry={"max_attempts": True})), "/steps/0/retry/max_attempts"),
    (one(read(retry={"max_attempts": 10**400})), "/steps/0/retry/max_attempts"),
    (one(read(retry={"initial_seconds": 0.01})), "/steps/0/retry/initial_seconds"),
    (one(read(retry={"initial_seconds": -1})), "/steps/0/retry/initial_seconds"),
    (one(read(retry={"factor": 0.5})), "/steps/0/retry/factor"),
    (one(read(retry={"factor": 1001})), "/steps/0/retry/factor"),
    (one(read(retry={"max_seconds": 0})), "/steps/0/retry/max_seconds"),
    (one(read(lease_seconds=0.04)), "/steps/0/lease_seconds"),
    (one(read(lease_seconds=31_536_001)), "/steps/0/lease_seconds"),
    (one(read(lease_seconds=None)), "/steps/0/lease_seconds"),
    (one(read(reclaim_seconds=-1)), "/steps/0/reclaim_seconds"),
    (one(read(reclaim_seconds=0.01)), "/steps/0/reclaim_seconds"),
    (one(read(timeout_seconds="5")), "/steps/0/timeout_seconds"),
    (one(read(queue_timeout_seconds=0)), "/steps/0/queue_timeout_seconds"),
    (one(read(priority=101)), "/steps/0/priority"),
    (one(read(priority=0.5)), "/steps/0/priority"),
    (one(read(manual_result="maybe")), "/steps/0/manual_result"),
    (one(read(when=True)), "/steps/0/when"),
    (one(read(when="1")), "/steps/0/when"),
    (one(read(when="true || " * 600 + "true")), "/steps/0/when"),
    (one(read(when="item == 1")), "/steps/0/when"),
    (one(read(input=[{"$cel": "index"}])), "/steps/0/input/0/$cel"),
    (one(read(input={"$cel": 5})), "/steps/0/input/$cel"),
    (one(read(input_schema={"type": "sort"})), "/steps/0/input_schema"),
    (one(read(output_schema={"$ref": "https://example.com/x"})), "/steps/0/output_schema"),
    (one(read(catch={})), "/steps/0/catch"),
    (one(read(catch=[5])), "/steps/0/catch/0"),
    (one(read(catch=[{"value": 1}])), "/steps/0/catch/0/class"),
    (one(read(catch=[{"class": "a b"}])), "/steps/0/catch/0/class"),
    (one(read(catch=[{"class": "a", "values": 1}])), "/steps/0/catch/0/values"),
    (one(read(catch=[{"class": "a", "value": {"$cel": "nope"}}])), "/steps/0/catch/0/value/$cel"),
    (one(read(), outcome=[]), "/outcome"),
    (one(read(), outcome={}), "/outcome/rules"),
    (one(read(), outcome={"id": "o", "rules": [RULE]}), "/outcome/id"),
    (outcome(), "/outcome/rules"),
    (outcome(5), "/outcome/rules/0"),
    (outcome(RULE, hit_policy="last"), "/outcome/hit_policy"),
    (outcome({**RULE, "when": "1 +"}), "/outcome/rules/0/when"),
    (outcome({**RULE, "id": "a b"}), "/outcome/rules/0/id"),
    (outcome({"when": "true"}), "/outcome/rules/0/then"),
    (outcome({**RULE, "where": 1}), "/outcome/rules/0/where"),
    (outcome(RULE, RULE), "/outcome/rules/1/id"),
    (outcome(RULE, default={"$cel": "nope"}), "/outcome/default/$cel"),
    (one(read(), updates={}), "/updates"),
    (one(read(), updates=[{"path": "/a"}]), "/updates/0/value"),
    (one(read(), updates=[{"value": 1}]), "/updates/0/path"),
    (one(read(), updates=[{"path": "a", "value": 1}]), "/updates/0/path"),
    (one(read(), updates=[{"path": "/a/-", "value": 1}]), "/updates/0/path"),
    (one(read(), updates=[{"path": 5, "value": 1}]), "/updates/0/path"),
    (one(read(), updates=[{"path": "/a", "value": 1, "when": "true"}]), "/updates/0/when"),
    (one(read(), updates=[{"path": "/a", "value": {"$cel": "steps.x.output"}}]), "/updates/0/value/$cel"),
]


@pytest.mark.parametrize(
    ("definition", "place"), FORM, ids=[f"{number}-{place}" for number, (_, place) in enumerate(FORM)]
)
def test_a_fault_has_its_place(definition: Any, place: str) -> None:
    assert list(faults_of(definition)) == [place]


GRAPH: list[tuple[list[Any], str, str]] = [
    ([read("a"), read("a")], "/steps/1/id", "step 0 has the id a too"),
    ([read("a", needs=["a"])], "/steps/0/needs", "cannot need itself"),
    ([read("a"), read("b", needs=["c"])], "/steps/1/needs", "there is no step c"),
    ([read("a"), read("b", needs=["a", "a"])], "/steps/1/needs", "a stands twice"),
    ([read("a"), read("b", needs="a")], "/steps/1/needs", "no list of names"),
    ([read("a"), read("b", needs=[5])], "/steps/1/needs/0", "no name"),
    ([read("a", needs=["c"]), read("b"), read("c")], "/steps/0/needs", "a → c → b → a"),
    ([read("a"), read("b", when="steps.c.output == 1"), read("c")], "/steps/1/when", "does not come before"),
    ([read("a"), read("b", needs=[], when="steps.a.output == 1")], "/steps/1/when", "does not come before"),
    ([read("a", when="steps.a.output == 1")], "/steps/0/when", "does not come before"),
    ([read("a", compensate="b")], "/steps/0/compensate", "there is no step b"),
    ([read("a", compensate="a")], "/steps/0/compensate", "cannot undo itself"),
    ([read("a", compensate="c"), read("b", compensate="c"), read("c")], "/steps/2", "a and b name it"),
    ([read("a", compensate="b"), {"id": "b", "kind": "wait", "event": "e"}], "/steps/1/kind", "so it is a task"),
    ([read("a", compensate="b"), read("b", needs=["a"])], "/steps/1/needs", "outside the graph"),
    ([read("a", compensate="b"), read("b", when="true")], "/steps/1/when", "outside the graph"),
    ([read("a", compensate="b"), read("b", foreach="[1]")], "/steps/1/foreach", "outside the graph"),
    ([read("a", compensate="b"), read("b"), read("c", needs=["b"])], "/steps/2/needs", "nothing can need it"),
    ([read("a", compensate="b"), read("b"), read("c", when="steps.b.output == 1")], "/steps/2/when", "does not come"),
]


@pytest.mark.parametrize(("steps", "place", "message"), GRAPH)
def test_a_fault_between_steps_has_its_place(steps: list[Any], place: str, message: str) -> None:
    faults = faults_of({"steps": steps})
    assert list(faults) == [place]
    assert message in faults[place]


def test_each_cycle_is_named() -> None:
    steps = [read("a", needs=["b"]), read("b", needs=["a"]), read("c", needs=["d"]), read("d", needs=["c"]), read("e")]
    assert {path: message.split(": ")[1] for path, message in faults_of({"steps": steps}).items()} == {
        "/steps/0/needs": "a → b → a",
        "/steps/2/needs": "c → d → c",
    }


KINDS: list[tuple[dict[str, Any], str]] = [
    ({"kind": "wait"}, "/steps/1/event"),
    ({"kind": "wait", "event": "a b"}, "/steps/1/event"),
    ({"kind": "wait", "event": "e", "effect": "read_only"}, "/steps/1/effect"),
    ({"kind": "wait", "event": "e", "input": 1}, "/steps/1/input"),
    ({"kind": "wait", "event": "e", "payload_schema": 5}, "/steps/1/payload_schema"),
    ({"kind": "wait", "event": "e", "on_timeout": "explode"}, "/steps/1/on_timeout"),
    ({"kind": "wait", "event": "e", "timeout_seconds": 0}, "/steps/1/timeout_seconds"),
    ({"kind": "sleep"}, "/steps/1"),
    ({"kind": "sleep", "seconds": 1, "until": "2026-11-30T12:00:00Z"}, "/steps/1"),
    ({"kind": "sleep", "seconds": {"$cel": "1 +"}}, "/steps/1/seconds/$cel"),
    ({"kind": "sleep", "until": "2026-11-30T12:00:00Z", "timeout_seconds": 5}, "/steps/1/timeout_seconds"),
    ({"kind": "sleep", "until": 1}, "/steps/1/until"),
    ({"kind": "sleep", "until": "2026-11-30T12:00:00"}, "/steps/1/until"),
    ({"kind": "sleep", "seconds": 0}, "/steps/1/seconds"),
    ({"kind": "sleep", "seconds": "1"}, "/steps/1/seconds"),
    ({"kind": "sleep", "seconds": None}, "/steps/1/seconds"),
    ({"kind": "decision"}, "/steps/1/rules"),
    ({"kind": "decision", "rules": [{"when": "nope", "then": 1}]}, "/steps/1/rules/0/when"),
    ({"kind": "decision", "rules": [RULE], "retry": {}}, "/steps/1/retry"),
    ({"kind": "workflow"}, "/steps/1/workflow"),
    ({"kind": "workflow", "workflow": "a b"}, "/steps/1/workflow"),
    ({"kind": "workflow", "workflow": "w", "version": "a b"}, "/steps/1/version"),
    ({"kind": "workflow", "workflow": "w", "delivery": "at_least_once"}, "/steps/1/delivery"),
    ({"kind": "workflow", "workflow": "w", "repeat": {"max": 2}}, "/steps/1/repeat/until"),
    ({"effect": "read_only", "foreach": "{'a': 1}"}, "/steps/1/foreach"),
    ({"effect": "read_only", "foreach": 5}, "/steps/1/foreach"),
    ({"effect": "read_only", "foreach": "item"}, "/steps/1/foreach"),
    ({"effect": "read_only", "foreach": "[1]", "when": "item == 1"}, "/steps/1/when"),
    ({"effect": "read_only", "foreach": "[1]", "max_parallel": 0}, "/steps/1/max_parallel"),
    ({"effect": "read_only", "max_parallel": 2}, "/steps/1/max_parallel"),
    ({"effect": "read_only", "repeat": 5}, "/steps/1/repeat"),
    ({"effect": "read_only", "repeat": {"until": "last.x == 1"}}, "/steps/1/repeat/max"),
    ({"effect": "read_only", "repeat": {"until": "1", "max": 1}}, "/steps/1/repeat/until"),
    ({"effect": "read_only", "repeat": {"until": "true", "max": 10_001}}, "/steps/1/repeat/max"),
    (
        {"effect": "read_only", "repeat": {"until": "true", "max": 1, "next": {"$cel": "item"}}},
        "/steps/1/repeat/next/$cel",
    ),
    ({"effect": "read_only", "repeat": {"until": "true", "max": 1, "often": 1}}, "/steps/1/repeat/often"),
    ({"effect": "read_only", "repeat": {"until": "true", "max": 1}, "foreach": "[1]"}, "/steps/1/repeat"),
    ({"effect": "read_only", "event": "e"}, "/steps/1/event"),
]


@pytest.mark.parametrize(("step", "place"), KINDS)
def test_steps_of_every_kind_are_checked(step: dict[str, Any], place: str) -> None:
    assert list(faults_of({"steps": [read("a"), {"id": "b", **step}]})) == [place]


def test_all_faults_are_named_at_once() -> None:
    definition = {
        "steps": [
            read("a", when="1 +", colour="red"),
            read("b", input={"x": [{"$cel": "steps.nobody.output"}]}, needs=["c"]),
            write("d", delivery="at_least_once", retry={"max_attempts": 0}),
            read("a"),
        ],
        "output": {"$cel": "steps.nowhere.output"},
        "outcome": {"rules": [{**RULE, "when": "steps.x.output"}]},
        "on_failure": "explode",
    }
    assert set(faults_of(definition)) == {
        "/steps/0/when",
        "/steps/0/colour",
        "/steps/1/input/x/0/$cel",
        "/steps/1/needs",
        "/steps/2/delivery",
        "/steps/2/retry/max_attempts",
        "/steps/3/id",
        "/output/$cel",
        "/outcome/rules/0/when",
        "/on_failure",
    }


@pytest.mark.parametrize(
    ("definition", "limits", "place"),
    [
        (one(read(input="x" * 300_000)), LIMITS, ""),
        ({"steps": [read(f"s{place}") for place in range(501)]}, LIMITS, "/steps"),
        (one(read()), Limits(definition_bytes=10), ""),
        ({"steps": [read("a"), read("b")]}, Limits(definition_steps=1), "/steps"),
        (one(read(input=[{"$cel": "1"}] * 3_001)), LIMITS, ""),
    ],
)
def test_what_is_too_large(definition: Any, limits: Limits, place: str) -> None:
    faults = compile_definition("flow", encode(definition), limits)
    assert isinstance(faults, list)
    assert [fault.path for fault in faults] == [place]


SOUND: dict[str, Any] = {
    "steps": [
        read("a", retry={"max_attempts": 2}, catch=[{"class": "x", "value": {"$cel": "input.a"}}], needs=[]),
        read("b", when="steps.a.output.x", input={"x": [{"$cel": "steps.a.output"}]}, input_schema={"type": "object"}),
    ],
    "outcome": {"hit_policy": "any", "rules": [RULE], "default": 1},
    "updates": [{"path": "/a/b", "value": {"$cel": "state.a"}}],
    "output": {"$cel": "steps.b.output"},
}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda below: st.lists(below, max_size=2) | st.dictionaries(st.text(max_size=5), below, max_size=2),
    max_leaves=4,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in below for place in places(item, (*path, key)))]


@settings(deadline=None)
@given(st.sampled_from(places(SOUND)[1:]), ANYTHING | st.sampled_from(["$cel", "a", "b", "task", "wait"]))
def test_anything_anywhere_gives_a_definition_or_faults_that_point_into_it(place: tuple[Any, ...], value: Any) -> None:
    definition = deepcopy(SOUND)
    parent = definition
    for key in place[:-1]:
        parent = parent[key]
    parent[place[-1]] = value
    outcome = compile_definition("flow", encode(definition), LIMITS)
    if isinstance(outcome, Compiled):
        assert json.loads(outcome.raw) == definition
        return
    assert outcome
    for fault in outcome:
        assert fault.path == "" or fault.path.startswith("/")
        assert 0 < len(fault.message) < 2_000
