"""Steps that run once an item of a list, seen from outside: leases, views, pages, what one item does to the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.protocol.conftest import MakeFlow
from tests.support.client import Json
from tests.support.definitions import AT_ONCE, cel, read, safe_write, write
from tests.support.flow import Flow, Run

ITEMS = "input.items"


def each(flow: MakeFlow, step: Json, *others: Json, **top: Json) -> Flow:
    return flow({**step, "foreach": ITEMS}, *others, **top)


def start(work: Flow, *items: Any) -> Run:
    return work.start(input={"items": list(items)})


def page(run: Run, step: str = "work", **query: Any) -> Json:
    return run.items(step, **query).expect(200)


def test_each_item_is_a_lease_of_its_own(flow: MakeFlow) -> None:
    work = each(flow, read(input={"name": cel("item"), "at": cel("index")}))
    run = start(work, "a", "b")
    leases = work.claim(max=10)
    assert [lease.data["index"] for lease in leases] == [0, 1]
    assert [lease.data["idempotency_key"] for lease in leases] == [f"{run.id}:work[0]", f"{run.id}:work[1]"]
    assert leases[1].data["input"] == {"name": "b", "at": 1}
    assert {lease.attempt for lease in leases} == {1}


def test_the_output_is_the_list_of_outputs_in_order(flow: MakeFlow) -> None:
    work = each(flow, read(), read("after", input=cel("steps.work.output")))
    run = start(work, {"n": 1}, {"n": 2}, {"n": 3})
    for lease in reversed(work.claim(max=10)):
        lease.complete(lease.data["input"]["n"] * 10)
    after = work.claim_step("after")
    assert after.data["input"] == [10, 20, 30]
    assert after.data["steps"]["work"] == {"status": "succeeded", "output": [10, 20, 30]}
    after.complete()
    assert run.view()["status"] == "completed"


def test_over_an_empty_list_the_step_has_succeeded(flow: MakeFlow) -> None:
    run = start(each(flow, read(), output=cel("steps.work.output")))
    view = run.view()
    assert (view["status"], view["output"], view["steps"][0]["items"]) == ("completed", [], {})


def test_what_is_no_list_fails_the_step_and_may_be_caught(flow: MakeFlow) -> None:
    run = flow(read(foreach="input")).start(input={"no": "list"})
    assert run.view()["error"]["class"] == "expression_failed"
    caught = flow(read(foreach="input", catch=[{"class": "expression_failed", "value": []}])).start(input=5)
    assert caught.view()["status"] == "completed"


def test_a_step_stands_once_with_its_items_counted(flow: MakeFlow) -> None:
    work = each(flow, read(max_parallel=2))
    run = start(work, *range(5))
    assert run.step()["items"] == {"queued": 2, "pending": 3}
    first, second = work.claim(max=10)
    first.complete()
    step = run.step()
    assert (step["index"], step["status"], step["items"]) == (
        None,
        "running",
        {"succeeded": 1, "running": 1, "queued": 1, "pending": 2},
    )
    second.complete()


def test_no_more_than_max_parallel_are_under_way(flow: MakeFlow) -> None:
    work = each(flow, read(max_parallel=2, retry=AT_ONCE))
    start(work, *range(4))
    taken = []
    while leases := work.claim(max=10):
        assert len(leases) <= 2
        taken += [lease.data["index"] for lease in leases]
        for lease in leases:
            lease.complete()
    assert taken == [0, 1, 2, 3]


def test_items_are_paged_in_order(flow: MakeFlow) -> None:
    work = each(flow, read())
    run = start(work, *"abcde")
    work.claim_one().complete("A")
    first = page(run, limit=2, include="payloads,attempts")
    assert [(item["index"], item["status"]) for item in first["items"]] == [(0, "succeeded"), (1, "queued")]
    assert (first["items"][0]["input"], first["items"][0]["output"]) == ("a", "A")
    assert [attempt["worker"] for attempt in first["items"][0]["attempts"]] == ["tester"]
    rest = page(run, limit=10, cursor=first["next"])
    assert [item["index"] for item in rest["items"]] == [2, 3, 4]
    assert rest["next"] is None
    assert "attempts" not in rest["items"][0]


def test_pages_of_what_is_not_there(flow: MakeFlow) -> None:
    work = each(flow, read(), read("after"))
    run = start(work, 1, 2)
    assert page(run, "after") == {"items": [], "next": None}
    assert run.items("nothing").status == 404
    unknown = f"{run.id[:-1]}{'1' if run.id.endswith('0') else '0'}"
    assert replace(run, id=unknown).items().status == 404
    cursor = page(run, limit=1)["next"]
    other = start(work, 1, 2)
    refused = other.items(cursor=cursor)
    assert list(refused.expect_faults(422, "invalid_request")) == ["/cursor"]
    assert run.items(status="queued").status == 422


def test_each_item_has_attempts_and_retries_of_its_own(flow: MakeFlow) -> None:
    work = each(flow, read(retry=AT_ONCE))
    run = start(work, "a", "b")
    first, second = work.claim(max=10)
    assert first.fail().expect(200)["disposition"] == "retry_scheduled"
    again = work.claim_one()
    assert (again.data["index"], again.attempt, again.data["previous"]["attempt"]) == (0, 2, 1)
    again.complete(1)
    second.complete(2)
    assert run.view()["status"] == "completed"


def test_an_item_that_is_caught_counts_as_succeeded(flow: MakeFlow) -> None:
    work = each(flow, read(catch=[{"class": "declined", "value": {"not": cel("item"), "at": cel("index")}}]))
    run = start(work, "a", "b")
    first, second = work.claim(max=10)
    assert first.fail("declined").expect(200)["disposition"] == "caught"
    second.complete("B")
    step = run.view(include="payloads")["steps"][0]
    assert (step["output"], step["items"], step["caught"]) == ([{"not": "a", "at": 0}, "B"], {"succeeded": 2}, False)
    assert [item["caught"] for item in page(run)["items"]] == [True, False]


def test_the_first_item_that_fails_fails_the_step(flow: MakeFlow) -> None:
    work = each(flow, read(max_parallel=2))
    run = start(work, *range(5))
    first, second = work.claim(max=10)
    assert first.fail("broken").expect(200)["disposition"] == "step_failed"
    second.complete().expect_refusal("execution_ended")
    view = run.view()
    assert (view["status"], view["error"]["class"], view["error"]["step"]) == ("failed", "broken", "work")
    assert view["steps"][0]["items"] == {"failed": 1, "cancelled": 4}
    assert view["steps"][0]["error"]["class"] == "broken"


def test_writes_in_flight_are_asked_to_stop_and_what_they_did_stands(flow: MakeFlow) -> None:
    work = each(flow, safe_write(), on_failure="fail")
    run = start(work, *range(3))
    first, second = work.claim(max=2)
    first.fail("broken", effect="none")
    assert second.heartbeat().expect(200)["cancel"] is not None
    held = {item["index"]: item["held"] for item in page(run)["items"]}
    assert held == {0: False, 1: False, 2: True}
    second.complete("done")
    view = run.view()
    assert (view["status"], view["standing_writes"]) == ("failed", [{"step": "work", "index": 1}])
    assert view["steps"][0]["items"] == {"failed": 1, "succeeded": 1, "cancelled": 1}


def test_a_step_keeps_the_error_of_the_item_it_failed_with(flow: MakeFlow) -> None:
    work = each(flow, safe_write(), on_failure="fail")
    run = start(work, *range(2))
    first, second = work.claim(max=2)
    first.fail("broken", effect="none")
    second.fail("cancelled", effect="none")
    view = run.view()
    assert (view["status"], view["steps"][0]["error"]["class"]) == ("failed", "broken")


def test_an_uncertain_item_is_resolved_by_its_index(flow: MakeFlow) -> None:
    work = each(flow, write(retry=AT_ONCE))
    run = start(work, "a", "b")
    work.claim_one().begin().fail("broken")
    view = run.until("reconciliation_required")
    assert (view["steps"][0]["status"], view["steps"][0]["items"]) == ("uncertain", {"uncertain": 1, "queued": 1})
    told = [{"step": "work", "index": 0, "outcome": "succeeded", "output": "A"}]
    answer = run.resolve("resume", results=told).expect(200)
    assert answer["standing_writes"] == run.view()["standing_writes"] == [{"step": "work", "index": 0}]
    lease = work.claim_one().begin()
    assert lease.data["index"] == 1
    lease.complete("B")
    assert run.view(include="payloads")["steps"][0]["output"] == ["A", "B"]


def test_each_write_is_undone_with_its_item(flow: MakeFlow) -> None:
    undo = safe_write("undo", input={"of": cel("item"), "at": cel("index")})
    work = each(flow, safe_write(compensate="undo"), undo, on_failure="compensate")
    run = start(work, "a", "b", "c")
    leases = work.claim(max=3)
    leases[2].complete()
    leases[0].complete()
    leases[1].fail("broken", effect="none")
    undone = []
    for _ in range(2):
        lease = work.claim_step("undo")
        undone.append((lease.data["index"], lease.data["input"]))
        lease.complete()
    assert undone == [(0, {"of": "a", "at": 0}), (2, {"of": "c", "at": 2})]
    assert run.until("failed")["standing_writes"] == []


def test_events_of_items_name_their_index(flow: MakeFlow) -> None:
    work = each(flow, read())
    run = start(work, "a", "b")
    for lease in work.claim(max=10):
        lease.complete()
    told = [(event["type"], event["index"]) for event in run.events() if event["type"].startswith("step.")]
    assert told == [
        ("step.queued", None),
        ("step.queued", 0),
        ("step.queued", 1),
        ("step.succeeded", 0),
        ("step.succeeded", 1),
        ("step.succeeded", None),
    ]


def test_a_long_list_comes_in_slices(flow: MakeFlow) -> None:
    work = each(flow, read(), output=cel("steps.work.output.size()"))
    run = start(work, *range(300))
    done: set[int] = set()
    while len(done) < 300:
        for lease in work.claim(max=100, wait_seconds=5):
            lease.complete(lease.data["input"])
            done.add(lease.data["index"])
    assert run.until("completed")["output"] == 300
