"""Waits: a signal's payload is the output, one signal resumes one wait, and a time-out fails or skips."""

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Json
from tests.support.definitions import cel, read, safe_write, wait
from tests.support.times import seconds

INTEGER = {"type": "integer"}
TEXT = {"type": "string"}


def outputs(*ids: str) -> Json:
    return {"output": {id: cel(f"steps.{id}.output") for id in ids}}


def test_the_payload_is_the_output(flow: MakeFlow) -> None:
    work = flow(read("a"), wait("w", needs=["a"]), read("b", input=cel("steps.w.output")), **outputs("w"))
    run, lease = work.begin()
    lease.complete().expect(200)
    assert run.view()["status"] == "waiting"
    assert run.step("w")["status"] == "waiting"
    answer = run.signal("go", {"by": "ann", "n": 1.0}).expect(202)
    assert (answer["id"], answer["status"]) == (run.id, "running")
    lease = work.claim_one()
    assert lease.data["input"] == {"by": "ann", "n": 1.0}
    lease.complete().expect(200)
    assert run.view()["output"] == {"w": {"by": "ann", "n": 1.0}}
    types = run.types()
    told = ["wait.armed", "execution.waiting", "signal.received", "wait.resumed", "step.succeeded", "step.queued"]
    assert types[types.index("wait.armed") :][:6] == told


def test_a_payload_left_out_is_null(flow: MakeFlow) -> None:
    run = flow(wait("w"), **outputs("w")).start()
    run.http.post(f"{run.path}/signals", {"name": "go"}).expect(202)
    assert run.view()["output"] == {"w": None}


def test_signals_are_kept_until_their_wait_is_armed_and_come_first_first(flow: MakeFlow) -> None:
    work = flow(read("a"), wait("w1"), wait("w2"), **outputs("w1", "w2"))
    run, lease = work.begin()
    for number in (1, 2, 3):
        run.signal("go", number).expect(202)
    lease.complete().expect(200)
    view = run.view()
    assert (view["status"], view["output"]) == ("completed", {"w1": 1, "w2": 2})
    assert [(one["name"], one["payload"]) for one in view["signals_not_taken"]] == [("go", 3)]
    (item,) = work.list()["items"]
    assert [one["name"] for one in item["signals_not_taken"]] == ["go"]


def test_one_signal_resumes_one_wait_and_the_one_armed_first(flow: MakeFlow) -> None:
    work = flow(read("a"), wait("late", needs=["a"]), wait("early", needs=[]), **outputs("late", "early"))
    run, lease = work.begin()
    lease.complete().expect(200)
    run.signal("go", 1).expect(202)
    assert run.statuses() == {"a": "succeeded", "late": "waiting", "early": "succeeded"}
    run.signal("go", 2).expect(202)
    assert run.view()["output"] == {"late": 2, "early": 1}


def test_of_those_armed_together_the_earlier_in_the_definition_is_resumed(flow: MakeFlow) -> None:
    run = flow(wait("w1", needs=[]), wait("w2", needs=[]), **outputs("w1", "w2")).start()
    run.signal("go", 1).expect(202)
    run.signal("go", 2).expect(202)
    assert run.view()["output"] == {"w1": 1, "w2": 2}


def test_a_signal_resumes_a_wait_that_it_fits(flow: MakeFlow) -> None:
    work = flow(
        wait("number", needs=[], payload_schema=INTEGER),
        wait("text", needs=[], payload_schema=TEXT),
        **outputs("number", "text"),
    )
    run = work.start()
    run.signal("go", "x").expect(202)
    assert run.statuses() == {"number": "waiting", "text": "succeeded"}
    faults = run.signal("go", "y").expect_faults(422, "invalid_input")
    assert list(faults) == ["/payload"]
    assert run.types().count("signal.received") == 1
    run.signal("go", 5).expect(202)
    assert run.view()["output"] == {"number": 5, "text": "x"}


def test_a_kept_signal_waits_for_the_wait_that_it_fits(flow: MakeFlow) -> None:
    work = flow(
        read("a"),
        wait("number", payload_schema=INTEGER),
        wait("text", payload_schema={"type": "object", "required": ["t"]}),
        **outputs("number", "text"),
    )
    run, lease = work.begin()
    run.signal("go", {"t": 1}).expect(202)
    run.signal("go", 7).expect(202)
    assert list(run.signal("go", {}).expect_faults(422, "invalid_input")) == ["/payload"]
    lease.complete().expect(200)
    assert run.view()["output"] == {"number": 7, "text": {"t": 1}}


def test_a_payload_that_could_not_be_the_output_fits_no_wait(flow: MakeFlow) -> None:
    run = flow(wait("w", output_schema=INTEGER)).start()
    assert list(run.signal("go", "x").expect_faults(422, "invalid_input")) == ["/payload"]
    run.signal("go", 1).expect(202)


def test_a_wait_that_timed_out_fails(flow: MakeFlow) -> None:
    run = flow(wait("w", timeout_seconds=0.1)).start()
    view = run.until("failed", seconds=3)
    assert (view["error"]["class"], view["error"]["step"]) == ("wait_timeout", "w")
    types = run.types()
    assert types[types.index("wait.timed_out") + 1] == "step.failed"
    armed, timed_out = run.event("wait.armed"), run.event("wait.timed_out")
    assert 0.1 <= seconds(armed["at"], timed_out["at"]) < 1.1
    run.signal("go").expect_problem(409, "already_ended")


def test_a_failure_by_time_may_be_caught(flow: MakeFlow) -> None:
    caught = [{"class": "wait_timeout", "value": "nobody"}]
    run = flow(wait("w", timeout_seconds=0.1, catch=caught), **outputs("w")).start()
    assert run.until("completed", seconds=3)["output"] == {"w": "nobody"}
    assert run.step("w")["caught"] is True


def test_a_wait_that_timed_out_may_be_skipped(flow: MakeFlow) -> None:
    work = flow(
        wait("w", timeout_seconds=0.1, on_timeout="skip"), read("b", needs=["w"]), read("c", needs=[]), **outputs("w")
    )
    run = work.start()
    run.step_until("skipped", id="w", seconds=3)
    assert run.statuses() == {"w": "skipped", "b": "skipped", "c": "queued"}
    work.claim_one().complete().expect(200)
    assert run.view()["output"] == {"w": None}


def test_a_condition_skips_a_wait_and_nothing_can_signal_it(flow: MakeFlow) -> None:
    run = flow(wait("w", when="false"), read("b", needs=["w"]), read("c", needs=[])).start()
    run.signal("go").expect_problem(409, "not_signalable")


@pytest.mark.parametrize("name", ["come", "w"])
def test_without_such_a_wait_it_is_not_signalable(flow: MakeFlow, name: str) -> None:
    run = flow(wait("w")).start()
    found = run.signal(name).expect_problem(409, "not_signalable")
    assert found["execution"] == {"id": run.id, "status": "queued"}


def test_when_all_such_waits_are_over_it_is_not_signalable(flow: MakeFlow) -> None:
    run = flow(wait("w"), read("b")).start()
    run.signal("go").expect(202)
    run.signal("go").expect_problem(409, "not_signalable")


def test_an_ending_execution_is_not_signalable(flow: MakeFlow) -> None:
    work = flow(safe_write("a"), wait("w", needs=[]))
    run, _ = work.begin()
    run.cancel().expect(202)
    assert run.view()["status"] == "cancelling"
    assert run.step("w")["held"] is True
    run.signal("go").expect_problem(409, "not_signalable")


def test_a_cancelled_wait_and_what_it_never_took(flow: MakeFlow) -> None:
    run = flow(read("a"), wait("w")).start()
    run.signal("go", {"n": 1}).expect(202)
    assert run.view()["signals_not_taken"] == []
    run.cancel().expect(202)
    view = run.view()
    assert (view["status"], run.statuses()["w"]) == ("cancelled", "cancelled")
    (left,) = view["signals_not_taken"]
    assert (left["name"], left["payload"]) == ("go", {"n": 1})
    assert seconds(view["created_at"], left["at"]) >= 0
    run.signal("go").expect_problem(409, "already_ended")


def test_a_scheduled_execution_keeps_signals(flow: MakeFlow) -> None:
    run = flow(wait("w")).start(start_at="2100-01-01T00:00:00Z")
    assert run.signal("go").expect(202)["status"] == "scheduled"
    run.cancel().expect(202)
    assert len(run.view()["signals_not_taken"]) == 1


def test_while_paused_signals_are_kept_and_nothing_is_armed(flow: MakeFlow) -> None:
    work = flow(read("a"), wait("w1", needs=[]), wait("w2", needs=["a"]), **outputs("w1", "w2"))
    run, lease = work.begin()
    run.pause().expect(202)
    run.signal("go", 1).expect(202)
    lease.complete().expect(200)
    assert run.statuses() == {"a": "succeeded", "w1": "waiting", "w2": "pending"}
    run.signal("go", 2).expect(202)
    assert run.types().count("wait.resumed") == 0
    run.resume().expect(202)
    view = run.view()
    assert (view["status"], view["output"]) == ("completed", {"w1": 1, "w2": 2})


def test_a_time_out_in_a_pause_acts_at_resume(flow: MakeFlow) -> None:
    run = flow(wait("w", timeout_seconds=0.1), read("b", needs=[])).start()
    run.pause().expect(202)
    other = flow(wait("w", timeout_seconds=0.2)).start()
    other.until("failed", seconds=3)
    assert run.view()["status"] == "paused"
    run.resume().expect(202)
    assert run.until("failed", seconds=3)["error"]["class"] == "wait_timeout"


def test_a_payload_over_its_limit(flow: MakeFlow) -> None:
    run = flow(wait("w")).start()
    found = run.signal("go", "x" * 262_143).expect_problem(413, "payload_too_large")
    assert (found["limit"], found["size"]) == (262_144, 262_145)
    run.signal("go", "x" * 262_142).expect(202)
