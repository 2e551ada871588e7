"""Decisions: hit policies, defaults, and what fits no rule or too many."""

from typing import Any

import pytest

from stepd.engine.definition import AmbiguousMatch, NoMatch, decide_rules
from stepd.engine.expressions import ExpressionFailed, References
from tests.engine.definitions import compiled, read
from tests.engine.environments import Seen

RULES = [
    {"id": "small", "when": "input.n < 10", "then": {"size": "small", "n": {"$cel": "input.n"}}},
    {"id": "even", "when": "input.n % 2 == 0", "then": {"n": {"$cel": "input.n"}, "size": "small"}},
    {"id": "huge", "when": "input.n > 1000", "then": "huge"},
    {"id": "very", "when": "input.n > 2000", "then": "very"},
]


def decided(n: Any, **fields: Any) -> tuple[Any, tuple[str, ...]]:
    decision = compiled(read(), outcome={"rules": RULES, **fields}).outcome
    assert decision is not None
    return decide_rules(decision, Seen({"n": n}))


@pytest.mark.parametrize(
    ("policy", "n", "output", "rules"),
    [
        ("first", 4, {"size": "small", "n": 4}, ("small",)),
        ("first", 3001, "huge", ("huge",)),
        ("unique", 3, {"size": "small", "n": 3}, ("small",)),
        ("unique", 12, {"n": 12, "size": "small"}, ("even",)),
        ("any", 4, {"size": "small", "n": 4}, ("small", "even")),
        ("any", 1001, "huge", ("huge",)),
        ("collect", 4, [{"size": "small", "n": 4}, {"n": 4, "size": "small"}], ("small", "even")),
        ("collect", 3, [{"size": "small", "n": 3}], ("small",)),
    ],
)
def test_what_a_decision_gives(policy: str, n: int, output: Any, rules: tuple[str, ...]) -> None:
    assert decided(n, hit_policy=policy) == (output, rules)


def test_the_first_match_is_the_default_policy() -> None:
    assert decided(4) == decided(4, hit_policy="first")


@pytest.mark.parametrize("policy", ["first", "unique", "any", "collect"])
def test_the_default_stands_where_no_rule_matches(policy: str) -> None:
    assert decided(11, hit_policy=policy, default={"$cel": "input.n"}) == (11, ())
    assert decided(11, hit_policy=policy, default=None) == (None, ())
    with pytest.raises(NoMatch, match="none of the 4 rules"):
        decided(11, hit_policy=policy)


@pytest.mark.parametrize(("policy", "n", "rules"), [("unique", 4, "small, even"), ("any", 3001, "huge, very")])
def test_too_many_matches(policy: str, n: int, rules: str) -> None:
    with pytest.raises(AmbiguousMatch, match=rules):
        decided(n, hit_policy=policy, default=1)


def test_after_the_first_match_nothing_is_evaluated() -> None:
    rules = [{"then": "always"}, {"when": "1 / 0 == 1", "then": "never"}]
    decision = compiled(read(), outcome={"rules": rules}).outcome
    assert decision is not None
    assert decide_rules(decision, Seen()) == ("always", ("0",))


def test_a_fault_in_a_rule_fails_the_decision() -> None:
    with pytest.raises(ExpressionFailed, match=r"input\.n < 10"):
        decided("x")


def test_it_knows_what_it_reads() -> None:
    decision = compiled(read(), outcome={"rules": RULES, "default": {"$cel": "steps.work.output"}}).outcome
    assert decision is not None
    assert decision.references == References(frozenset({"input"}), frozenset({"work"}))
