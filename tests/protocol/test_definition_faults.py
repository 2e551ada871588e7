"""Faults in a definition: each is refused at registration with a pointer to its place, and all of them at once."""

from typing import Any

import pytest

from tests.support.client import Http, Json
from tests.support.definitions import cel, read, safe_write, unique, write
from tests.support.flow import register

RULE = {"id": "r", "when": "true", "then": 1}


def one(step: Json, **fields: Json) -> dict[str, Json]:
    return {"steps": [step], **fields}


def two(first: Json, second: Json, **fields: Json) -> dict[str, Json]:
    return {"steps": [first, second], **fields}


def outcome(*rules: Json, **fields: Json) -> dict[str, Json]:
    return one(read(), outcome={"rules": list(rules), **fields})


FAULTS: dict[str, tuple[dict[str, Json], str]] = {
    "no steps field": ({"description": "x"}, ""),
    "steps no list": ({"steps": {}}, "/steps"),
    "a step no object": ({"steps": [5]}, "/steps/0"),
    "no id": ({"steps": [{"effect": "read_only"}]}, "/steps/0"),
    "a bad id": (one(read("a b")), "/steps/0/id"),
    "an id twice": (two(read("a"), read("a")), "/steps/1/id"),
    "no effect": ({"steps": [{"id": "a"}]}, "/steps/0"),
    "an unknown effect": (one({**read(), "effect": "harmless"}), "/steps/0/effect"),
    "an unknown kind": (one(read(kind="magic")), "/steps/0/kind"),
    "an unknown field": (one(read(retries=3)), "/steps/0"),
    "an unknown field above": (one(read(), color="red"), ""),
    "needs itself": (one(read("a", needs=["a"])), "/steps/0/needs"),
    "needs nobody": (two(read("a"), read("b", needs=["c"])), "/steps/1/needs"),
    "a cycle": (two(read("a", needs=["b"]), read("b", needs=["a"])), "/steps"),
    "needs no list": (one(read(needs="a")), "/steps/0/needs"),
    "a repeatable delivery of what may not be repeated": (one(write(delivery="at_least_once")), "/steps/0/delivery"),
    "an unknown delivery": (one(safe_write(delivery="exactly_once")), "/steps/0/delivery"),
    "no attempt": (one(read(retry={"max_attempts": 0})), "/steps/0/retry"),
    "1,001 attempts": (one(read(retry={"max_attempts": 1001})), "/steps/0/retry"),
    "half an attempt": (one(read(retry={"max_attempts": 1.5})), "/steps/0/retry"),
    "negative retry": (one(read(retry={"initial_seconds": -1})), "/steps/0/retry"),
    "an unknown field of retry": (one(read(retry={"attempts": 1})), "/steps/0/retry"),
    "a lease too short": (one(read(lease_seconds=0.04)), "/steps/0/lease_seconds"),
    "a lease too long": (one(read(lease_seconds=31_536_001)), "/steps/0/lease_seconds"),
    "a negative reclaim": (one(read(reclaim_seconds=-1)), "/steps/0/reclaim_seconds"),
    "a time-out of nothing": (one(read(timeout_seconds=0)), "/steps/0/timeout_seconds"),
    "a queue time-out of nothing": (one(read(queue_timeout_seconds=0)), "/steps/0/queue_timeout_seconds"),
    "a time-out as text": (one(read(timeout_seconds="5")), "/steps/0/timeout_seconds"),
    "an execution's time-out of nothing": (one(read(), timeout_seconds=0), "/timeout_seconds"),
    "a retention of nothing": (one(read(), retention_seconds=0), "/retention_seconds"),
    "a priority too high": (one(read(priority=101)), "/steps/0/priority"),
    "a priority too low": (one(read(priority=-101)), "/steps/0/priority"),
    "a broken condition": (one(read(when="1 +")), "/steps/0/when"),
    "a condition that is none": (one(read(when=5)), "/steps/0/when"),
    "an unknown variable": (one(read(when="weather == 'fine'")), "/steps/0/when"),
    "an unknown function": (one(read(when="frobnicate(input)")), "/steps/0/when"),
    "an unknown field of execution": (one(read(input=cel("execution.secret"))), "/steps/0/input"),
    "an unknown field of a step": (two(read("a"), read("b", input=cel("steps.a.fence"))), "/steps/1/input"),
    "names no ancestor": (two(read("a", when="steps.b.output == 1"), read("b")), "/steps/0/when"),
    "names itself": (one(read("a", input=cel("steps.a.output"))), "/steps/0/input"),
    "names a neighbour": (two(read("a"), read("b", needs=[], input=cel("steps.a.output"))), "/steps/1/input"),
    "names nobody": (one(read(input={"deep": [cel("steps.nobody.output")]})), "/steps/0/input"),
    "names nobody by brackets": (one(read(input=cel('steps["no-body"].output'))), "/steps/0/input"),
    "an expression that is no text": (one(read(input={"x": {"$cel": 5}})), "/steps/0/input"),
    "an expression too long": (one(read(when="true || " * 600 + "true")), "/steps/0/when"),
    "a schema that is none": (one(read(input_schema={"type": "sort of object"})), "/steps/0/input_schema"),
    "a schema that is a number": (one(read(output_schema=5)), "/steps/0/output_schema"),
    "an input schema above": (one(read(), input_schema={"type": 5}), "/input_schema"),
    "a state schema": (one(read(), state_schema={"minimum": "x"}), "/state_schema"),
    "catch without class": (one(read(catch=[{"value": 1}])), "/steps/0/catch/0"),
    "catch of a bad class": (one(read(catch=[{"class": "a b", "value": 1}])), "/steps/0/catch/0/class"),
    "catch with a broken value": (one(read(catch=[{"class": "*", "value": cel("1 +")}])), "/steps/0/catch/0/value"),
    "an unknown manual result": (one(read(manual_result="maybe")), "/steps/0/manual_result"),
    "an unknown on_failure": (one(read(), on_failure="explode"), "/on_failure"),
    "an unknown on_restart": (one(read(), on_restart="maybe"), "/on_restart"),
    "exclusive no bool": (one(read(), exclusive="yes"), "/exclusive"),
    "an unknown hit policy": (outcome(RULE, hit_policy="last"), "/outcome/hit_policy"),
    "a rule's broken condition": (outcome({**RULE, "when": "1 +"}), "/outcome/rules/0/when"),
    "a rule twice": (outcome(RULE, RULE), "/outcome/rules/1"),
    "a rule without then": (outcome({"id": "r", "when": "true"}), "/outcome/rules/0"),
    "a rule that names nobody": (outcome({**RULE, "when": "steps.x.output"}), "/outcome/rules/0/when"),
    "an update without a path": (one(read(), updates=[{"value": 1}]), "/updates/0"),
    "an update of no pointer": (one(read(), updates=[{"path": "label", "value": 1}]), "/updates/0/path"),
    "an update behind an array's last": (one(read(), updates=[{"path": "/l/-", "value": 1}]), "/updates/0/path"),
    "an update that names nobody": (
        one(read(), updates=[{"path": "/a", "value": cel("steps.x.output")}]),
        "/updates/0",
    ),
    "an output that names nobody": (one(read(), output={"a": cel("steps.x.output")}), "/output"),
}


def lies_at(path: str, place: str) -> bool:
    return path == place or path.startswith(f"{place}/")


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_is_refused_with_its_place(http: Http, kind: str) -> None:
    definition, place = FAULTS[kind]
    faults = register(http, unique(), definition).expect_faults(422, "invalid_definition", "invalid_request")
    assert any(lies_at(path, place) for path in faults), f"{place} is not among {faults}"


def test_all_faults_are_named_at_once(http: Http) -> None:
    definition: dict[str, Any] = {
        "steps": [
            read("a", when="1 +"),
            read("b", input=cel("steps.nobody.output"), needs=["c"]),
            write("d", delivery="at_least_once"),
            read("a"),
        ],
        "output": cel("steps.nowhere.output"),
        "outcome": {"rules": [{**RULE, "when": "steps.x.output"}]},
    }
    faults = register(http, unique(), definition).expect_faults(422, "invalid_definition")
    for place in (
        "/steps/0/when",
        "/steps/1/input",
        "/steps/1/needs",
        "/steps/2/delivery",
        "/steps/3/id",
        "/output",
        "/outcome/rules/0/when",
    ):
        assert any(lies_at(path, place) for path in faults), f"{place} is not among {faults}"


def test_faults_of_form_are_named_at_once_too(http: Http) -> None:
    definition = {"steps": [read("a", priority=1000), read("b", retry={"max_attempts": 0})], "on_failure": "explode"}
    faults = register(http, unique(), definition).expect_faults(422, "invalid_definition", "invalid_request")
    for place in ("/steps/0/priority", "/steps/1/retry", "/on_failure"):
        assert any(lies_at(path, place) for path in faults), f"{place} is not among {faults}"


def test_pointers_are_escaped(http: Http) -> None:
    template = {"a/b~c": cel("1 +")}
    faults = register(http, unique(), one(read(input=template))).expect_faults(422, "invalid_definition")
    assert any(path.startswith("/steps/0/input/a~1b~0c") for path in faults), faults


def test_a_refused_definition_leaves_nothing(http: Http) -> None:
    name = unique()
    register(http, name, one(read(when="1 +"))).expect_problem(422, "invalid_definition")
    http.post("/v1/executions", {"workflow": name}).expect_problem(404, "not_found")


def test_an_expression_of_4096_characters_is_accepted(http: Http) -> None:
    expression = "true || " * 511 + "    true"
    assert len(expression) <= 4096
    assert register(http, unique(), one(read(when=expression.rjust(4096)))).status == 201


@pytest.mark.parametrize(
    "expression",
    [
        "input.a.b == execution.id + execution.correlation + string(execution.created_at)",
        "state.x > 1 && has(input.y)",
        "steps.a.status == 'skipped' || steps.a.output == null",
        'steps["a"].output in [1, 2]',
        "input.list.exists(x, x > 1)",
        "size(input.list.map(x, x * 2)) == 3",
        "'steps.nobody' == input.text",
        'r"\\d" == "steps.nobody.output"',
    ],
)
def test_what_may_be_written_is_accepted(http: Http, expression: str) -> None:
    answer = register(http, unique(), two(read("a"), read("b", when=expression)))
    assert answer.status == 201, str(answer)


@pytest.mark.parametrize(
    "expression",
    [
        "[1, 2].map(x, [1, 2].map(y, x + y)) == []",
        "input.a.all(x, input.b.exists(y, y == x))",
        f"{list(range(1001))}.exists(x, x == 1)",
    ],
)
def test_what_could_hold_the_daemon_is_refused(http: Http, expression: str) -> None:
    faults = register(http, unique(), one(read(when=expression))).expect_faults(422, "invalid_definition")
    assert "/steps/0/when" in faults
