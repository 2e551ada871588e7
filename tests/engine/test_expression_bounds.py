"""No expression can hold the daemon: its work is bounded before the runtime begins, which cannot be interrupted.

The dearest evaluations found that are still let through take 0.15 to 0.2 s of a core: `[input, input]` with an input
of 256 KiB of `{"0":{"a":0},…}`, five times `input.map(x, x)` over a thousand items, and `{'a': input}` with a list of
`{"a":{"b":{}}}`. Without the bound `input.all(x, state == state)` took 26 s, and one pattern 9 s.
"""

import json
from typing import Any

import pytest

from stepd.engine.cel_bounds import WORK_MAX, Allowance
from stepd.engine.cel_fences import pattern_atoms
from stepd.engine.cel_values import Unfit
from stepd.engine.expressions import ExpressionFailed, compile_expression
from stepd.engine.templates import compile_template
from tests.engine.environments import SCOPE, Seen

LIMIT = 256 * 1024
TOO_MUCH = "more work than"


def filled(item: Any) -> list[Any]:
    """A list of as many such items as an input of 256 KiB has room for."""
    return [item] * (LIMIT // (len(json.dumps(item, separators=(",", ":"))) + 1))


def repeated(joint: str, part: str) -> str:
    """As much of an expression as 4,096 characters hold."""
    return joint.join([part] * ((4_096 + len(joint)) // (len(part) + len(joint))))


THOUSAND = list(range(1_000))
ONES = filled(1)
NESTED = filled({"a": {"b": {}}})
TEXT = "x" * (LIMIT - 2)

REFUSED: dict[str, tuple[str, Any, Any]] = {
    "large values compared for every item": ("input.all(x, state == state)", THOUSAND, ONES),
    "large values compared again and again": (repeated("&&", "input == state"), NESTED, NESTED),
    "a large list searched for every item": ("input.filter(x, x in state)", THOUSAND, ONES),
    "a large value in every item of the result": ("input.map(x, state)", THOUSAND, ONES),
    "a result that doubles with each step": ("[input]" + ".map(x, [x, x])" * 20, {}, None),
    "two such results compared": ("[1]" + ".map(x, [x, x])" * 25 + " == [1]" + ".map(x, [x, x])" * 25, None, None),
    "a result of many large values": ("[" + ",".join(["input"] * 600) + "]", ONES, None),
    "many lists built": ("[" + ",".join(["input.map(x, x)"] * 10) + "]", THOUSAND, None),
    "a pattern compiled for every item": ("input.all(x, !'a'.matches('[^a]{900}'))", THOUSAND, None),
    "a pattern that is slow on a long text": ("input.matches('(x|y){0,300}z')", TEXT, None),
    "a long text searched for a long one": ("input.contains(state)", TEXT, TEXT[:100_000] + "y"),
    "a long text read as a duration again and again": (repeated("||", "duration(input) == null"), TEXT, None),
    "what a comprehension runs over, evaluated first": (
        "[" + ",".join(["dyn([input == state, input == state][0]).all(x, true)"] * 60) + "]",
        ONES,
        ONES,
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_too_much_work_is_refused_before_it_begins(kind: str) -> None:
    source, input_, state = REFUSED[kind]
    with pytest.raises(ExpressionFailed, match=TOO_MUCH):
        compile_expression(source, SCOPE).evaluate(Seen(input_, state))


@pytest.mark.parametrize(
    ("source", "input_", "state"),
    [
        ("{'a': input}", NESTED, None),
        ("[input, input]", {str(number): {"a": number} for number in range(13_000)}, None),
        ("[" + ",".join(["input.map(x, x)"] * 5) + "]", THOUSAND, None),
        ("[input]", ONES, None),
        ("size(input) + size(state)", ONES, ONES),
        ("input.map(x, x)", THOUSAND, None),
        ("input.filter(x, x in state)", THOUSAND, list(range(2_000))),
        ("input.all(x, state['k' + string(x)] == x)", THOUSAND, {f"k{number}": number for number in range(20_000)}),
        ("input.filter(x, 'k' + string(x) in state)", THOUSAND, {f"k{number}": number for number in range(20_000)}),
        ("input.all(x, !string(x).matches('^[a-z]{2,8}-[0-9]+$'))", THOUSAND, None),
        ("input.matches('^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')", "x" * 1_000, None),
        ("input.contains('needle in it')", TEXT, None),
        ("input == state", NESTED, NESTED),
        ("input + 'y'", TEXT, None),
    ],
)
def test_work_on_values_of_full_size_is_let_through(source: str, input_: Any, state: Any) -> None:
    allowance = Allowance()
    compile_expression(source, SCOPE).evaluate(Seen(input_, state), allowance)
    assert 0 <= allowance.units_left < WORK_MAX


@pytest.mark.parametrize(
    "source",
    [
        "input.map(x, x)",
        "input.all(x, true)",
        "(state.a + state.b).exists(x, false)",
        "dyn([input][0]).filter(x, true)",
    ],
)
def test_a_comprehension_has_a_thousand_items_at_most(source: str) -> None:
    expression = compile_expression(source, SCOPE)
    expression.evaluate(Seen(THOUSAND, {"a": THOUSAND[:500], "b": THOUSAND[:500]}))
    with pytest.raises(ExpressionFailed, match="a comprehension over 1001 items, of which there may be 1000"):
        expression.evaluate(Seen([*THOUSAND, 1], {"a": THOUSAND[:500], "b": THOUSAND[:501]}))


def test_iterations_are_bounded_by_the_runtime_too() -> None:
    source = "&&".join(["input.all(x, true)"] * 11)
    with pytest.raises(ExpressionFailed, match="budget"):
        compile_expression(source, SCOPE).evaluate(Seen(THOUSAND))


def test_all_expressions_of_a_template_share_one_allowance() -> None:
    template = compile_template([{"$cel": "size(input) + 1"}] * 20, SCOPE, "", [])
    assert template.render(Seen(ONES[:1_000])) == [1_001] * 20
    with pytest.raises(ExpressionFailed, match=TOO_MUCH):
        template.render(Seen(ONES))


def test_a_template_cannot_copy_a_large_value_without_end() -> None:
    template = compile_template([{"$cel": "input"}] * 200, SCOPE, "", [])
    assert template.render(Seen("x")) == ["x"] * 200
    with pytest.raises(ExpressionFailed, match="more bytes than a template may copy"):
        template.render(Seen(TEXT))


def test_an_allowance_is_spent_once() -> None:
    allowance = Allowance(units=10, copied_bytes=10)
    allowance.take(10)
    allowance.take_bytes(10)
    with pytest.raises(Unfit):
        allowance.take(1)
    with pytest.raises(Unfit):
        allowance.take_bytes(1)


@pytest.mark.parametrize(
    ("regex", "atoms"),
    [
        ("", 0),
        ("abc", 3),
        ("a*b+c?", 3),
        ("[a-z]{3}", 3),
        ("[]a]{2}x", 3),
        ("[^]]", 1),
        ("[[:alpha:]]{4}", 4),
        ("(ab){3}c", 7),
        ("((ab){3}c){2}", 14),
        ("(?:ab){2,5}", 10),
        ("(?P<name>a){2}", 2),
        ("a{2,}", 2),
        ("a{0,9}", 9),
        (r"\(a\){3}", 5),
        (r"\pL{2}", 400),
        (r"\P{Greek}x", 201),
        ("a|b", 3),
        (")(", 1),
    ],
)
def test_a_pattern_is_counted_with_its_repetitions_written_out(regex: str, atoms: int) -> None:
    assert pattern_atoms(regex) == atoms
