"""Expressions: what they give, what they see, and what is refused when they are compiled or evaluated."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepd.engine.expressions import ExpressionFailed, ExpressionFault, ExpressionScope, References, compile_expression
from tests.engine.environments import SCOPE, Absent, NotLoaded, Seen

INPUT = {
    "x": 5,
    "name": "abc",
    "none": None,
    "list": [1, 2, {"k": 5}],
    "object": {"b": 1, "a": 2},
    "huge": 2**70,
    "nul": "x\0y",
    "a-b": 1,
    "amount": 1.0,
    "deep": {"huge": {"k": 2**64}, "ok": 1, "list": [2**64, {"k": 7}]},
    "items": [{"id": 1, "ok": True}, {"id": 2, "ok": False}],
    "groups": {"one": [1, 2], "two": {"a": 1}},
}


def seen(source: str, **given: Any) -> Any:
    environment = Seen(given.pop("input", INPUT), given.pop("state", {"n": 1}), **given)
    return compile_expression(source, SCOPE).evaluate(environment)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("input", INPUT),
        ("input.huge", 2**70),
        ("input.nul", "x\0y"),
        ("input['a-b']", 1),
        ('input["a-b"]', 1),
        ("input.`a-b`", 1),
        ("input.amount", 1.0),
        ("input.list[2].k", 5),
        ("input.list[0]", 1),
        ("input.none", None),
        ("  input . object\n", {"b": 1, "a": 2}),
        ("(input).object['b']", 1),
        ("state.n", 1),
        ("steps.fetch.output.k[1]", 2**64),
        ("steps['fetch-1'].output", None),
        ("steps.fetch.status", "succeeded"),
        ('steps["fetch-1"].status', "skipped"),
        ("execution.id", "e-1"),
        ("execution.correlation", None),
        ("execution", {"id": "e-1", "correlation": None, "created_at": "2026-11-30T12:00:00.000Z"}),
    ],
)
def test_a_value_that_is_only_selected_passes_unchanged(source: str, expected: Any) -> None:
    value = seen(source, fetch={"k": [1, 2**64]})
    assert json.dumps(value) == json.dumps(expected)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("input.x + 1", 6),
        ("input.list[2].k * 2", 10),
        ("input.deep.ok + 1", 2),
        ("input.deep.list[1].k + 1", 8),
        ("input.name + 'd'", "abcd"),
        ("size('é😀')", 2),
        ("size(input.list)", 3),
        ("input.amount", 1.0),
        ("input.amount + 1.0", 2.0),
        ("-input.x", -5),
        ("input.x > 3 && input.name == 'abc'", True),
        ("input.x > 3 ? input.object : input.list", {"a": 2, "b": 1}),
        ("steps.fetch.status == 'succeeded'", True),
        ("steps['fetch-1'].output == null", True),
        ("has(input.x)", True),
        ("has(input.y)", False),
        ("has(input.none)", True),
        ("has(input.deep.huge.k)", True),
        ("has(steps.fetch.output.k)", True),
        ("'x' in input.object", False),
        ("2 in input.list", True),
        ("{'b': 1, 'a': {'d': 1, 'c': 2}}", {"a": {"c": 2, "d": 1}, "b": 1}),
        ("input.items.filter(i, i.ok)", [{"id": 1, "ok": True}]),
        ("input.items.map(i, i.id + state.n)", [2, 3]),
        ("input.items.map(input, input.id)", [1, 2]),
        ("input.items.filter(i, i.ok).map(i, i.id)", [1]),
        ("input.object.all(name, name != '')", True),
        ("input.object.exists(name, name == 'a')", True),
        ("input.list.exists_one(i, i == 1)", True),
        ("dyn(input.groups['o' + 'ne']).map(i, i)", [1, 2]),
        ("dyn(input['items']).map(i, i.id)", [1, 2]),
        ("[input.list, []][state.n - 1].map(i, i)", [1, 2, {"k": 5}]),
        ("(input.list + [1]).map(i, i)", [1, 2, {"k": 5}, 1]),
        ("input.name.matches('^[a-c]{3}$')", True),
        ("input.name.contains('b')", True),
        ("timestamp('2026-01-01T00:00:00Z')", "2026-01-01T00:00:00.000Z"),
        ("timestamp('2026-01-01T01:00:00.1234+01:00')", "2026-01-01T00:00:00.123400Z"),
        ("timestamp('2026-07-01T00:00:00Z').getHours('Europe/Berlin')", 2),
        ("timestamp(execution.created_at) + duration('90s')", "2026-11-30T12:01:30.000Z"),
        ("duration('90s')", 90),
        ("duration('1.5s')", 1.5),
        ("18446744073709551615u", 2**64 - 1),
        ("'a\\u0000b'", "a\0b"),
        ("1 // a comment with input.nowhere", 1),
        ("true ? 1 : input.nowhere.k", 1),
    ],
)
def test_a_computed_value(source: str, expected: Any) -> None:
    value = seen(source, fetch={"k": 1})
    assert json.dumps(value) == json.dumps(expected)
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("input.nowhere", "input.nowhere is not there"),
        ("input.none.k", "input.none.k is not there"),
        ("input.list[3]", r"input.list\[3\] is not there"),
        ("input.list[-1]", r"input.list\[-1\] is not there"),
        ("input.list.k", "input.list.k is not there"),
        ("input.object[0]", r"input.object\[0\] is not there"),
        ("steps['fetch-1'].output.k", r"steps\[\"fetch-1\"\].output.k is not there"),
        ("input.nowhere + 1", "nowhere"),
        ("input.list[7] + 1", "index=7"),
        ("has(input.none.k)", "SELECT"),
        ("input.x + 'a'", "overload"),
        ("input.x + 9223372036854775807", "overflow"),
        ("1 / 0", "zero"),
        ("1.0 / 0.0", "inf"),
        ("double('NaN')", "nan"),
        ("input.huge + 1", "input.huge holds an integer beyond 64 bits"),
        ("input.deep == null", "input.deep holds an integer beyond 64 bits"),
        ("true ? 1 : input.huge", "beyond 64 bits"),
        ("input.nul + 'x'", "input.nul holds a text with the character U\\+0000"),
        ("b'a'", "bytes"),
        ("int", "a type"),
        ("[type(1)]", "a type"),
        ("{1: 2}", "keys that are not text"),
        ("input.object.map(k, k)", "no order"),
        ("dyn(input.groups['t' + 'wo']).map(k, k)", "no order"),
        ("(input.x > 1 ? input.object : input.list).filter(k, true)", "no order"),
    ],
)
def test_what_cannot_be_evaluated_names_the_expression_and_why(source: str, reason: str) -> None:
    with pytest.raises(ExpressionFailed, match=reason) as failed:
        seen(source)
    assert str(failed.value).startswith(f"{source}: ")


def test_a_long_expression_is_named_by_its_beginning() -> None:
    source = "input.nowhere == '" + "x" * 1_000 + "'"
    with pytest.raises(ExpressionFailed) as failed:
        seen(source)
    assert len(str(failed.value)) < 600


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("", "line 1, column 1: Syntax error"),
        ("1 +", "line 1, column 4: Syntax error"),
        ("[1,\n  nope]", "line 2, column 3: undeclared reference to 'nope'"),
        ("frobnicate(input)", "undeclared reference to 'frobnicate'"),
        ("'a' + 1", "line 1, column 5: found no matching overload"),
        ("item", "line 1, column 1: item is not known here"),
        ("'é😀' +\n item.k", "line 2, column 2: item is not known here"),
        ("last.k", "last is not known here"),
        ("steps", "one step at a time"),
        ("steps[input.x].output", "one step at a time"),
        ("steps.fetch", "only output and status"),
        ("steps.fetch.fence", "only output and status"),
        ("has(steps.fetch.output)", "only output and status"),
        ("steps.nobody.output", 'there is no step "nobody"'),
        ("1 + steps['no-body'].output", 'line 1, column 5: there is no step "no-body"'),
        ("steps.later.output", 'step "later" does not come before this one'),
        ("execution.secret", "execution has no secret"),
        ("google.protobuf.Struct{}", "google.protobuf.Struct is not supported"),
        ("input.?x", "unsupported syntax"),
        ("9223372036854775808", "invalid int literal"),
        ('"\\ud800"', "Illegal escape"),
        ("(" * 40 + "1" + ")" * 40, "recursion"),
        ("+".join(["1"] * 40), "recursion"),
        ("1" * 4_097, "4097 characters, of which an expression has at most 4096"),
        ("input['items'].map(i, i)", r"cannot be the range of a comprehension .*: write dyn\(…\) around it"),
        ("[[1]].map(x, x.map(y, y))", "cannot stand in the body of another"),
        ("[1].all(x, [2].exists(y, y == x))", "cannot stand in the body of another"),
        ("{'a': 1}.map(k, k)", "no order"),
        ("input.name.matches(input.name)", "pattern as a text written in the expression"),
        ("input.name.matches('(')", "invalid regular expression"),
        ("input.name.matches('[a-z]{600}{2}')", "with its repetitions written out"),
        (f"input.name.matches('{'a' * 257}')", "at most 256 characters"),
        ("timestamp(0).getHours(input.name)", "time zone as a text written in the expression"),
    ],
)
def test_what_cannot_be_compiled(source: str, reason: str) -> None:
    with pytest.raises(ExpressionFault, match=reason) as fault:
        compile_expression(source, SCOPE)
    assert len(str(fault.value)) < 1_000


def test_4096_characters_are_not_too_many() -> None:
    assert seen("1" + " " * 4_095) == 1


@pytest.mark.parametrize(
    ("source", "references"),
    [
        ("1", References()),
        ("input.a", References(roots=frozenset({"input"}))),
        ("state.a + 1", References(roots=frozenset({"state"}))),
        ("execution.id", References()),
        ("steps.fetch.output.k", References(outputs=frozenset({"fetch"}))),
        ("steps['fetch-1'].status == 'skipped'", References(statuses=frozenset({"fetch-1"}))),
        (
            "has(input.a) ? steps.fetch.output : {'x': [state.b, steps.fetch.status]}",
            References(frozenset({"input", "state"}), frozenset({"fetch"}), frozenset({"fetch"})),
        ),
        ("[1].map(input, input)", References()),
        ("[1].map(x, x + input.a)", References(roots=frozenset({"input"}))),
    ],
)
def test_references_say_what_is_read(source: str, references: References) -> None:
    assert compile_expression(source, SCOPE).references == references


def test_no_more_is_looked_at_than_what_is_named() -> None:
    environment = Seen({"a": 1}, fetch={"k": 1})
    compile_expression("steps.fetch.output.k + 1", SCOPE).evaluate(environment)
    assert environment.looked_at == ["fetch.output"]


@pytest.mark.parametrize("source", ["input.a", "input.a + 1", "true || steps.fetch.output == 1"])
def test_what_the_environment_raises_passes_through(source: str) -> None:
    with pytest.raises(NotLoaded):
        compile_expression(source, SCOPE).evaluate(Absent())


@pytest.mark.parametrize(
    ("roots", "source", "value"), [("item", "item.k", 1), ("index", "index + 1", 4), ("last", "last.k", 2)]
)
def test_roots_of_repeated_steps(roots: str, source: str, value: int) -> None:
    scope = ExpressionScope(frozenset({roots}), frozenset(), frozenset())

    class Repeated(Seen):
        def root(self, name: str) -> Any:
            return {"item": {"k": 1}, "index": 3, "last": {"k": 2}}[name]

    assert compile_expression(source, scope).evaluate(Repeated()) == value


@pytest.mark.parametrize(
    ("wanted", "source", "fault"),
    [
        ("boolean", "1 + 1", "of the type int, where a boolean is wanted"),
        ("boolean", "'true'", "of the type string, where a boolean is wanted"),
        ("list", "{'a': 1}", "where a list is wanted"),
    ],
)
def test_a_type_that_is_not_wanted_is_a_fault(wanted: Any, source: str, fault: str) -> None:
    with pytest.raises(ExpressionFault, match=fault):
        compile_expression(source, SCOPE, wanted)


@pytest.mark.parametrize(
    ("wanted", "source"),
    [("boolean", "input.x"), ("boolean", "dyn(1)"), ("list", "input.object"), ("list", "input.none")],
)
def test_a_value_that_is_not_wanted_fails(wanted: Any, source: str) -> None:
    expression = compile_expression(source, SCOPE, wanted)
    with pytest.raises(ExpressionFailed, match=f"{wanted}"):
        expression.evaluate(Seen(INPUT))


def test_a_condition_and_a_list_that_are_wanted() -> None:
    assert compile_expression("input.x == 5", SCOPE, "boolean").evaluate(Seen(INPUT)) is True
    assert compile_expression("input.list", SCOPE, "list").evaluate(Seen(INPUT)) == INPUT["list"]


KEYS = st.text(max_size=3)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(KEYS, below, max_size=3),
    max_leaves=8,
)


def walk(value: Any, keys: list[str | int]) -> list[Any]:
    """The value below these keys, in a list; an empty list where there is none."""
    for key in keys:
        match value, key:
            case dict(), str() if key in value:
                value = value[key]
            case list(), int() if key < len(value):
                value = value[key]
            case _:
                return []
    return [value]


def quoted(key: str | int) -> str:
    """A key as CEL writes it."""
    if isinstance(key, int):
        return str(key)
    return "'" + "".join(f"\\U{ord(character):08x}" for character in key) + "'"


@settings(deadline=None)
@given(VALUES, st.lists(KEYS | st.integers(0, 2), max_size=3))
def test_selection_agrees_with_a_walk(value: Any, keys: list[str | int]) -> None:
    expression = compile_expression("input" + "".join(f"[{quoted(key)}]" for key in keys), SCOPE)
    found = walk(value, keys)
    if found:
        assert json.dumps(expression.evaluate(Seen(value))) == json.dumps(found[0])
    else:
        with pytest.raises(ExpressionFailed):
            expression.evaluate(Seen(value))


def is_fit(value: Any) -> bool:
    """Whether the runtime can take the value unharmed."""
    match value:
        case str():
            return "\0" not in value
        case int():
            return -(2**63) <= value < 2**63
        case list():
            return all(map(is_fit, value))
        case dict():
            return all(map(is_fit, [*value, *value.values()]))
        case _:
            return True


@settings(deadline=None)
@given(VALUES)
def test_what_goes_through_the_runtime_comes_back_equal_or_is_refused(value: Any) -> None:
    expression = compile_expression("[input][0]", SCOPE)
    if is_fit(value):
        assert json.dumps(expression.evaluate(Seen(value)), sort_keys=True) == json.dumps(value, sort_keys=True)
    else:
        with pytest.raises(ExpressionFailed, match=r"beyond 64 bits|U\+0000"):
            expression.evaluate(Seen(value))
