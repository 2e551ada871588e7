"""Signals as calls: keys that make them safe to send again, who may send them, what is written down."""

from uuid import uuid4

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Http, Json
from tests.support.definitions import read, unique, wait
from tests.support.keys import make_key
from tests.support.wait import together


def test_the_same_key_and_body_signal_once(flow: MakeFlow) -> None:
    run = flow(wait("w1"), wait("w2"), read()).start()
    key = str(uuid4())
    first = run.signal("go", {"a": 1, "b": 2}, key=key)
    view = first.expect(202)
    assert view["steps"][0]["status"] == "succeeded"
    assert "idempotency-replayed" not in first.headers
    again = run.signal("go", {"b": 2, "a": 1}, key=key)
    assert again.expect(202) == view
    assert again.headers["idempotency-replayed"] == "true"
    assert run.statuses() == {"w1": "succeeded", "w2": "waiting", "work": "pending"}
    run.signal("go", {"a": 2}, key=key).expect_problem(409, "idempotency_conflict")


def test_it_is_said_again_after_the_end_too(flow: MakeFlow) -> None:
    run = flow(wait("w")).start()
    key = str(uuid4())
    first = run.signal("go", 1, key=key).expect(202)
    assert run.view()["status"] == "completed"
    assert run.signal("go", 1, key=key).expect(202) == first
    run.signal("go", 1).expect_problem(409, "already_ended")


def test_a_key_is_of_its_path(flow: MakeFlow) -> None:
    work = flow(wait("w"))
    key = str(uuid4())
    for run in (work.start(), work.start()):
        run.signal("go", 1, key=key).expect(202)
        assert run.view()["status"] == "completed"


def test_a_refusal_is_not_kept_under_a_key(flow: MakeFlow) -> None:
    run = flow(read("a"), wait("w", payload_schema={"type": "integer"})).start()
    key = str(uuid4())
    run.signal("go", "x", key=key).expect_problem(422, "invalid_input")
    run.signal("go", 1, key=key).expect(202)


@pytest.mark.parametrize("key", ["", "a b", "é"])
def test_a_key_is_visible_ascii(flow: MakeFlow, key: str) -> None:
    flow(wait("w")).start().signal("go", key=key).expect_problem(422, "invalid_request")


def test_twenty_at_once_with_one_key_are_one(flow: MakeFlow) -> None:
    run = flow(read("a"), wait("w")).start()
    key = str(uuid4())
    views = together([lambda: run.signal("go", 1, key=key).expect(202) for _ in range(20)])
    assert all(view == views[0] for view in views)
    assert run.types().count("signal.received") == 1


@pytest.mark.parametrize(
    ("body", "place"),
    [({}, ""), ({"name": "a b"}, "/name"), ({"name": "go", "to": 1}, "/to"), ({"name": 1}, "/name")],
)
def test_a_faulty_body(flow: MakeFlow, body: Json, place: str) -> None:
    run = flow(wait("w")).start()
    found = run.http.post(f"{run.path}/signals", body).expect_faults(422, "invalid_request")
    assert list(found) == [place or "/name"]


def test_no_such_execution(http: Http) -> None:
    path = "/v1/executions/00000000-0000-7000-8000-000000000000/signals"
    http.post(path, {"name": "go"}).expect_problem(404, "not_found")


def test_who_may_not_read_it_gets_id_and_status(http: Http, flow: MakeFlow) -> None:
    run = flow(wait("w"), wait("v"), read()).start()
    key = make_key(http, "execute")
    said = str(uuid4())
    answer = run.signal("go", 1, key=said, http=key.http)
    assert answer.expect(202) == {"id": run.id, "status": "queued"}
    assert run.signal("go", 1, key=said, http=key.http).expect(202) == answer.json
    own = flow(wait("w"), read())
    started = key.http.post("/v1/executions", {"workflow": own.name}).expect(202)
    path = f"/v1/executions/{started['id']}/signals"
    assert key.http.post(path, {"name": "go"}).expect(202)["steps"][0]["status"] == "succeeded"


def test_a_principals_narrower_key_sees_less_of_what_was_answered(http: Http, flow: MakeFlow) -> None:
    run = flow(wait("w"), read()).start(tenant="t")
    name, said = unique(), str(uuid4())
    wide = make_key(http, "execute", "read", name=name)
    assert "steps" in run.signal("go", 1, key=said, http=wide.http).expect(202)
    blind = make_key(http, "execute", name=name)
    assert run.signal("go", 1, key=said, http=blind.http).expect(202) == {"id": run.id, "status": "queued"}
    elsewhere = make_key(http, "execute", "read", name=name, tenants=["u"])
    run.signal("go", 1, key=said, http=elsewhere.http).expect_problem(404, "not_found")


def test_other_tenants_executions_do_not_exist(http: Http, flow: MakeFlow) -> None:
    run = flow(wait("w")).start(tenant="t")
    key = make_key(http, "execute", tenants=["u"])
    run.signal("go", http=key.http).expect_problem(404, "not_found")
    run.signal("go", http=make_key(http, "execute", tenants=["t", "u"]).http).expect(202)


def test_signals_and_their_refusals_are_written_down(http: Http, flow: MakeFlow) -> None:
    tenant = unique()
    run = flow(wait("w")).start(tenant=tenant)
    key = make_key(http, "execute")
    run.signal("stop", http=key.http).expect_problem(409, "not_signalable")
    run.signal("go", http=key.http).expect(202)
    found = http.get("/v1/admin/audit", query={"principal": key.name}).expect(200)["items"]
    said = [(entry["action"], entry["target"], entry["tenant"], entry["outcome"]) for entry in reversed(found)]
    refused = ("execution.signal", run.id, tenant, "refused: not_signalable")
    assert said == [refused, ("execution.signal", run.id, tenant, "done")]
