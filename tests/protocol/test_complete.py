"""Complete: what it answers, what it does to step, execution and state, and what it refuses without harm."""

from functools import partial

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Json
from tests.support.definitions import ONCE, brief, cel, read, safe_write, write
from tests.support.times import instant
from tests.support.wait import moment, together


def test_a_completion_answers_with_all_of_it(flow: MakeFlow) -> None:
    work = flow(read("a"), read("b"))
    run, lease = work.begin()
    answer = lease.complete({"x": 1}).expect(200)
    assert answer["late"] is False
    assert answer["replayed"] is False
    assert answer["execution"] == {"id": run.id, "status": "running"}
    assert answer["leases"] == []
    assert answer["held_seconds"] == 0
    assert answer["warnings"] == []
    assert run.statuses() == {"a": "succeeded", "b": "queued"}


def test_the_last_completion_says_that_the_execution_is_completed(flow: MakeFlow) -> None:
    work = flow(read(), output=cel("steps.work.output"))
    run, lease = work.begin()
    assert lease.complete([1]).expect(200)["execution"] == {"id": run.id, "status": "completed"}
    view = run.view()
    assert (view["status"], view["output"], view["error"]) == ("completed", [1], None)
    assert instant(view["ended_at"]) >= instant(view["started_at"]) >= instant(view["created_at"])


def test_state_is_a_patch_of_top_level_keys(flow: MakeFlow) -> None:
    work = flow(read("a"), read("b"), read("c"))
    run = work.start(state={"keep": 1, "replace": {"x": 1, "y": 2}, "null": 1})
    assert run.view()["revision"] == 1
    work.claim_one().complete(state={"replace": {"z": 3}, "null": None, "new": 1.0}).expect(200)
    view = run.view()
    assert view["state"] == {"keep": 1, "replace": {"z": 3}, "null": None, "new": 1.0}
    assert view["revision"] == 2
    work.claim_one().complete().expect(200)
    assert run.view()["revision"] == 2, "a completion without a patch changes no state"
    work.claim_one().complete().expect(200)
    view = run.view()
    assert view["revision"] == 3, "the end is one more"
    assert view["state"]["keep"] == 1


@pytest.mark.parametrize("state", [[], "x", 5, True])
def test_a_state_that_is_no_object_is_refused_and_settles_nothing(flow: MakeFlow, state: Json) -> None:
    work = flow(write())
    run, lease = work.begin()
    lease.begin()
    problem = lease.complete(state=state).expect_problem(422, "invalid_request")
    assert "settled" not in problem
    lease.heartbeat().expect(200)
    lease.complete().expect(200)
    assert run.view()["status"] == "completed"


def test_what_is_refused_leaves_the_lease_as_it_was(flow: MakeFlow) -> None:
    work = flow(write())
    run, lease = work.begin()
    lease.begin()
    path = f"/v1/leases/{lease.id}/complete"
    lease.http.send("POST", path, raw=b'{"fence": 1, "output": NaN}').expect_problem(400, "malformed_json")
    headers = {"Content-Type": "text/plain"}
    body = b'{"fence": %d, "output": 1}' % lease.fence
    lease.http.send("POST", path, raw=body, headers=headers).expect_problem(415, "unsupported_media_type")
    lease.complete(["x" * 250_000] * 5).expect_problem(413, "payload_too_large")
    assert "settled" not in lease.complete(colour=1).expect_problem(422, "invalid_request")
    assert run.step()["status"] == "running"
    lease.heartbeat().expect(200)
    lease.complete().expect(200)


@pytest.mark.parametrize("step", [read(), safe_write(), write()])
def test_a_late_completion_is_accepted_until_it_is_taken_back(flow: MakeFlow, step: Json) -> None:
    work = flow({**step, **brief(0.5)})
    run, lease = work.begin()
    lease.begin()
    moment(0.6)
    answer = lease.complete("done").expect(200)
    assert answer["late"] is True
    assert answer["replayed"] is False
    assert run.view()["status"] == "completed"
    assert "attempt.late" in run.types()
    assert lease.complete("done").expect(200)["late"] is True, "said again, it is answered as it was then"


def test_a_completion_in_time_is_not_late(flow: MakeFlow) -> None:
    work = flow(read())
    run, lease = work.begin()
    assert lease.complete().expect(200)["late"] is False
    assert "attempt.late" not in run.types()


SCHEMA = {"type": "object", "required": ["label"], "properties": {"label": {"type": "string"}}}


def test_an_output_that_breaks_its_schema_settles_a_read_as_failed(flow: MakeFlow) -> None:
    work = flow(read(output_schema=SCHEMA))
    run, lease = work.begin()
    answer = lease.complete({"label": 5})
    problem = answer.expect_problem(422, "invalid_output")
    assert problem["settled"]
    assert problem["errors"], "the place of the fault is told"
    view = run.view()
    assert view["status"] == "failed"
    assert (view["error"]["class"], view["error"]["step"]) == ("invalid_output", "work")
    again = lease.complete({"label": 5}).expect_problem(422, "invalid_output")
    assert again["replayed"] is True
    assert again["settled"] == problem["settled"]
    lease.complete({"label": "x"}).expect_refusal("already_settled")


@pytest.mark.parametrize("step", [safe_write(output_schema=SCHEMA), write(output_schema=SCHEMA)])
def test_an_output_that_breaks_its_schema_leaves_a_write_applied(flow: MakeFlow, step: Json) -> None:
    work = flow(step)
    run, lease = work.begin()
    lease.begin()
    assert lease.complete({}).expect_problem(422, "invalid_output")["settled"]
    view = run.view()
    assert view["status"] == "reconciliation_required"
    assert view["steps"][0]["status"] == "uncertain"
    assert view["steps"][0]["error"]["class"] == "invalid_output"
    work.assert_idle()


def test_an_output_that_fits_its_schema_is_accepted(flow: MakeFlow) -> None:
    work = flow(read(output_schema=SCHEMA))
    _, lease = work.begin()
    lease.complete({"label": "x", "more": 1}).expect(200)


def test_an_invalid_output_of_a_read_may_be_caught(flow: MakeFlow) -> None:
    work = flow(
        read(output_schema=SCHEMA, catch=[{"class": "invalid_output", "value": {"label": "none"}}]),
        output=cel("steps.work.output"),
    )
    run, lease = work.begin()
    assert lease.complete(5).expect_problem(422, "invalid_output")["settled"]
    view = run.view()
    assert (view["status"], view["output"]) == ("completed", {"label": "none"})
    assert view["steps"][0]["caught"] is True


def test_an_output_over_its_limit_settles(flow: MakeFlow) -> None:
    work = flow(read(retry=ONCE))
    limit = 256 * 1024
    run, lease = work.begin()
    assert lease.complete("x" * (limit - 1)).expect_problem(422, "invalid_output")["settled"]
    assert run.view()["error"]["class"] == "invalid_output"
    _, lease = work.begin()
    lease.complete("x" * (limit - 2)).expect(200)


def test_a_state_over_its_limit_settles(flow: MakeFlow) -> None:
    work = flow(read("a"), safe_write("b"))
    run = work.start(state={"big": "x" * 200_000})
    first = work.claim_one()
    first.complete(state={"more": "x" * 10_000}).expect(200)
    second = work.claim_one()
    assert second.complete(state={"much": "x" * 100_000}).expect_problem(422, "invalid_output")["settled"]
    view = run.view()
    assert view["status"] == "reconciliation_required"
    assert "much" not in view["state"]


def test_an_invalid_output_is_never_retried(flow: MakeFlow) -> None:
    work = flow(read(output_schema=SCHEMA, retry={"max_attempts": 5, "initial_seconds": 0}))
    run, lease = work.begin()
    assert lease.complete(1).expect_problem(422, "invalid_output")["settled"]
    assert run.view()["status"] == "failed"


def test_of_two_different_completions_at_once_one_counts(flow: MakeFlow) -> None:
    for _ in range(10):
        work = flow(read(), output=cel("steps.work.output"))
        run, lease = work.begin()
        answers = together([partial(lease.complete, "a"), partial(lease.complete, "b")])
        assert sorted(answer.status for answer in answers) == [200, 409]
        winner = "ab"[[answer.status for answer in answers].index(200)]
        assert run.view()["output"] == winner
        answers[1 - "ab".index(winner)].expect_refusal("already_settled")
