"""A key's end reaches what is in the middle of something: parked claims, streams, views, bodies on their way."""

import json
import time
from functools import partial
from uuid import uuid4

import pytest

from tests.support import raw
from tests.support.client import Answer, Http, Json, connect
from tests.support.definitions import brief, read, write
from tests.support.flow import Flow, Lease, Run, claim, make_flow
from tests.support.keys import Key, make_key
from tests.support.stream import Stream
from tests.support.wait import beside, eventually, moment

PARKED_SECONDS = 0.3
"""By then a call that waits has been parked."""
AT_ONCE_SECONDS = 2.0


@pytest.fixture(scope="module", autouse=True)
def _locked(http: Http) -> None:
    if http.key is None:
        pytest.skip("needs STEPD_TEST_KEY: the first key would end open mode")


def test_a_parked_claim_takes_nothing_more(http: Http) -> None:
    flow, key = make_flow(http, read()), make_key(http, "worker")
    parked = [beside(lambda: waiting_claim(key, flow)) for _ in range(3)]
    moment(PARKED_SECONDS)
    key.revoke(http)
    flow.start()
    for call in parked:
        assert call.result(AT_ONCE_SECONDS).expect(200)["leases"] == []
    waiting_claim(key, flow).expect_problem(401, "unauthenticated")
    assert flow.claim_one().attempt == 1


def waiting_claim(key: Key, flow: Flow) -> Answer:
    return claim(key.http, {"serves": [{"workflow": flow.name}], "wait_seconds": 30, "max": 10})


def test_keys_are_revoked_while_work_is_dealt(http: Http) -> None:
    """Whatever the instant: the claim is dealt the work before its key's end, or the work is dealt to others."""
    flow = make_flow(http, read())
    for number in range(20):
        key = make_key(http, "worker")
        parked = beside(partial(waiting_claim, key, flow))
        moment(0.01 * (number % 5))
        started = beside(flow.start)
        key.revoke(http)
        started.result(10)
        answer = parked.result(AT_ONCE_SECONDS)
        leases = answer.json["leases"] if answer.status == 200 else []
        assert answer.status in (200, 401)
        assert len(leases) + len(flow.claim(wait_seconds=0 if leases else 5)) == 1


def test_another_key_of_the_name_goes_on_waiting(http: Http) -> None:
    flow, old = make_flow(http, read()), make_key(http, "worker")
    new = make_key(http, "worker", name=old.name)
    ended, goes_on = beside(lambda: waiting_claim(old, flow)), beside(lambda: waiting_claim(new, flow))
    moment(PARKED_SECONDS)
    old.revoke(http)
    assert ended.result(AT_ONCE_SECONDS).expect(200)["leases"] == []
    flow.start()
    assert len(goes_on.result(5).expect(200)["leases"]) == 1


@pytest.mark.parametrize("scopes", [("read",), ("execute",), ("admin",)])
def test_an_open_stream_ends(http: Http, scopes: tuple[str, ...]) -> None:
    flow, key = make_flow(http, read()), make_key(http, *scopes)
    started = (key.http if "execute" in scopes else http).post("/v1/executions", {"workflow": flow.name})
    run = Run(http, started.expect(202)["id"], started)
    with Stream(key.http, f"{run.path}/events", seconds=10) as stream:
        messages = iter(stream)
        assert next(messages).comment is not None
        assert next(messages).id == "1"
        key.revoke(http)
        run.cancel().expect(202)
        begun = time.monotonic()
        rest = [message.data or "" for message in messages]
        assert time.monotonic() - begun < AT_ONCE_SECONDS
        assert not any("cancel" in data for data in rest), "nothing that came after the key's end"
    key.http.get(f"{run.path}/events").expect_problem(401, "unauthenticated")


def test_a_view_that_waits_is_not_answered_with_what_it_waited_for(http: Http) -> None:
    flow, key = make_flow(http, read()), make_key(http, "read")
    run = flow.start(input="hidden from now on")
    waiting = beside(lambda: key.http.get(run.path, query={"wait_seconds": 30}))
    moment(PARKED_SECONDS)
    key.revoke(http)
    answer = waiting.result(AT_ONCE_SECONDS)
    answer.expect_problem(401, "unauthenticated")
    assert "hidden" not in answer.text


@pytest.mark.parametrize("call", ["claim", "start", "heartbeat", "key"])
def test_a_call_whose_body_comes_after_the_end_does_nothing(http: Http, call: str) -> None:
    flow, key = make_flow(http, write()), make_key(http, "worker", "execute", "admin")
    flow.start()
    (data,) = claim(key.http, {"serves": [{"workflow": flow.name}]}).expect(200)["leases"]
    flow.start()
    path, body = {
        "claim": ("/v1/leases/claim", claim_body(flow)),
        "start": ("/v1/executions", {"workflow": flow.name}),
        "heartbeat": (f"/v1/leases/{data['id']}/heartbeat", {"fence": data["fence"], "started": True}),
        "key": ("/v1/admin/keys", {"name": key.name, "scopes": ["admin"]}),
    }[call]
    content = json.dumps(body).encode()
    pending = raw.send_bytes(key.http, raw.head(key.http, "POST", path, len(content), {"Connection": "close"}))
    pending.link.sendall(content[:5])
    moment(PARKED_SECONDS)
    key.revoke(http)
    pending.link.sendall(content[5:])
    answer = pending.read_to_end(10)
    assert answer.startswith(b"HTTP/1.1 401 "), answer
    assert len(flow.list()["items"]) == 2
    assert len(flow.claim()) == 1, "the claim has taken nothing"
    assert [name for name in names_of_live_keys(http) if name == key.name] == []


def claim_body(flow: Flow) -> Json:
    return {"worker": "w", "claim_id": str(uuid4()), "wait_seconds": 30, "serves": [{"workflow": flow.name}]}


def names_of_live_keys(http: Http) -> list[str]:
    items = http.get("/v1/admin/keys", query={"limit": 200}).expect(200)["items"]
    return [item["name"] for item in items if item["revoked_at"] is None]


def test_leases_of_a_revoked_key_lapse_like_any_other(http: Http) -> None:
    flow, key = make_flow(http, read(**brief(lease=0.3, reclaim=0.1))), make_key(http, "worker")
    run = flow.start()
    (data,) = claim(key.http, {"serves": [{"workflow": flow.name}]}).expect(200)["leases"]
    key.revoke(http)
    for answer in (Lease(key.http, data).heartbeat(), Lease(key.http, data).complete()):
        answer.expect_problem(401, "unauthenticated")
    assert flow.claim_one().attempt == 2
    assert "attempt.lost" in run.types()


def test_leases_of_a_revoked_key_go_on_under_another_of_its_name(http: Http) -> None:
    flow, key = make_flow(http, write()), make_key(http, "worker")
    run = flow.start()
    (data,) = claim(key.http, {"serves": [{"workflow": flow.name}]}).expect(200)["leases"]
    Lease(key.http, data).begin()
    key.revoke(http)
    heir = make_key(http, "worker", name=key.name)
    Lease(heir.http, data).complete("done").expect(200)
    assert run.view()["status"] == "completed"


def test_a_connection_that_stays_open_is_of_no_use(http: Http) -> None:
    """Each request is looked at, not the connection that it comes on."""
    key = make_key(http, "read")
    connection = connect(http.url, 10)
    headers = {"Authorization": f"Bearer {key.secret}"}
    statuses = []
    for number in range(3):
        if number == 2:
            key.revoke(http)
        connection.request("GET", "/v1/executions", headers=headers)
        with connection.getresponse() as response:
            statuses.append(response.status)
            response.read()
    connection.close()
    assert statuses == [200, 200, 401]


def test_many_keys_come_and_go_beside_work(http: Http) -> None:
    flow, steady = make_flow(http, read()), make_key(http, "worker")
    runs = [flow.start() for _ in range(10)]
    for _ in range(30):
        make_key(http, "worker").revoke(http)
    done = eventually(
        lambda: claim(steady.http, {"serves": [{"workflow": flow.name}], "max": 10}).expect(200)["leases"]
    )
    for data in done:
        Lease(steady.http, data).complete().expect(200)
    assert {run.view()["status"] for run in runs} == {"completed"}
