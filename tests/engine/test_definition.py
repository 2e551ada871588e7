"""A sound definition: its defaults, what was written, its graph, its version and digest."""

from typing import Any

import pytest

from stepd.engine.canonical import digest, encode
from stepd.engine.definition import compile_definition
from stepd.engine.expressions import References
from tests.engine.definitions import LIMITS, compiled, read, write
from tests.engine.environments import Seen


def test_the_defaults() -> None:
    definition = compiled(read())
    assert definition.name == "flow"
    assert (definition.version, len(definition.digest)) == (definition.digest[:12], 64)
    assert definition.raw == b'{"steps":[{"id":"work","effect":"read_only"}]}'
    assert (definition.on_restart, definition.on_failure, definition.exclusive) == ("resume", "reconcile", False)
    assert (definition.description, definition.timeout_ms, definition.retention_ms) == (None, None, None)
    assert (definition.input_schema, definition.state_schema) == (None, None)
    assert (definition.outcome, definition.output) == (None, None)
    assert definition.updates == ()
    assert definition.finish_references == References()
    assert definition.by_id == {"work": 0}


def test_the_defaults_of_a_step() -> None:
    (step,) = compiled(read()).steps
    assert (step.ordinal, step.id, step.kind, step.effect) == (0, "work", "task", "read_only")
    assert (step.needs, step.written_needs, step.successors, step.ancestors) == ((), False, (), ())
    assert (step.when, step.input, step.input_schema, step.output_schema) == (None, None, None, None)
    assert (step.delivery, step.start_required) == ("at_least_once", False)
    assert (step.max_attempts, step.initial_ms, step.factor, step.max_ms) == (3, 2_000, 2.0, 60_000)
    assert (step.lease_ms, step.reclaim_ms, step.queue_timeout_ms) == (None, None, None)
    assert (step.timeout_ms, step.priority, step.catch, step.manual_result) == (86_400_000, 0, (), "allowed")
    assert step.references == References()


def test_what_is_written() -> None:
    step = compiled(
        write(
            retry={"max_attempts": 1000, "initial_seconds": 0, "factor": 1.5, "max_seconds": 31_536_000},
            lease_seconds=0.05,
            reclaim_seconds=0,
            timeout_seconds=None,
            queue_timeout_seconds=1.2345,
            priority=-100,
            manual_result="refused",
            catch=[{"class": "card_declined", "value": {"$cel": "input.a"}}, {"class": "*"}],
        )
    ).steps[0]
    assert (step.max_attempts, step.initial_ms, step.factor, step.max_ms) == (1000, 0, 1.5, 31_536_000_000)
    assert (step.lease_ms, step.reclaim_ms, step.timeout_ms, step.queue_timeout_ms) == (50, 0, None, 1234)
    assert (step.priority, step.manual_result) == (-100, "refused")
    assert [(class_, template.render(Seen({"a": 7}))) for class_, template in step.catch] == [
        ("card_declined", 7),
        ("*", None),
    ]


def test_what_is_written_above() -> None:
    definition = compiled(
        read(),
        version="v-3",
        description="what it is for",
        on_restart="fail",
        on_failure="fail",
        exclusive=True,
        timeout_seconds=3_600,
        retention_seconds=0.05,
        output={"$cel": "steps.work.output"},
        updates=[{"path": "/a/b", "value": {"$cel": "input.x"}}],
    )
    assert (definition.version, definition.description) == ("v-3", "what it is for")
    assert (definition.on_restart, definition.on_failure, definition.exclusive) == ("fail", "fail", True)
    assert (definition.timeout_ms, definition.retention_ms) == (3_600_000, 50)
    assert definition.output is not None
    assert definition.output.render(Seen(work=[1])) == [1]
    ((pointer, value),) = definition.updates
    assert (pointer, value.render(Seen({"x": 2}))) == ("/a/b", 2)
    assert definition.finish_references == References(frozenset({"input", "state"}), frozenset({"work"}))


@pytest.mark.parametrize(
    ("effect", "given", "delivery"),
    [
        ("read_only", None, "at_least_once"),
        ("idempotent_write", None, "at_least_once"),
        ("non_idempotent_write", None, "at_most_once"),
        ("read_only", "at_most_once", "at_most_once"),
        ("idempotent_write", "at_most_once", "at_most_once"),
        ("non_idempotent_write", "at_most_once", "at_most_once"),
    ],
)
def test_delivery_follows_the_effect_and_asks_for_a_start(effect: str, given: str | None, delivery: str) -> None:
    fields = {} if given is None else {"delivery": given}
    step = compiled({"id": "a", "effect": effect, **fields}).steps[0]
    assert (step.delivery, step.start_required) == (delivery, delivery == "at_most_once")


def test_needs_are_the_step_before_unless_written() -> None:
    steps = compiled(
        read("a"), read("b"), read("c", needs=["a"]), read("d", needs=[]), read("e", needs=["d", "b"])
    ).steps
    assert [step.needs for step in steps] == [(), (0,), (0,), (), (3, 1)]
    assert [step.written_needs for step in steps] == [False, False, True, False, True]
    assert [step.successors for step in steps] == [(1, 2), (4,), (), (4,), ()]
    assert [step.ancestors for step in steps] == [(), (0,), (0,), (), (3, 1, 0)]


def test_a_step_may_need_a_later_one() -> None:
    steps = compiled(read("a", needs=["c"]), read("b", needs=["a"]), read("c", needs=[])).steps
    assert [step.ancestors for step in steps] == [(2,), (0, 2), ()]


def test_ancestors_come_nearest_first_and_later_ones_first_at_one_distance() -> None:
    steps = compiled(
        read("a"),
        read("b", needs=["a"]),
        read("c", needs=["a"]),
        read("d", needs=["b"]),
        read("e", needs=["c", "d"]),
    ).steps
    assert steps[4].ancestors == (3, 2, 1, 0)


def test_references_of_a_step_are_those_of_its_condition_and_its_input() -> None:
    steps = compiled(
        read("a", input_schema={"type": "object"}),
        read(
            "b", when="steps.a.status == 'skipped'", input={"x": {"$cel": "state.y"}, "z": {"$cel": "steps.a.output"}}
        ),
        read("c", catch=[{"class": "*", "value": {"$cel": "steps.b.output"}}]),
    ).steps
    assert steps[0].references == References(roots=frozenset({"input"}))
    assert steps[1].references == References(frozenset({"state"}), frozenset({"a"}), frozenset({"a"}))
    assert steps[2].references == References()


def test_a_condition_is_a_boolean() -> None:
    step = compiled(read(when="input.x > 1")).steps[0]
    assert step.when is not None
    assert step.when.evaluate(Seen({"x": 2})) is True


def test_schemas_judge() -> None:
    definition = compiled(
        read(input_schema={"type": "integer"}, output_schema={"type": "string"}), input_schema=True, state_schema=False
    )
    step = definition.steps[0]
    assert step.input_schema is not None
    assert step.output_schema is not None
    assert definition.input_schema is not None
    assert definition.state_schema is not None
    assert (step.input_schema.first_fault(1), step.output_schema.first_fault("x")) == (None, None)
    assert step.output_schema.first_fault(1) is not None
    assert definition.input_schema.first_fault(1) is None
    assert definition.state_schema.first_fault({}) is not None
    assert definition.finish_references == References(roots=frozenset({"state"}))


DEFAULTS_OF_A_STEP: dict[str, Any] = {
    "kind": "task",
    "needs": [],
    "when": "true",
    "input": {"$cel": "input"},
    "input_schema": None,
    "output_schema": None,
    "delivery": "at_least_once",
    "retry": {"max_attempts": 3, "initial_seconds": 2, "factor": 2, "max_seconds": 60},
    "timeout_seconds": 86400,
    "queue_timeout_seconds": None,
    "priority": 0,
    "foreach": None,
    "max_parallel": None,
    "repeat": None,
    "compensate": None,
    "catch": [],
    "manual_result": "allowed",
}
DEFAULTS: dict[str, Any] = {
    "input_schema": None,
    "state_schema": None,
    "outcome": None,
    "updates": [],
    "output": None,
    "timeout_seconds": None,
    "on_restart": "resume",
    "on_failure": "reconcile",
    "exclusive": False,
    "retention_seconds": None,
}


@pytest.mark.parametrize("field", DEFAULTS_OF_A_STEP)
def test_a_default_of_a_step_written_out_changes_no_digest(field: str) -> None:
    assert compiled(read(**{field: DEFAULTS_OF_A_STEP[field]})).digest == compiled(read()).digest


@pytest.mark.parametrize("field", DEFAULTS)
def test_a_default_written_out_changes_no_digest(field: str) -> None:
    assert compiled(read(), **{field: DEFAULTS[field]}).digest == compiled(read()).digest


def test_all_defaults_written_out_and_the_order_of_names_change_no_digest() -> None:
    full = {**dict(reversed(DEFAULTS_OF_A_STEP.items())), **read()}
    assert compiled(full, **DEFAULTS).digest == compiled(read()).digest


def test_the_digest_leaves_out_what_says_nothing_about_the_work() -> None:
    plain = compiled(read(input_schema={"properties": {"title": {"type": "string"}}}))
    told = compiled(
        read(input_schema={"title": "T", "properties": {"title": {"type": "string", "description": "D"}}}),
        version="7",
        description="it is for this",
    )
    assert told.digest == plain.digest
    assert told.version == "7"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (read("a"), read("b")),
        (read(), write()),
        (read(), read(priority=1)),
        (read(), read(input=None)),
        (read(input={"a": 1}), read(input={"a": 1.0})),
        (read(), read(retry={"max_attempts": 4})),
        (read(), read(catch=[{"class": "*"}])),
        (read(output_schema={"properties": {"title": True}}), read(output_schema={"properties": {}})),
        (read(output_schema={"const": {"title": 1}}), read(output_schema={"const": {}})),
        (read(input={"description": "x"}), read(input={})),
    ],
)
def test_what_changes_the_work_changes_the_digest(one: Any, other: Any) -> None:
    assert compiled(one).digest != compiled(other).digest


def test_needs_written_out_are_the_default() -> None:
    assert compiled(read("a"), read("b")).digest == compiled(read("a"), read("b", needs=["a"])).digest
    assert compiled(read("a"), read("b")).digest != compiled(read("a"), read("b", needs=[])).digest


def test_the_digest_is_made_of_the_definition_with_every_default_written_out() -> None:
    definition = compiled(
        read("classify", retry={"max_attempts": 5}, output_schema={"type": "object", "title": "T"}),
        write("refund", when="steps.classify.output.label == 'billing'"),
        version="7",
        description="what it is for",
        outcome={"rules": [{"when": "true", "then": "done"}]},
        output={"label": {"$cel": "steps.classify.output.label"}},
    )
    classify = {
        **DEFAULTS_OF_A_STEP,
        **read("classify", output_schema={"type": "object"}),
        "retry": {"max_attempts": 5, "initial_seconds": 2, "factor": 2, "max_seconds": 60},
        "lease_seconds": None,
        "reclaim_seconds": None,
    }
    refund = {
        **DEFAULTS_OF_A_STEP,
        **write("refund", when="steps.classify.output.label == 'billing'"),
        "needs": ["classify"],
        "delivery": "at_most_once",
        "lease_seconds": None,
        "reclaim_seconds": None,
    }
    full = {
        **DEFAULTS,
        "steps": [classify, refund],
        "outcome": {"hit_policy": "first", "rules": [{"id": "0", "when": "true", "then": "done"}]},
        "output": {"label": {"$cel": "steps.classify.output.label"}},
    }
    assert definition.digest == digest(encode(full))
    assert definition.digest == "54ed801bed78a530c10ea2e9673f1b6ffb797a69f8330f2a06389152527a39e2"


def test_the_largest_graph_is_compiled() -> None:
    names = [f"{place:03x}" for place in range(500)]
    steps = [read(name, needs=names[max(0, place - 60) : place]) for place, name in enumerate(names)]
    definition = compiled(*steps)
    assert definition.steps[499].ancestors[:3] == (498, 497, 496)
    assert len(definition.steps[499].ancestors) == 499


def test_a_definition_is_kept_as_it_came() -> None:
    raw = b'{ "steps": [ {"id": "a", "effect": "read_only"} ] }'
    definition = compile_definition("flow", raw, LIMITS)
    assert not isinstance(definition, list)
    assert definition.raw == raw
    assert definition.digest == compiled(read("a")).digest
