"""What the daemon would refuse is refused where it is declared, and what it takes is taken: both judge alike."""

from typing import Any

import msgspec
import pytest

from stepd.engine.definition import compile_definition
from stepd_protocol.limits import Limits
from stepd_worker import Catch, Context, Decision, Repeat, Retry, Rule, Update, Workflow, cel

READ = {"effect": "read_only"}


def daemon_faults(definition: dict[str, Any]) -> dict[str, str]:
    """What the daemon says of a definition, by pointer."""
    outcome = compile_definition("flow", msgspec.json.encode(definition), Limits())
    return {fault.path: fault.message for fault in outcome} if isinstance(outcome, list) else {}


def steps(*given: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"steps": [{"id": "abcdefgh"[place], **step} for place, step in enumerate(given)], **more}


def wait(**more: Any) -> dict[str, Any]:
    return {"kind": "wait", "event": "go", **more}


def decision(*rules: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"kind": "decision", "rules": list(rules), **more}


FAULTY = {
    "no steps": steps(),
    "no id": {"steps": [{"effect": "read_only"}]},
    "an id that is no name": {"steps": [{"id": "a b", **READ}]},
    "an id twice": {"steps": [{"id": "a", **READ}, {"id": "a", **READ}]},
    "an unknown field": steps({**READ, "retries": 3}),
    "an unknown kind": steps({"kind": "nap"}),
    "no effect": steps({}),
    "an unknown effect": steps({"effect": "harmless"}),
    "delivery and effect": steps({"effect": "non_idempotent_write", "delivery": "at_least_once"}),
    "an unknown need": steps(READ | {"needs": ["z"]}),
    "a need twice": steps(READ, READ | {"needs": ["a", "a"]}),
    "it needs itself": steps(READ | {"needs": ["a"]}),
    "a circle": steps(READ | {"needs": ["c"]}, READ, READ),
    "a short lease": steps(READ | {"lease_seconds": 0.01}),
    "a short reclaim": steps(READ | {"reclaim_seconds": 0.01}),
    "a long time-out": steps(READ | {"timeout_seconds": 40_000_000}),
    "too many attempts": steps(READ | {"retry": {"max_attempts": 1001}}),
    "a short first wait": steps(READ | {"retry": {"initial_seconds": 0.01}}),
    "a priority": steps(READ | {"priority": 101}),
    "a class that is no name": steps(READ | {"catch": [{"class": "a b", "value": 1}]}),
    "max_parallel alone": steps(READ | {"max_parallel": 3}),
    "max_parallel of none": steps(READ | {"foreach": "input", "max_parallel": 0}),
    "foreach and repeat": steps(READ | {"foreach": "input", "repeat": {"until": "true", "max": 3}}),
    "too many rounds": steps(READ | {"repeat": {"until": "true", "max": 10_001}}),
    "rounds without an end": steps(READ | {"repeat": {"max": 3}}),
    "an unknown compensation": steps(READ | {"compensate": "z"}),
    "it undoes itself": steps(READ | {"compensate": "a"}),
    "a compensation for two": steps(READ | {"compensate": "c"}, READ | {"compensate": "c"}, READ),
    "a compensation that needs": steps(READ | {"compensate": "b"}, READ | {"needs": ["a"]}),
    "a compensation with a condition": steps(READ | {"compensate": "b"}, READ | {"when": "true"}),
    "a compensation that waits": steps(READ | {"compensate": "b"}, wait()),
    "it needs a compensation": steps(READ | {"compensate": "b"}, READ, READ | {"needs": ["b"]}),
    "a wait without an event": steps({"kind": "wait"}),
    "a wait with an effect": steps(wait(effect="read_only")),
    "a wait that does what else": steps(wait(on_timeout="retry")),
    "a sleep without end": steps({"kind": "sleep"}),
    "a sleep with two": steps({"kind": "sleep", "seconds": 1, "until": "2030-01-01T00:00:00Z"}),
    "a child without a name": steps({"kind": "workflow"}),
    "a child with an effect": steps({"kind": "workflow", "workflow": "other", "effect": "read_only"}),
    "a decision without rules": steps({"kind": "decision"}),
    "a decision with none": steps(decision()),
    "a rule twice": steps(decision({"id": "r", "then": 1}, {"id": "r", "then": 2})),
    "a rule with the place of another": steps(decision({"id": "1", "then": 1}, {"then": 2})),
    "an unknown policy": steps(decision({"then": 1}, hit_policy="best")),
    "an outcome without rules": steps(READ, outcome={"rules": []}),
    "no pointer": steps(READ, updates=[{"path": "a", "value": 1}]),
    "the whole state": steps(READ, updates=[{"path": "", "value": 1}]),
    "a wrong escape": steps(READ, updates=[{"path": "/a~2", "value": 1}]),
    "behind the last": steps(READ, updates=[{"path": "/a/-", "value": 1}]),
    "no expression": steps(READ | {"input": {"a": [{"$cel": 3}]}}),
    "an empty expression": steps(READ | {"input": {"$cel": ""}}),
    "too long an expression": steps(READ | {"input": {"$cel": "1 + " * 1100 + "1"}}),
    "a step that is not there": steps(READ, READ | {"when": "steps.z.output.x"}),
    "a step that comes later": steps(READ | {"input": {"x": {"$cel": "steps.b.output"}}}, READ),
    "a step beside it": steps(READ, READ | {"needs": [], "when": "steps['a'].output.x"}),
    "an output of no step": steps(READ, output={"x": [{"$cel": 'steps["z-1"].output'}]}),
    "an output of a compensation": steps(READ | {"compensate": "b"}, READ, output={"$cel": "steps.b.output"}),
    "a restart": steps(READ, on_restart="perhaps"),
    "seconds of the whole": steps(READ, timeout_seconds=0),
    "too many steps": {"steps": [{"id": f"s{place}", **READ} for place in range(501)]},
    "too large": steps(READ, description="x" * 300_000),
}


@pytest.mark.parametrize("name", FAULTY)
def test_what_the_daemon_refuses_is_refused_here(name: str) -> None:
    assert daemon_faults(FAULTY[name]), "the daemon takes it, so that it is no fault"
    with pytest.raises(ValueError, match="'flow' is not valid"):
        Workflow.from_definition("flow", FAULTY[name])


SOUND = {
    "the least": steps(READ),
    "side by side": steps(READ, READ | {"needs": []}, READ | {"needs": ["a", "b"]}),
    "a later one": steps(READ | {"needs": ["b"]}, READ | {"needs": []}),
    "what looks like a step": steps(READ | {"when": "input.steps.z == 'steps.y' && \"steps.x\" != '' // steps.w"}),
    "a variable of that name": steps(READ | {"when": "[{'z': true}].exists(steps, steps.z)"}),
    "an id in brackets": {
        "steps": [{"id": "a-1", **READ}, {"id": "b", **READ, "when": "steps['a-1'].status == 'succeeded'"}]
    },
    "text that is no expression": steps(READ | {"input": {"when": "steps.z", "until": "steps.y", "foreach": "x"}}),
    "zero": steps(READ | {"reclaim_seconds": 0, "retry": {"initial_seconds": 0}}),
    "null": steps(READ | {"timeout_seconds": None, "compensate": None, "repeat": None, "foreach": None}),
}


@pytest.mark.parametrize("name", SOUND)
def test_what_the_daemon_takes_is_taken_here(name: str) -> None:
    assert daemon_faults(SOUND[name]) == {}
    flow = Workflow.from_definition("flow", SOUND[name])
    assert [step["id"] for step in flow.definition()["steps"]] == [step["id"] for step in SOUND[name]["steps"]]


def test_all_faults_are_told_at_once_each_with_its_pointer() -> None:
    faulty = steps(READ | {"needs": ["z"]}, wait(effect="read_only"), updates=[{"path": "x", "value": 1}])
    with pytest.raises(ValueError, match="'flow' is not valid") as refusal:
        Workflow.from_definition("flow", faulty)
    told = str(refusal.value)
    assert "\n  /steps/0/needs: there is no step z" in told
    assert "\n  /steps/1/effect: a wait has no effect" in told
    assert "\n  /updates/0/path: 'x' is no pointer" in told
    assert {line.strip().split(":")[0] for line in told.splitlines()[1:]} == set(daemon_faults(faulty))


def test_a_fault_is_told_at_the_line_that_declares_it() -> None:
    flow = Workflow("flow")
    flow.task("a", effect="read_only", needs=["c"])
    flow.task("b", effect="read_only")
    with pytest.raises(ValueError, match=r"step 'c' of 'flow'.*in a circle: a → c → b → a"):
        flow.task("c", effect="read_only")
    with pytest.raises(ValueError, match=r"step 'd' of 'flow'.*at_least_once"):
        flow.task("d", effect="non_idempotent_write", delivery="at_least_once")
    with pytest.raises(ValueError, match=r"step 'e' of 'flow'.*either seconds or until"):
        flow.sleep("e")
    with pytest.raises(ValueError, match="there is no step c"):
        flow.definition()
    flow.task("c", effect="read_only", needs=[])
    assert daemon_faults(flow.definition()) == {}


def test_every_kind_in_pythons_words_is_the_wires_definition() -> None:
    flow = Workflow(
        "flow",
        outcome=Decision(rules=[Rule(when="steps.route.output == 'post'", then="posted")], default="kept"),
        updates={"/label": cel("steps.route.output"), "/done": True},
        on_failure="compensate",
    )

    @flow.step(effect="read_only", catch={"no_such_page": None, "*": {"rows": []}})
    def fetch(ctx: Context, input: Any) -> Any: ...

    @flow.step(effect="idempotent_write", foreach=cel("steps.fetch.output.rows"), max_parallel=4, compensate="undo")
    def save(ctx: Context, row: Any) -> Any: ...

    @flow.step(effect="idempotent_write")
    def undo(ctx: Context, input: Any) -> Any: ...

    approved = flow.wait("approved", event="approval", timeout_seconds=60, on_timeout="skip", needs=[save, "fetch"])
    route = flow.decision("route", rules=[{"when": "true", "then": "post"}], needs=approved, default="keep")
    rest = flow.sleep("rest", seconds=cel("input.pause"), needs=fetch)
    child = Workflow("child")
    flow.workflow("talk", workflow=child, repeat=Repeat(until="last.done", max=9), needs=[route, rest])
    definition = flow.definition()
    assert daemon_faults(definition) == {}
    by_id = {step["id"]: step for step in definition["steps"]}
    assert by_id["fetch"]["catch"] == [
        {"class": "no_such_page", "value": None},
        {"class": "*", "value": {"rows": []}},
    ]
    assert (by_id["save"]["foreach"], by_id["save"]["compensate"]) == ("steps.fetch.output.rows", "undo")
    assert by_id["approved"]["needs"] == ["save", "fetch"]
    assert by_id["talk"] == {
        "id": "talk",
        "kind": "workflow",
        "workflow": "child",
        "needs": ["route", "rest"],
        "repeat": {"until": "last.done", "max": 9},
    }
    assert definition["updates"] == [
        {"path": "/label", "value": {"$cel": "steps.route.output"}},
        {"path": "/done", "value": True},
    ]
    assert definition["outcome"]["rules"] == [{"when": "steps.route.output == 'post'", "then": "posted"}]


def test_rows_may_be_written_out_too() -> None:
    flow = Workflow("flow", updates=[Update(path="/a", value=1), {"path": "/b", "value": 2}])
    flow.task("a", effect="read_only", retry={"max_attempts": 2}, catch=[Catch(class_="x"), {"class": "y"}])
    flow.task("b", effect="read_only", retry=Retry(max_attempts=2))
    definition = flow.definition()
    assert definition["steps"][0]["retry"] == definition["steps"][1]["retry"]
    assert [row["class"] for row in definition["steps"][0]["catch"]] == ["x", "y"]
    assert [row["path"] for row in definition["updates"]] == ["/a", "/b"]
    for rows in ([{"path": "/a"}], [3]):
        with pytest.raises((ValueError, TypeError), match="'flow' is not valid"):
            Workflow("flow", updates=rows)  # type: ignore[arg-type] # that is what is refused


def test_a_function_stands_for_its_step_only_where_it_is_the_body_of_one() -> None:
    flow = Workflow("flow")

    def stranger(ctx: Context, input: Any) -> None: ...

    with pytest.raises(ValueError, match="'stranger' is the body of no step here"):
        flow.task("a", effect="read_only", needs=stranger)
    flow.step("one", effect="read_only")(stranger)
    flow.step("two", effect="read_only")(stranger)
    with pytest.raises(ValueError, match="the steps one, two"):
        flow.task("a", effect="read_only", needs=[stranger])


def test_a_definition_is_the_same_version_whoever_writes_it() -> None:
    flow = Workflow("flow", timeout_seconds=600)
    flow.task("a", effect="read_only", timeout_seconds=30, lease_seconds=0.5, retry=Retry(max_attempts=5))
    retry = {"max_attempts": 5, "initial_seconds": 2, "factor": 2, "max_seconds": 60}
    by_hand = steps(READ | {"timeout_seconds": 30, "lease_seconds": 0.5, "retry": retry}, timeout_seconds=600)
    assert digest(flow.definition()) == digest(by_hand) != digest(by_hand | {"timeout_seconds": 600.0})
    for given in (by_hand, by_hand | {"timeout_seconds": 600.0}):
        assert digest(Workflow.from_definition("flow", given).definition()) == digest(given)


def digest(definition: dict[str, Any]) -> str:
    compiled = compile_definition("flow", msgspec.json.encode(definition), Limits())
    assert not isinstance(compiled, list), compiled
    return compiled.digest


def test_a_definition_from_elsewhere_takes_bodies() -> None:
    flow = Workflow.from_definition("flow", steps(READ, wait(), version="7"))
    assert (flow.version, flow.serves("7").steps) == ("7", [])

    @flow.body("a")
    def work(ctx: Context, input: Any) -> None: ...

    assert flow.serves("7").steps is None
    assert flow.definition() == steps(READ, wait(), version="7")
    with pytest.raises(ValueError, match="no task 'b'"):
        flow.body("b")(work)
