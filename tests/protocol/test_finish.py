"""How an execution ends well: outcome, updates, output, revision, and what a fault in any of them leaves."""

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Json
from tests.support.definitions import cel, read, safe_write
from tests.support.flow import Run

YES = {"id": "yes", "when": "input.n > 0", "then": "positive"}
BIG = {"id": "big", "when": "input.n > 10", "then": {"label": cel("steps.work.output.label"), "n": cel("input.n")}}


def run_through(flow: MakeFlow, *, input: Json = None, state: Json = None, output: Json = None, **fields: Json) -> Run:
    """An execution of one step, completed with `output`."""
    work = flow(read(), **fields)
    run, lease = work.begin(input=input, state=state or {})
    lease.complete(output).expect(200)
    return run


def check_finish_invalid(run: Run) -> None:
    view = run.view(include="payloads")
    assert (view["status"], view["error"]["class"]) == ("failed", "finish_invalid")
    assert (view["outcome"], view["output"]) == (None, None)
    assert view["steps"][0]["status"] == "succeeded", "the checkpoints stay"


def test_without_any_of_them_they_are_null(flow: MakeFlow) -> None:
    view = run_through(flow, state={"a": 1}).view()
    assert (view["outcome"], view["output"], view["state"]) == (None, None, {"a": 1})
    assert view["revision"] == 2


def test_the_end_is_told_with_what_it_was(flow: MakeFlow) -> None:
    run = run_through(flow, input={"n": 5}, outcome={"hit_policy": "first", "rules": [BIG, YES]})
    data = run.event("execution.completed")["data"]
    assert data.keys() >= {"outcome", "revision", "hit_policy", "rule_ids"}
    assert (data["outcome"], data["revision"]) == ("positive", 2)
    assert (data["hit_policy"], data["rule_ids"]) == ("first", ["yes"])
    assert "work" in str(data)


@pytest.mark.parametrize(
    ("policy", "n", "expected"),
    [
        ("first", 20, {"label": "L", "n": 20}),
        ("first", 5, "positive"),
        ("first", -5, "none"),
        ("unique", 5, "positive"),
        ("unique", -5, "none"),
        ("collect", 20, [{"label": "L", "n": 20}, "positive"]),
        ("collect", 5, ["positive"]),
        ("any", 5, "positive"),
    ],
)
def test_an_outcome_is_decided_by_its_policy(flow: MakeFlow, policy: str, n: int, expected: Json) -> None:
    outcome = {"hit_policy": policy, "rules": [BIG, YES], "default": "none"}
    run = run_through(flow, input={"n": n}, output={"label": "L"}, outcome=outcome)
    assert run.view()["outcome"] == expected


def test_any_accepts_several_that_agree(flow: MakeFlow) -> None:
    rules = [{"id": "a", "when": "true", "then": {"x": 1}}, {"id": "b", "when": "true", "then": {"x": cel("input.n")}}]
    assert run_through(flow, input={"n": 1}, outcome={"hit_policy": "any", "rules": rules}).view()["outcome"] == {
        "x": 1
    }
    check_finish_invalid(run_through(flow, input={"n": 2}, outcome={"hit_policy": "any", "rules": rules}))


def test_unique_refuses_two(flow: MakeFlow) -> None:
    outcome = {"hit_policy": "unique", "rules": [BIG, YES]}
    check_finish_invalid(run_through(flow, input={"n": 20}, output={"label": "L"}, outcome=outcome))


@pytest.mark.parametrize("policy", ["first", "unique", "any"])
def test_no_match_without_a_default_is_a_fault(flow: MakeFlow, policy: str) -> None:
    check_finish_invalid(run_through(flow, input={"n": -1}, outcome={"hit_policy": policy, "rules": [YES]}))


UPDATES: dict[str, tuple[Json, list[Json], Json]] = {
    "a new key": ({}, [{"path": "/a", "value": 1}], {"a": 1}),
    "another value": ({"a": 1, "b": 2}, [{"path": "/a", "value": {"x": 1.0}}], {"a": {"x": 1.0}, "b": 2}),
    "missing parents": ({}, [{"path": "/a/b/c", "value": 1}], {"a": {"b": {"c": 1}}}),
    "an array's place": ({"l": [1, 2, 3]}, [{"path": "/l/1", "value": 9}], {"l": [1, 9, 3]}),
    "within an array": ({"l": [{"x": 1}]}, [{"path": "/l/0/y", "value": 2}], {"l": [{"x": 1, "y": 2}]}),
    "escaped names": ({}, [{"path": "/a~1b/c~0d", "value": 1}], {"a/b": {"c~d": 1}}),
    "an empty name": ({}, [{"path": "/", "value": 1}], {"": 1}),
    "a number that is a name": ({"o": {}}, [{"path": "/o/0", "value": 1}], {"o": {"0": 1}}),
    "several, in order": (
        {},
        [{"path": "/a", "value": {}}, {"path": "/a/b", "value": 1}, {"path": "/a/b", "value": 2}],
        {"a": {"b": 2}},
    ),
    "from the state as it stood": (
        {"n": 1},
        [{"path": "/n", "value": cel("state.n + 1")}, {"path": "/m", "value": cel("state.n + 10")}],
        {"n": 2, "m": 11},
    ),
    "from outputs": ({}, [{"path": "/label", "value": cel("steps.work.output.label")}], {"label": "L"}),
}


@pytest.mark.parametrize("kind", UPDATES)
def test_updates_are_applied_to_the_state(flow: MakeFlow, kind: str) -> None:
    state, updates, expected = UPDATES[kind]
    run = run_through(flow, state=state, output={"label": "L"}, updates=updates)
    view = run.view()
    assert (view["status"], view["state"]) == ("completed", expected)
    assert view["revision"] == 2


BAD_UPDATES: dict[str, tuple[Json, list[Json]]] = {
    "a sparse index": ({"l": [1]}, [{"path": "/l/2", "value": 1}]),
    "the place behind the last": ({"l": [1]}, [{"path": "/l/1", "value": 1}]),
    "an index with a zero in front": ({"l": [1, 2]}, [{"path": "/l/01", "value": 1}]),
    "a name in an array": ({"l": [1]}, [{"path": "/l/x", "value": 1}]),
    "below a number": ({"n": 1}, [{"path": "/n/x", "value": 1}]),
    "below a text": ({"t": "x"}, [{"path": "/t/0", "value": 1}]),
    "a value that cannot be computed": ({}, [{"path": "/a", "value": cel("state.missing")}]),
    "one good and one bad": ({"l": []}, [{"path": "/a", "value": 1}, {"path": "/l/0", "value": 1}]),
    "a state over its limit": ({"a": "x" * 200_000}, [{"path": "/b", "value": cel("state.a")}]),
}


@pytest.mark.parametrize("kind", BAD_UPDATES)
def test_a_fault_in_an_update_writes_none_of_them(flow: MakeFlow, kind: str) -> None:
    state, updates = BAD_UPDATES[kind]
    run = run_through(flow, state=state, updates=updates, output=1)
    check_finish_invalid(run)
    view = run.view()
    assert view["state"] == state
    assert view["revision"] == 1


def test_the_resulting_state_must_fit_its_schema(flow: MakeFlow) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 5}}}
    updates = [{"path": "/n", "value": cel("input.n")}]
    good = run_through(flow, input={"n": 5}, state_schema=schema, updates=updates)
    assert good.view()["state"] == {"n": 5}
    bad = run_through(flow, input={"n": 6}, state_schema=schema, updates=updates)
    check_finish_invalid(bad)
    assert bad.view()["state"] == {}


def test_the_output_sees_all_steps_and_the_state_before_the_updates(flow: MakeFlow) -> None:
    work = flow(
        read("a", needs=[]),
        read("b", needs=[]),
        updates=[{"path": "/n", "value": 100}],
        output={"a": cel("steps.a.output"), "b": cel("steps.b.output"), "n": cel("state.n")},
    )
    run = work.start(state={"n": 1})
    for lease in work.claim(max=2):
        lease.complete(lease.step).expect(200)
    view = run.view()
    assert view["output"] == {"a": "a", "b": "b", "n": 1}
    assert view["state"] == {"n": 100}


def test_an_output_that_cannot_be_computed_is_a_fault(flow: MakeFlow) -> None:
    work = flow(read(), output={"a": cel("state.missing")})
    run, lease = work.begin()
    assert lease.complete(1).expect(200)["execution"]["status"] == "failed"
    check_finish_invalid(run)


def test_an_output_over_its_limit_is_a_fault(flow: MakeFlow) -> None:
    work = flow(read(), output=[cel("steps.work.output")] * 2)
    run, lease = work.begin()
    lease.complete("x" * 200_000).expect(200)
    check_finish_invalid(run)


@pytest.mark.parametrize(("on_failure", "status"), [("reconcile", "reconciliation_required"), ("fail", "failed")])
def test_a_fault_at_the_end_leaves_the_writes_standing(flow: MakeFlow, on_failure: str, status: str) -> None:
    work = flow(safe_write(), output=cel("state.missing"), on_failure=on_failure)
    run, lease = work.begin()
    assert lease.complete("written").expect(200)["execution"]["status"] == status
    view = run.view()
    assert (view["status"], view["error"]["class"]) == (status, "finish_invalid")
    assert "work" in str(view["standing_writes"])
    assert view["steps"][0]["status"] == "succeeded"


def test_the_completion_that_meets_the_fault_is_accepted_and_replayed(flow: MakeFlow) -> None:
    work = flow(read(), output=cel("state.missing"))
    _, lease = work.begin()
    first = lease.complete("x").expect(200)
    again = lease.complete("x").expect(200)
    assert (first["replayed"], again["replayed"]) == (False, True)
    assert again["execution"]["status"] == "failed"


def test_updates_leave_the_steps_what_they_saw(flow: MakeFlow) -> None:
    run = run_through(
        flow,
        state={"n": 1},
        outcome={"hit_policy": "first", "rules": [{"id": "r", "when": "state.n == 1", "then": cel("state.n")}]},
        updates=[{"path": "/n", "value": 2}],
    )  # fmt: skip — the call reads as one sentence
    view = run.view()
    assert (view["outcome"], view["state"]) == (1, {"n": 2})
