"""The graph: needs, conditions, skipped steps, templates, and what fails before any lease."""

import time

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Json
from tests.support.definitions import cel, read, safe_write, write
from tests.support.flow import Flow, Run
from tests.support.wait import beside


def finish(work: Flow, *steps: str) -> None:
    """Completes these steps, one after the other."""
    for id in steps:
        work.claim_step(id).complete(id).expect(200)


def error_of(run: Run) -> tuple[str, str, str]:
    view = run.view()
    return view["status"], view["error"]["class"], view["error"]["step"]


def test_steps_follow_each_other_by_default(flow: MakeFlow) -> None:
    work = flow(read("a"), read("b"), read("c"))
    run = work.start()
    assert run.statuses() == {"a": "queued", "b": "pending", "c": "pending"}
    assert [lease.step for lease in work.claim(max=10)] == ["a"]


def test_steps_without_needs_begin_at_once_and_in_their_order(flow: MakeFlow) -> None:
    work = flow(*(read(id, needs=[]) for id in "cab"))
    work.start()
    assert {lease.step for lease in work.claim(max=10)} == {"a", "b", "c"}


def test_a_step_begins_when_all_that_it_needs_has_succeeded(flow: MakeFlow) -> None:
    work = flow(read("a", needs=[]), read("b", needs=[]), read("join", needs=["a", "b"]))
    run = work.start()
    finish(work, "a")
    assert run.statuses()["join"] == "pending"
    finish(work, "b")
    assert run.statuses()["join"] == "queued"
    finish(work, "join")
    assert run.view()["status"] == "completed"


def test_needs_may_name_a_later_step(flow: MakeFlow) -> None:
    work = flow(read("last", needs=["first"]), read("first", needs=[]))
    run = work.start()
    assert run.statuses() == {"last": "pending", "first": "queued"}
    finish(work, "first", "last")
    assert run.view()["status"] == "completed"


def test_a_false_condition_skips_and_the_next_one_runs(flow: MakeFlow) -> None:
    work = flow(read("a", when="input.go"), read("b", input={"a": cel("steps.a.output"), "was": cel("steps.a.status")}))
    run = work.start(input={"go": False})
    assert run.statuses() == {"a": "skipped", "b": "queued"}
    assert "step.skipped" in run.types()
    assert work.claim_one().data["input"] == {"a": None, "was": "skipped"}
    run = work.start(input={"go": True})
    assert run.statuses() == {"a": "queued", "b": "pending"}


def test_a_step_whose_written_needs_were_all_skipped_is_skipped_too(flow: MakeFlow) -> None:
    work = flow(
        read("no", needs=[], when="false"),
        read("neither", needs=[], when="1 > 2"),
        read("yes", needs=[]),
        read("after-both", needs=["no", "neither"]),
        read("after-one", needs=["no", "yes"]),
        read("after-after", needs=["after-both"]),
    )
    run = work.start()
    finish(work, "yes")
    assert run.statuses() == {
        "no": "skipped",
        "neither": "skipped",
        "yes": "succeeded",
        "after-both": "skipped",
        "after-one": "queued",
        "after-after": "skipped",
    }
    finish(work, "after-one")
    assert run.view()["status"] == "completed"


def test_all_skipped_is_completed_without_any_worker(flow: MakeFlow) -> None:
    work = flow(read("a", when="false"), write("b", when="false"), output=cel("steps.a.status"))
    run = work.start()
    view = run.view()
    assert (view["status"], view["output"]) == ("completed", "skipped")
    assert view["blocked"] is None


def test_a_condition_sees_state_outputs_and_the_execution(flow: MakeFlow) -> None:
    work = flow(
        read("a"),
        read("b", when="steps.a.output.label == 'billing' && state.seen == 1 && execution.correlation == 'c'"),
        read("c", when="steps.b.status == 'succeeded'"),
    )
    run = work.start(correlation="c")
    work.claim_one().complete({"label": "billing"}, state={"seen": 1}).expect(200)
    finish(work, "b")
    assert run.statuses()["c"] == "queued"


def test_a_template_sees_all_that_it_may(flow: MakeFlow) -> None:
    template = {
        "input": cel("input.n + 1"),
        "state": cel("state.s"),
        "output": [cel('steps["first-step"].output.x')],
        "status": cel('steps["first-step"].status'),
        "id": cel("execution.id"),
        "correlation": cel("execution.correlation"),
        "text": cel("'n is ' + string(input.n)"),
        "fixed": {"a": [1, 2.5, None, True]},
    }
    work = flow(read("first-step"), read("second", input=template))
    run = work.start(input={"n": 1}, state={"s": "S"}, correlation="corr")
    work.claim_one().complete({"x": [1.0]}).expect(200)
    assert work.claim_one().data["input"] == {
        "input": 2,
        "state": "S",
        "output": [[1.0]],
        "status": "succeeded",
        "id": run.id,
        "correlation": "corr",
        "text": "n is 1",
        "fixed": {"a": [1, 2.5, None, True]},
    }


def test_the_input_left_out_is_the_execution_s(flow: MakeFlow) -> None:
    work = flow(read("a"), read("b", input=None))
    work.start(input={"x": 1})
    lease = work.claim_one()
    assert lease.data["input"] == {"x": 1}
    lease.complete().expect(200)
    assert work.claim_one().data["input"] is None


EXPRESSIONS: dict[str, str] = {
    "division by zero": "1 / input.zero == 1",
    "a missing name": "input.nothing == 1",
    "a missing place": "input.list[5] == 1",
    "a wrong type": "input.text + 1 == 2",
    "beyond int64": "input.max + 1 > 0",
    "an integer beyond int64": "input.big + 1 > 0",
    "no bool": "input.zero",
}
VALUES: dict[str, Json] = {"zero": 0, "list": [1], "text": "x", "max": 2**63 - 1, "big": 10**40}


@pytest.mark.parametrize("kind", EXPRESSIONS)
def test_a_condition_that_cannot_be_computed_fails_the_step(flow: MakeFlow, kind: str) -> None:
    work = flow(read(when=EXPRESSIONS[kind]))
    run = work.start(input=VALUES)
    assert error_of(run) == ("failed", "expression_failed", "work")
    work.assert_idle()


def test_an_input_that_cannot_be_computed_fails_the_step(flow: MakeFlow) -> None:
    work = flow(read("a"), write("b", input={"x": cel("steps.a.output.missing")}))
    run = work.start()
    answer = work.claim_one().complete({}).expect(200)
    assert answer["execution"]["status"] == "failed"
    assert error_of(run) == ("failed", "expression_failed", "b")


def test_a_failed_expression_may_be_caught(flow: MakeFlow) -> None:
    work = flow(
        read("a", input=cel("input.missing"), catch=[{"class": "expression_failed", "value": "caught"}]),
        read("b", input=cel("steps.a.output")),
    )
    run = work.start(input={})
    step = run.step("a")
    assert (step["status"], step["caught"]) == ("succeeded", True)
    assert work.claim_one().data["input"] == "caught"


def test_an_input_that_breaks_its_schema_fails_the_step_before_any_lease(flow: MakeFlow) -> None:
    work = flow(write(input_schema={"type": "object"}))
    run = work.start(input=5)
    assert error_of(run) == ("failed", "invalid_input", "work")
    assert "attempt.leased" not in run.types()


def test_an_input_over_its_limit_fails_the_step(flow: MakeFlow) -> None:
    work = flow(read(input=[cel("input")] * 2))
    run = work.start(input="x" * 200_000)
    assert error_of(run) == ("failed", "invalid_input", "work")


def test_a_failure_before_any_lease_needs_no_operator_though_it_is_a_write(flow: MakeFlow) -> None:
    work = flow(safe_write(input=cel("input.missing")))
    run = work.start(input={})
    view = run.view()
    assert (view["status"], view["steps"][0]["status"]) == ("failed", "failed")


def test_catch_takes_the_first_that_fits(flow: MakeFlow) -> None:
    catch = [
        {"class": "card_declined", "value": "declined"},
        {"class": "*", "value": {"any": cel("input.n")}},
        {"class": "fatal", "value": "too late"},
    ]
    for kind, expected in (("card_declined", "declined"), ("fatal", {"any": 7}), ("other", {"any": 7})):
        work = flow(read(catch=catch), output=cel("steps.work.output"))
        run, lease = work.begin(input={"n": 7})
        assert lease.fail(kind).expect(200)["disposition"] == "caught"
        assert run.view()["output"] == expected


def test_what_is_not_named_is_not_caught(flow: MakeFlow) -> None:
    work = flow(read(catch=[{"class": "card_declined", "value": 1}]))
    run, lease = work.begin()
    assert lease.fail("fatal").expect(200)["disposition"] == "step_failed"
    assert error_of(run) == ("failed", "fatal", "work")


def test_a_caught_value_must_fit_the_output_schema(flow: MakeFlow) -> None:
    work = flow(read(output_schema={"type": "string"}, catch=[{"class": "*", "value": 5}]))
    run, lease = work.begin()
    lease.fail("fatal").expect(200)
    view = run.view()
    assert view["status"] == "failed"
    assert view["steps"][0]["status"] == "failed"


@pytest.mark.parametrize(
    "expression",
    [
        "input.list.all(x, x >= 0)",
        "input.list.map(x, x + 1).size() > 0",
        "input.list.filter(x, input.list.size() > x).size() > 0",
        "input.text.matches('(x+x+)+y')",
        "input.list.exists(x, x == -1) || input.text.contains('zz')",
    ],
)
def test_no_expression_holds_the_daemon(flow: MakeFlow, expression: str) -> None:
    """A list and a text as large as an input may be: the answer comes, and soon, be it a value or a failure."""
    work = flow(read(when=expression))
    before = time.monotonic()
    run = work.start(input={"list": list(range(20_000)), "text": "x" * 100_000})
    assert time.monotonic() - before < 2
    view = run.view()
    assert view["status"] in ("queued", "completed", "failed")
    if view["status"] == "failed":
        assert view["error"]["class"] == "expression_failed"


COSTLY = cel("input.map(x, x + 1)")
LARGE: dict[str, tuple[list[Json], dict[str, Json]]] = {
    "many conditions": ([read(f"s{n}", needs=[], when="input.map(x, x + 1).size() > 0") for n in range(500)], {}),
    "many inputs": ([read(f"s{n}", needs=[], input=COSTLY) for n in range(500)], {}),
    "many updates": ([read(when="false")], {"updates": [{"path": f"/u{n}", "value": COSTLY} for n in range(1000)]}),
    "one large output": ([read(when="false")], {"output": [COSTLY] * 1000}),
}


@pytest.mark.parametrize("kind", LARGE)
def test_no_definition_holds_the_daemon(flow: MakeFlow, kind: str) -> None:
    """Expressions that are each within their bounds, and many of them: others are answered meanwhile."""
    steps, fields = LARGE[kind]
    work = flow(*steps, **fields)
    starting = beside(lambda: work.attempt_start(input=list(range(1000))))
    longest = 0.0
    while not starting.done():
        before = time.monotonic()
        assert work.http.get("/healthz").status == 200
        longest = max(longest, time.monotonic() - before)
    assert starting.result().status == 202
    assert longest < 2, f"the daemon stood still for {longest:.1f} s"


def test_a_wide_graph_ends_once(flow: MakeFlow) -> None:
    names = [f"s{number}" for number in range(50)]
    work = flow(read("root", needs=[]), *(read(name, needs=["root"]) for name in names), read("end", needs=names))
    run = work.start()
    finish(work, "root")
    leases = work.claim(max=100)
    assert len(leases) == 50
    for lease in leases:
        lease.complete().expect(200)
    finish(work, "end")
    assert run.view()["status"] == "completed"
