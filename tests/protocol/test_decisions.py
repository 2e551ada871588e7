"""Decision steps: the daemon evaluates the rules, says which matched, and fails where none or too many do."""

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Json
from tests.support.definitions import cel, decision, read

RULES = (
    {"id": "small", "when": "input.n < 10", "then": {"size": "small"}},
    {"id": "even", "when": "input.n % 2 == 0", "then": {"size": cel("'even'")}},
    {"id": "huge", "when": "input.n > 1000", "then": {"size": "huge"}},
)


@pytest.mark.parametrize(
    ("policy", "n", "output", "rules"),
    [
        ("first", 4, {"size": "small"}, ["small"]),
        ("unique", 3, {"size": "small"}, ["small"]),
        ("any", 12, {"size": "even"}, ["even"]),
        ("collect", 4, [{"size": "small"}, {"size": "even"}], ["small", "even"]),
    ],
)
def test_hit_policies(flow: MakeFlow, policy: str, n: int, output: Json, rules: list[str]) -> None:
    work = flow(decision("d", *RULES, hit_policy=policy), output=cel("steps.d.output"))
    run = work.start(input={"n": n})
    view = run.view()
    assert (view["status"], view["output"]) == ("completed", output)
    made = run.event("decision.made")
    assert (made["step"], made["data"]) == ("d", {"hit_policy": policy, "rule_ids": rules})
    assert view["steps"][0]["attempt"] == 0


def test_the_default_stands_where_no_rule_matches(flow: MakeFlow) -> None:
    run = flow(decision("d", *RULES, default="none"), output=cel("steps.d.output")).start(input={"n": 11})
    assert run.view()["output"] == "none"
    assert run.event("decision.made")["data"]["rule_ids"] == []


@pytest.mark.parametrize(
    ("policy", "n", "class_"),
    [
        ("first", 11, "no_match"),
        ("collect", 11, "no_match"),
        ("unique", 4, "ambiguous_match"),
        ("any", 4, "ambiguous_match"),
        ("first", "x", "expression_failed"),
    ],
)
def test_failures(flow: MakeFlow, policy: str, n: Json, class_: str) -> None:
    run = flow(decision("d", *RULES, hit_policy=policy)).start(input={"n": n})
    view = run.view()
    assert (view["status"], view["error"]["class"], view["error"]["step"]) == ("failed", class_, "d")
    caught = flow(decision("d", *RULES, hit_policy=policy, catch=[{"class": class_, "value": 0}])).start(input={"n": n})
    assert caught.view()["status"] == "completed"


def test_an_output_that_breaks_its_schema_fails(flow: MakeFlow) -> None:
    run = flow(decision("d", {"then": "x"}, output_schema={"type": "integer"})).start()
    assert run.view()["error"]["class"] == "invalid_output"


def test_it_reads_what_is_before_it_and_decides_what_follows(flow: MakeFlow) -> None:
    work = flow(
        read("a"),
        decision("d", {"when": "steps.a.output.ok", "then": "go"}, default="stop"),
        read("b", needs=["d"], when="steps.d.output == 'go'"),
        read("c", needs=["d"], when="steps.d.output == 'stop'"),
    )
    run, lease = work.begin()
    lease.complete({"ok": False}).expect(200)
    assert run.statuses() == {"a": "succeeded", "d": "succeeded", "b": "skipped", "c": "queued"}
