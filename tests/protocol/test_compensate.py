"""Compensations by HTTP: what undoes a write runs as an ordinary task, and the execution ends after it."""

from tests.protocol.conftest import MakeFlow
from tests.support.client import Json
from tests.support.definitions import cel, read, safe_write
from tests.support.flow import Flow, Run


def booking(flow: MakeFlow, **undo: Json) -> Flow:
    return flow(
        safe_write("book", compensate="undo"), safe_write("undo", **undo), read("confirm"), on_failure="compensate"
    )


def failing(work: Flow) -> Run:
    """A booking that was made, and a confirmation that failed."""
    run = work.start(input={"trip": 7})
    work.claim_step("book").complete({"id": "b-1"}).expect(200)
    work.claim_step("confirm").fail("fatal").expect(200)
    return run


def test_what_succeeded_is_undone_and_then_the_execution_has_failed(flow: MakeFlow) -> None:
    work = booking(flow)
    run = failing(work)
    view = run.view()
    assert (view["status"], view["direction"]) == ("failing", "compensate")
    assert view["standing_writes"] == [{"step": "book", "index": None}]
    assert run.event("step.compensating")["step"] == "book"
    lease = work.claim_step("undo")
    assert lease.data["input"] == {"input": {"trip": 7}, "output": {"id": "b-1"}}
    assert lease.data["steps"]["book"]["output"] == {"id": "b-1"}
    assert lease.data["idempotency_key"] == f"{run.id}:undo"
    assert lease.heartbeat().expect(200)["cancel"] is None
    told = lease.complete().expect(200)
    assert told["execution"]["status"] == "failed"
    view = run.view()
    assert (view["standing_writes"], run.statuses()["undo"]) == ([], "succeeded")


def test_a_compensation_that_is_not_called_is_skipped(flow: MakeFlow) -> None:
    work = booking(flow)
    run = work.start()
    assert run.statuses()["undo"] == "pending"
    work.claim_step("book").complete().expect(200)
    work.claim_step("confirm").complete().expect(200)
    view = run.view()
    assert (view["status"], run.statuses()["undo"]) == ("completed", "skipped")


def test_a_cancel_undoes_what_succeeded(flow: MakeFlow) -> None:
    work = booking(flow, input={"id": cel("steps.book.output.id")})
    run = work.start()
    work.claim_step("book").complete({"id": "b-2"}).expect(200)
    assert run.cancel().expect(202)["direction"] == "compensate"
    lease = work.claim_step("undo")
    assert lease.data["input"] == {"id": "b-2"}
    lease.complete().expect(200)
    assert run.view()["status"] == "cancelled"


def test_one_that_fails_needs_an_operator_who_lets_it_run_again(flow: MakeFlow) -> None:
    work = booking(flow)
    run = failing(work)
    work.claim_step("undo").fail("fatal", effect="none").expect(200)
    assert run.view()["status"] == "reconciliation_required"
    answer = run.resolve("resume", results=[]).expect(200)
    assert (answer["status"], answer["direction"]) == ("failing", "compensate")
    work.claim_step("undo").complete().expect(200)
    assert run.view()["status"] == "failed"


def test_a_queued_compensation_that_nobody_serves_is_blocked(flow: MakeFlow) -> None:
    work = booking(flow)
    run = failing(work)
    assert run.view()["blocked"]["code"] == run.step("undo")["blocked"]["code"] == "no_worker"
    assert work.list(blocked="true")["items"][0]["id"] == run.id
    work.assert_idle(serves=[{"workflow": work.name, "steps": ["book"]}])
    work.claim_one().complete().expect(200)
    assert run.view()["blocked"] is None


def test_an_execution_undoes_nothing_twice(flow: MakeFlow) -> None:
    work = booking(flow)
    run = failing(work)
    lease = work.claim_step("undo")
    run.cancel(force=True).expect(202)
    assert run.view()["status"] == "reconciliation_required"
    lease.complete().expect_refusal("lease_lost")
    answer = run.resolve("resume", results=[{"step": "undo", "outcome": "as_reported"}]).expect(200)
    assert (answer["status"], answer["standing_writes"]) == ("cancelled", [])
    assert run.types().count("step.compensating") == 1


def trip(flow: MakeFlow, **child: Json) -> tuple[Flow, Flow]:
    """A child with a write, and a parent that can undo it."""
    below = flow(safe_write("book"), read("look"), output={"trip": cel("steps.book.output")}, **child)
    sub = {"id": "sub", "kind": "workflow", "workflow": below.name, "compensate": "undo"}
    return below, flow(sub, safe_write("undo"), read("confirm"), on_failure="compensate")


def test_what_a_child_left_standing_is_undone(flow: MakeFlow) -> None:
    below, above = trip(flow)
    run = above.start(input={"n": 1})
    below.claim_step("book").complete({"id": "b-1"}).expect(200)
    below.claim_step("look").complete().expect(200)
    above.claim_step("confirm").fail("fatal").expect(200)
    lease = above.claim_step("undo")
    assert lease.data["input"] == {"input": {"n": 1}, "output": {"trip": {"id": "b-1"}}}
    assert lease.complete().expect(200)["execution"]["status"] == "failed"
    assert run.view()["standing_writes"] == []


def test_a_child_that_failed_is_undone_where_it_left_writes(flow: MakeFlow) -> None:
    below, above = trip(flow, on_failure="fail")
    run = above.start()
    below.claim_step("book").complete({"id": "b-1"}).expect(200)
    below.claim_step("look").fail("fatal").expect(200)
    lease = above.claim_step("undo")
    assert lease.data["input"] == {"input": None, "output": None}
    assert lease.complete().expect(200)["execution"]["status"] == "failed"
    assert run.view()["standing_writes"] == []


def test_a_child_that_wrote_nothing_is_not_undone(flow: MakeFlow) -> None:
    below = flow(read())
    above = flow(
        {"id": "sub", "kind": "workflow", "workflow": below.name, "compensate": "undo"},
        safe_write("undo"),
        read("confirm"),
        on_failure="compensate",
    )
    run = above.start()
    below.claim_one().complete().expect(200)
    above.claim_step("confirm").fail("fatal").expect(200)
    assert (run.view()["status"], run.statuses()["undo"]) == ("failed", "skipped")
