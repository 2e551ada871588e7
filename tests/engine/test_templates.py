"""Templates: what is replaced, what stays as it was, and the place of each fault."""

import json
from typing import Any

import pytest

from stepd.engine.expressions import ExpressionFailed, References
from stepd.engine.templates import Template, compile_template
from stepd_protocol.problems import FieldFault
from tests.engine.environments import SCOPE, Absent, NotLoaded, Seen


def compiled(value: Any) -> Template:
    faults: list[FieldFault] = []
    template = compile_template(value, SCOPE, "/input", faults)
    assert not faults
    return template


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (None, None),
        ({"$cel": "input.a"}, 2**70),
        ({"z": 1.0, "a": {"$cel": "1 + 1"}}, {"z": 1.0, "a": 2}),
        ([{"$cel": "input"}, "x", []], [{"a": 2**70}, "x", []]),
        ({"deep": [{"er": {"$cel": "steps.fetch.output"}}]}, {"deep": [{"er": [1]}]}),
        ({"$cel": "input.a", "b": 1}, {"$cel": "input.a", "b": 1}),
        ("$cel", "$cel"),
        ({"$cel ": "input"}, {"$cel ": "input"}),
    ],
)
def test_what_a_template_gives(template: Any, expected: Any) -> None:
    assert json.dumps(compiled(template).render(Seen({"a": 2**70}, fetch=[1]))) == json.dumps(expected)


def test_it_knows_what_it_reads_and_whether_it_reads_at_all() -> None:
    template = compiled(
        {"a": {"$cel": "input.x"}, "b": [{"$cel": "steps.fetch.output"}, {"$cel": "steps.fetch.status"}]}
    )
    assert template.references == References(frozenset({"input"}), frozenset({"fetch"}), frozenset({"fetch"}))
    assert not template.constant
    assert compiled({"a": [1, {"b": None}]}).constant
    assert compiled({"a": [1]}).references == References()


def test_each_fault_has_its_place() -> None:
    faults: list[FieldFault] = []
    value = {"a/b~c": {"$cel": "1 +"}, "ok": {"$cel": "input"}, "list": [0, {"$cel": 5}, {"x": {"$cel": "nope"}}]}
    compile_template(value, SCOPE, "/steps/0/input", faults)
    assert [fault.path for fault in faults] == [
        "/steps/0/input/a~1b~0c/$cel",
        "/steps/0/input/list/1/$cel",
        "/steps/0/input/list/2/x/$cel",
    ]


def test_failures_and_what_the_environment_raises_come_through() -> None:
    with pytest.raises(ExpressionFailed, match=r"input\.nowhere"):
        compiled([{"$cel": "input.nowhere"}]).render(Seen({}))
    with pytest.raises(NotLoaded):
        compiled([{"$cel": "input.nowhere"}]).render(Absent())
