"""Events: one signal to every open execution of a correlation that can take it, and to none of them twice."""

from uuid import uuid4

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Answer, Http, Json
from tests.support.definitions import read, unique, wait
from tests.support.keys import make_key
from tests.support.wait import together


def publish(http: Http, correlation: str, payload: Json = None, *, name: str = "go", key: str | None = None) -> Answer:
    headers = {} if key is None else {"Idempotency-Key": key}
    return http.post("/v1/events", {"name": name, "correlation": correlation, "payload": payload}, headers=headers)


def test_it_reaches_the_open_ones_of_its_correlation(flow: MakeFlow) -> None:
    work, order, other = flow(wait("w")), unique(), unique()
    first, second = work.start(correlation=order), work.start(correlation=order)
    elsewhere = work.start(correlation=other)
    without = flow(read()).start(correlation=order)
    ended = work.start(correlation=order)
    ended.cancel().expect(202)
    assert publish(work.http, order, {"n": 1}).expect(202) == {"delivered": 2}
    assert [run.view()["status"] for run in (first, second, elsewhere)] == ["completed", "completed", "queued"]
    assert without.types().count("signal.received") == 0
    assert publish(work.http, order).expect(202) == {"delivered": 0}


def test_it_is_kept_where_the_wait_is_not_armed_yet(flow: MakeFlow) -> None:
    work, order = flow(read("a"), wait("w")), unique()
    run, lease = work.begin(correlation=order)
    assert publish(work.http, order, 5).expect(202) == {"delivered": 1}
    lease.complete().expect(200)
    assert run.view()["status"] == "completed"


def test_those_that_it_does_not_fit_are_left_out(flow: MakeFlow) -> None:
    order = unique()
    text = flow(wait("w", payload_schema={"type": "string"})).start(correlation=order)
    number = flow(wait("w", payload_schema={"type": "integer"})).start(correlation=order)
    assert publish(text.http, order, 5).expect(202) == {"delivered": 1}
    assert (text.view()["status"], number.view()["status"]) == ("queued", "completed")


def test_the_same_key_reaches_nobody_twice(flow: MakeFlow) -> None:
    work, order, key = flow(wait("w1"), wait("w2")), unique(), str(uuid4())
    runs = [work.start(correlation=order) for _ in range(3)]
    first = publish(work.http, order, 1, key=key)
    assert first.expect(202) == {"delivered": 3}
    again = publish(work.http, order, 1, key=key)
    assert again.expect(202) == {"delivered": 3}
    assert again.headers["idempotency-replayed"] == "true"
    assert [run.statuses()["w2"] for run in runs] == ["waiting"] * 3
    publish(work.http, order, 2, key=key).expect_problem(409, "idempotency_conflict")
    publish(work.http, order, 1).expect(202)
    assert [run.view()["status"] for run in runs] == ["completed"] * 3


def test_ten_at_once_with_one_key_are_one(flow: MakeFlow) -> None:
    work, order, key = flow(wait("w1"), wait("w2")), unique(), str(uuid4())
    runs = [work.start(correlation=order) for _ in range(5)]
    answers = together([lambda: publish(work.http, order, 1, key=key).expect(202) for _ in range(10)])
    assert answers == [{"delivered": 5}] * 10
    assert all(run.statuses() == {"w1": "succeeded", "w2": "waiting"} for run in runs)


def test_it_reaches_the_keys_tenants_only(http: Http, flow: MakeFlow) -> None:
    work, order = flow(wait("w")), unique()
    runs = {tenant: work.start(correlation=order, tenant=tenant) for tenant in ("t", "u", "v", None)}
    key = make_key(http, "execute", tenants=["t", "u"])
    assert publish(key.http, order).expect(202) == {"delivered": 2}
    open_ones = [tenant for tenant, run in runs.items() if run.view()["status"] == "queued"]
    assert open_ones == ["v", None]
    assert publish(http, order).expect(202) == {"delivered": 2}


def test_more_than_a_page(flow: MakeFlow) -> None:
    work, order = flow(wait("w")), unique()
    together([lambda: [work.start(correlation=order) for _ in range(51)] for _ in range(4)])
    assert publish(work.http, order).expect(202) == {"delivered": 204}
    assert work.list(status="queued")["items"] == []


def test_it_is_written_down(http: Http, flow: MakeFlow) -> None:
    work, order, tenant = flow(wait("w")), unique(), unique()
    run = work.start(correlation=order, tenant=tenant)
    key = make_key(http, "execute", tenants=[tenant])
    publish(key.http, order).expect(202)
    found = http.get("/v1/admin/audit", query={"principal": key.name}).expect(200)["items"]
    said = [(entry["action"], entry["target"], entry["tenant"], entry["outcome"]) for entry in reversed(found)]
    assert said == [("execution.signal", run.id, tenant, "done"), ("event.publish", "go", tenant, "done")]


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"name": "go"}, "/correlation"),
        ({"correlation": "c"}, "/name"),
        ({"name": "go", "correlation": ""}, "/correlation"),
        ({"name": "go", "correlation": "c" * 257}, "/correlation"),
        ({"name": "go", "correlation": "c", "tenant": "t"}, "/tenant"),
    ],
)
def test_a_faulty_body(http: Http, body: Json, place: str) -> None:
    assert list(http.post("/v1/events", body).expect_faults(422, "invalid_request")) == [place]


def test_a_payload_over_its_limit(http: Http) -> None:
    publish(http, "c", "x" * 262_143).expect_problem(413, "payload_too_large")
