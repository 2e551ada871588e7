"""The audit log: who did what to what, from where, with which outcome, found again by filters and over pages."""

import base64
from datetime import timedelta
from typing import Any

import pytest

from tests.support.client import Http, Json
from tests.support.definitions import read, unique, wait, write
from tests.support.flow import Flow, claim, make_flow
from tests.support.keys import KEYS, Key, ask_for_key, make_key
from tests.support.stream import Stream
from tests.support.times import instant

AUDIT = "/v1/admin/audit"
FIELDS = {"id", "at", "principal", "key_id", "action", "target", "tenant", "origin", "outcome"}


@pytest.fixture
def key(http: Http) -> Key:
    """A key that may do everything, of a principal that nobody else is."""
    if http.key is None:
        pytest.skip("needs STEPD_TEST_KEY: the first key would end open mode")
    return make_key(http, "admin")


def audited(http: Http, **query: Any) -> list[Json]:
    """The entries, newest first, over all pages."""
    found: list[Json] = []
    while True:
        page = http.get(AUDIT, query=query).expect(200)
        assert page.keys() == {"items", "next"}
        found += page["items"]
        if page["next"] is None:
            return found
        query["cursor"] = page["next"]


def said(entries: list[Json]) -> list[tuple[str, str, str]]:
    """What was done, to what, with which outcome, oldest first."""
    return [(entry["action"], entry["target"], entry["outcome"]) for entry in reversed(entries)]


def test_changes_are_written_down(http: Http, key: Key) -> None:
    tenant = unique()
    flow = make_flow(key.http, read(), version="1")
    run = flow.start(tenant=tenant)
    run.pause().expect(202)
    run.resume().expect(202)
    key.http.post(f"/v1/workflows/{flow.name}/current", {"version": "1"}).expect(200)
    run.cancel().expect(202)
    made = make_key(key.http, "read", tenants=[tenant])
    made.revoke(key.http)
    entries = audited(http, principal=key.name)
    assert said(entries) == [
        ("workflow.register", f"{flow.name} 1", "done"),
        ("execution.start", run.id, "done"),
        ("execution.pause", run.id, "done"),
        ("execution.resume", run.id, "done"),
        ("workflow.use", f"{flow.name} 1", "done"),
        ("execution.cancel", run.id, "done"),
        ("key.create", made.id, "done"),
        ("key.revoke", made.id, "done"),
    ]
    for entry in entries:
        assert entry.keys() == FIELDS
        assert (entry["key_id"], entry["origin"]) == (key.id, "127.0.0.1")
        of_tenant = entry["action"].startswith(("execution.", "key."))
        assert entry["tenant"] == (tenant if of_tenant else None)
    times = [instant(entry["at"]) for entry in entries]
    assert times == sorted(times, reverse=True)
    assert len({entry["id"] for entry in entries}) == len(entries)
    assert made.secret not in str(entries)


def test_refused_attempts_are_written_down(http: Http, key: Key) -> None:
    flow = make_flow(http, read())
    run = flow.start()
    run.cancel().expect(202)
    lesser = make_key(http, "read", name=key.name)
    small = make_key(http, "admin", name=key.name, tenants=[unique()])
    lesser.http.post("/v1/executions", {"workflow": flow.name}).expect_problem(403, "forbidden")
    lesser.http.post(f"{run.path}/cancel").expect_problem(403, "forbidden")
    lesser.http.send("DELETE", f"{KEYS}/{key.id}").expect_problem(403, "forbidden")
    ask_for_key(lesser.http, "admin").expect_problem(403, "forbidden")
    ask_for_key(small.http, "admin", name="grabbed").expect_problem(403, "forbidden")
    Flow(small.http, flow.name, flow.registered).attempt_start(tenant="theirs").expect_problem(403, "forbidden")
    key.http.post(f"{run.path}/cancel").expect_problem(409, "already_ended")
    assert said(audited(http, principal=key.name)) == [
        ("execution.start", None, "refused: forbidden"),
        ("execution.cancel", run.id, "refused: forbidden"),
        ("key.revoke", key.id, "refused: forbidden"),
        ("key.create", None, "refused: forbidden"),
        ("key.create", "grabbed", "refused: forbidden"),
        ("execution.start", None, "refused: forbidden"),
        ("execution.cancel", run.id, "refused: already_ended"),
    ]


def test_what_operators_and_services_tell_is_written_down(http: Http, key: Key) -> None:
    correlation = unique()
    flow = make_flow(key.http, wait(), write())
    run = flow.start(correlation=correlation)
    run.signal("go", key="k1").expect(202)
    key.http.post("/v1/events", {"name": "go", "correlation": correlation}, headers={"Idempotency-Key": "e"}).expect(
        202
    )
    (lease,) = flow.claim()
    lease.begin().fail("fatal").expect(200)
    run.resolve("close", verification="accepted").expect(200)
    run.resolve("close", verification="accepted").expect_problem(409, "not_resolvable", "already_ended")
    entries = said(audited(http, principal=key.name))
    assert entries[0][0] == "workflow.register"
    assert entries[1:] == [
        ("execution.start", run.id, "done"),
        ("execution.signal", run.id, "done"),
        ("event.publish", "go", "done"),
        ("execution.resolve", run.id, "done"),
        ("execution.resolve", run.id, "refused: not_resolvable"),
    ]


def test_each_way_to_the_content_is_a_read_and_a_stream_is_one_each(http: Http, key: Key) -> None:
    flow = make_flow(http, read("task", foreach="[1]"))
    for rest in ("", "/events", "/spans", "/steps/task/items"):
        run = flow.start()
        key.http.get(f"{run.path}{rest}").expect(200)
        assert said(audited(http, principal=key.name, target=run.id)) == [("execution.read", run.id, "done")], rest
    run = flow.start()
    for _ in range(2):
        with Stream(key.http, f"{run.path}/events") as stream:
            next(stream.messages())
    assert said(audited(http, principal=key.name, target=run.id)) == [("execution.stream", run.id, "done")] * 2
    key.http.get("/v1/executions").expect(200)
    assert not [entry for entry in audited(http, principal=key.name) if entry["target"] is None]


def test_reads_of_content_are_written_down_once(http: Http, key: Key) -> None:
    run = make_flow(http, read()).start()
    for _ in range(3):
        key.http.get(run.path).expect(200)
        key.http.get(f"{run.path}/events").expect(200)
    assert said(audited(http, principal=key.name)) == [("execution.read", run.id, "done")]


def test_a_worker_s_calls_are_not_in_it(http: Http, key: Key) -> None:
    flow = make_flow(http, read())
    flow.start()
    (data,) = claim(key.http, {"serves": [{"workflow": flow.name}]}).expect(200)["leases"]
    key.http.post(f"/v1/leases/{data['id']}/heartbeat", {"fence": data["fence"]}).expect(200)
    key.http.post(f"/v1/leases/{data['id']}/complete", {"fence": data["fence"]}).expect(200)
    assert audited(http, principal=key.name) == []


def test_entries_are_found_by_what_they_say(http: Http, key: Key) -> None:
    second, tenant = make_key(http, "admin", name=key.name), unique()
    flow = make_flow(http, read())
    for of in (key, second):
        Flow(of.http, flow.name, flow.registered).start(tenant=tenant).cancel().expect(202)
    whole = audited(http, principal=key.name)
    assert len(whole) == 4
    key.http.post(f"/v1/executions/{whole[0]['target']}/cancel").expect_problem(409, "already_ended")
    (refused,) = audited(http, principal=key.name, outcome="refused")
    assert (refused["action"], refused["outcome"]) == ("execution.cancel", "refused: already_ended")
    assert audited(http, principal=key.name, outcome="done") == whole
    whole.insert(0, refused)
    (third,) = {entry["target"] for entry in whole if entry["key_id"] == second.id}
    for filters, count in (
        ({"key_id": second.id}, 2),
        ({"action": "execution.cancel"}, 3),
        ({"target": third}, 3),
        ({"target": third, "action": "execution.start"}, 1),
        ({"tenant": tenant}, 5),
        ({"tenant": unique()}, 0),
        ({"action": "execution"}, 0),
        ({"at_after": whole[0]["at"]}, 0),
        ({"at_before": whole[-1]["at"]}, 0),
        ({"at_before": (instant(whole[0]["at"]) + timedelta(seconds=1)).isoformat()}, 5),
    ):
        assert len(audited(http, principal=key.name, **filters)) == count, filters


def test_pages_give_each_entry_once(http: Http, key: Key) -> None:
    flow = make_flow(http, read())
    mine = Flow(key.http, flow.name, flow.registered)
    runs = [mine.start().id for _ in range(7)]
    first = http.get(AUDIT, query={"principal": key.name, "limit": 3}).expect(200)
    assert [entry["target"] for entry in first["items"]] == runs[:3:-1]
    mine.start()
    rest = audited(http, limit=3, cursor=first["next"])
    assert [entry["target"] for entry in rest] == runs[3::-1], "what came meanwhile is newer"
    same = http.get(AUDIT, query={"principal": key.name, "cursor": first["next"]}).expect(200)
    assert [entry["target"] for entry in same["items"]] == runs[3::-1]
    other = http.get(AUDIT, query={"principal": "other", "cursor": first["next"]})
    assert other.expect_faults(422, "invalid_request").keys() == {"/principal"}


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=201",
        "principal=",
        "principal=a&principal=b",
        "at_after=yesterday",
        "at_before=2026-11-30T12:00:00",
        "who=me",
        "outcome=maybe",
        "cursor=garbage",
        "cursor=eyJhdCI6MX0",
        "cursor=bnVsbA",
    ],
)
def test_a_query_that_makes_no_sense_is_422(http: Http, query: str) -> None:
    http.get(f"{AUDIT}?{query}").expect_problem(422, "invalid_request")


def test_a_cursor_with_numbers_beyond_any_store_is_422(http: Http) -> None:
    for body in ('{"at":%d,"number":1,"filters":{}}', '{"at":1,"number":%d,"filters":{}}'):
        for number in (10**40, -(10**40), 2**63):
            cursor = base64.urlsafe_b64encode((body % number).encode()).decode().rstrip("=")
            http.get(f"{AUDIT}?cursor={cursor}").expect_problem(422, "invalid_request")
