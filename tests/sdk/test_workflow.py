"""From decorated functions to a definition: what it says, what types add to it, what is refused where it is written."""

from dataclasses import dataclass
from typing import Any, TypedDict

import msgspec
import pytest
from pydantic import BaseModel

from stepd_worker import Context, Retry, Worker, Workflow, cel


class Struct(msgspec.Struct):
    amount: int
    currency: str = "EUR"


@dataclass
class Data:
    amount: int


class Typed(TypedDict):
    amount: int


class Model(BaseModel):
    amount: int


def test_a_definition_says_only_what_was_said() -> None:
    support = Workflow("support")

    @support.step(effect="read_only", retry=Retry(max_attempts=5))
    async def classify(ctx: Context, input: Any) -> None: ...

    @support.step(
        "refund-it",
        effect="non_idempotent_write",
        when="steps.classify.output.label == 'billing'",
        needs="classify",
        input={"label": cel("steps.classify.output.label")},
        timeout_seconds=None,
    )
    def refund(ctx: Context, input: Any, steps: Any) -> None: ...

    assert support.definition() == {
        "steps": [
            {
                "id": "classify",
                "effect": "read_only",
                "retry": {"max_attempts": 5, "initial_seconds": 2.0, "factor": 2.0, "max_seconds": 60.0},
            },
            {
                "id": "refund-it",
                "effect": "non_idempotent_write",
                "when": "steps.classify.output.label == 'billing'",
                "needs": ["classify"],
                "input": {"label": {"$cel": "steps.classify.output.label"}},
                "timeout_seconds": None,
            },
        ]
    }
    assert (support.bodies["classify"].is_async, support.bodies["classify"].takes_steps) == (True, False)
    assert (support.bodies["refund-it"].is_async, support.bodies["refund-it"].takes_steps) == (False, True)


def _all_kinds() -> Workflow:
    flow = Workflow(
        "flow",
        "7",
        description="all of it",
        input_schema=Struct,
        outcome={"rules": [{"when": "true", "then": "fine"}]},
        updates=[{"path": "/done", "value": True}],
        output=cel("steps.each.output"),
        on_failure="compensate",
    )
    flow.task("each", effect="idempotent_write", foreach="input.items", max_parallel=4, compensate="undo")
    flow.task("undo", effect="idempotent_write")
    flow.wait("approved", event="approval", timeout_seconds=60, on_timeout="skip", needs=[])
    flow.sleep("rest", seconds=5)
    flow.decision("route", rules=[{"id": "a", "when": "true", "then": 1}], hit_policy="collect", default=0)
    flow.workflow("child", workflow="other", input={"a": 1}, repeat={"until": "last.done", "max": 3})
    return flow


def test_the_rest_of_the_definition_language() -> None:
    definition = _all_kinds().definition()
    assert definition["version"] == "7"
    assert definition["input_schema"]["$defs"]["Struct"]["required"] == ["amount"]
    assert [step.get("kind", "task") for step in definition["steps"]] == [
        "task",
        "task",
        "wait",
        "sleep",
        "decision",
        "workflow",
    ]  # fmt: skip — one row of words reads better
    assert definition["steps"][2] == {
        "id": "approved",
        "kind": "wait",
        "needs": [],
        "event": "approval",
        "timeout_seconds": 60,
        "on_timeout": "skip",
    }
    assert definition["steps"][4]["rules"] == [{"then": 1, "id": "a", "when": "true"}]


@pytest.mark.parametrize("kind", [Struct, Data, Typed, Model])
def test_a_typed_input_gives_its_schema_and_arrives_as_its_type(kind: Any) -> None:
    flow = Workflow("flow")

    def body(ctx: Context, input: Any) -> None: ...

    body.__annotations__["input"] = kind
    flow.step(effect="read_only")(body)
    schema = flow.definition()["steps"][0]["input_schema"]
    named = schema.get("$defs", {}).get(kind.__name__, schema)
    assert named["properties"]["amount"]["type"] == "integer"
    typed = flow.bodies["body"].input_type
    assert typed is not None
    value = typed.decode(b'{"amount": 3}')
    assert (value["amount"] if kind is Typed else value.amount) == 3
    assert isinstance(value, dict if kind is Typed else kind)
    with pytest.raises(ValueError, match="amount"):
        typed.decode(b'{"amount": "three"}')


def test_a_schema_that_is_given_wins_over_the_type() -> None:
    flow = Workflow("flow")

    @flow.step(effect="read_only", input_schema={"type": "object"})
    def body(ctx: Context, input: Struct) -> None: ...

    assert flow.definition()["steps"][0]["input_schema"] == {"type": "object"}


def test_an_annotation_in_text_is_looked_up_where_the_body_was_made() -> None:
    flow = Workflow("flow")

    @dataclass
    class Local:
        amount: int

    @flow.step(effect="read_only")
    def body(ctx: "NowhereToBeFound", input: "Local") -> "Local":  # type: ignore[name-defined] # noqa: F821 — only the input's annotation may be needed
        return Local(1)

    typed = flow.bodies["body"].input_type
    assert typed is not None
    assert typed.decode(b'{"amount": 2}') == Local(2)


def test_an_untyped_input_gives_no_schema() -> None:
    flow = Workflow("flow")

    @flow.step(effect="read_only")
    def bare(ctx, input):  # type: ignore[no-untyped-def] # as most first bodies are written
        return None

    assert flow.definition() == {"steps": [{"id": "bare", "effect": "read_only"}]}


def _declare(flow: Workflow, **options: Any) -> None:
    @flow.step(**options)
    def body(ctx: Context, input: Any) -> None: ...


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"effect": "readonly"}, r"step 'body' of 'flow'.*readonly.*effect"),
        ({"effect": "read_only", "needs": ["a b"]}, r"step 'body'.*needs"),
        ({"effect": "read_only", "priority": 101}, r"step 'body'.*priority"),
        ({"effect": "read_only", "catch": [{"klass": "x"}]}, r"step 'body'.*(klass|class)"),
        ({"effect": "read_only", "id": "no id"}, r"step 'no id'"),
    ],
)
def test_faults_are_told_where_the_step_is_declared(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        _declare(Workflow("flow"), **options)


def test_an_id_can_be_given_once() -> None:
    flow = Workflow("flow")
    _declare(flow, effect="read_only")
    with pytest.raises(ValueError, match="two steps 'body'"):
        _declare(flow, effect="read_only")


def test_a_body_must_be_callable_as_bodies_are() -> None:
    flow = Workflow("flow")
    with pytest.raises(TypeError, match=r"\(ctx, input\) or \(ctx, input, steps\)"):
        flow.step(effect="read_only")(lambda ctx: None)

    def stream(ctx: Context, input: Any) -> Any:
        yield 1

    with pytest.raises(TypeError, match="generator"):
        flow.step(effect="read_only")(stream)


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="'no name'"):
        Workflow("no name")


def test_a_workflow_without_steps_is_no_definition() -> None:
    with pytest.raises(ValueError, match="'flow' is not valid"):
        Workflow("flow").definition()


def test_a_worker_with_some_bodies_says_which() -> None:
    flow = Workflow("flow")
    _declare(flow, effect="read_only")
    assert (flow.serves("1").version, flow.serves("1").steps) == ("1", None)
    flow.task("elsewhere", effect="read_only")
    flow.wait("later", event="e")
    assert flow.serves("1").steps == ["body"]


def test_a_workflow_that_needs_no_body_is_served_without_one() -> None:
    flow = Workflow("flow")
    flow.wait("later", event="e")
    assert flow.tasks == ()
    Worker("http://127.0.0.1:1").register(flow)
    flow.task("elsewhere", effect="read_only")
    with pytest.raises(ValueError, match="'flow' has no body here"):
        Worker("http://127.0.0.1:1").register(flow)
