"""Keys made through the API: what is asked, what is answered, what is listed, and what is never shown again."""

import re
from typing import Any
from uuid import uuid4

import pytest

from tests.support.client import Http, Json
from tests.support.definitions import read, unique, write
from tests.support.flow import Flow, Lease, claim, make_flow
from tests.support.keys import KEYS, Key, ask_for_key, make_key

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
NO_ID = "00000000-0000-7000-8000-000000000000"


@pytest.fixture(scope="module", autouse=True)
def _locked(http: Http) -> None:
    if http.key is None:
        pytest.skip("needs STEPD_TEST_KEY: the first key would end open mode")


def listed(admin: Http, **query: Any) -> dict[str, Json]:
    """All keys by id, over all pages."""
    found: dict[str, Json] = {}
    while True:
        page = admin.get(KEYS, query=query).expect(200)
        assert page.keys() == {"items", "next"}
        assert len(page["items"]) <= query.get("limit", 50)
        found |= {item["id"]: item for item in page["items"]}
        if page["next"] is None:
            return found
        query["cursor"] = page["next"]


def test_a_key_is_answered_with_its_secret_and_listed_without(http: Http) -> None:
    name = unique()
    answer = http.post(KEYS, {"name": name, "scopes": ["read", "execute"], "tenants": ["acme", "Acme & söhne"]})
    made = answer.expect(201)
    assert made.keys() == {"id", "name", "scopes", "tenants", "created_at", "revoked_at", "secret"}
    assert (made["name"], made["scopes"], made["tenants"]) == (name, ["read", "execute"], ["acme", "Acme & söhne"])
    assert TIME.fullmatch(made["created_at"])
    assert made["revoked_at"] is None
    assert len(made["secret"]) >= 43, "256 random bits are 43 characters at least"
    assert listed(http)[made["id"]] == {name: value for name, value in made.items() if name != "secret"}
    assert made["secret"] not in http.get(KEYS).text


def test_without_tenants_it_reaches_all(http: Http) -> None:
    assert http.post(KEYS, {"name": unique(), "scopes": ["read"]}).expect(201)["tenants"] == ["*"]


def test_each_secret_is_another(http: Http) -> None:
    name = unique()
    made = [make_key(http, "read", name=name) for _ in range(20)]
    assert len({key.secret for key in made}) == len({key.id for key in made}) == 20


def test_a_key_is_good_at_once_and_gone_at_once(http: Http) -> None:
    key = make_key(http, "read")
    assert key.http.get("/v1/executions").status == 200
    key.revoke(http)
    key.http.get("/v1/executions").expect_problem(401, "unauthenticated")
    assert TIME.fullmatch(listed(http)[key.id]["revoked_at"])
    key.revoke(http)


def test_a_key_may_revoke_itself(http: Http) -> None:
    admin = make_key(http, "admin")
    admin.revoke(admin.http)
    admin.http.get(KEYS).expect_problem(401, "unauthenticated")


@pytest.mark.parametrize("id", [NO_ID, "no-such", "a%20b", "\u00e4".encode().hex(), "x" * 500])
def test_a_key_that_never_was_is_404(http: Http, id: str) -> None:
    http.send("DELETE", f"{KEYS}/{id}").expect_problem(404, "not_found")


def test_keys_are_listed_newest_first_a_page_at_a_time(http: Http) -> None:
    made = [make_key(http, "read").id for _ in range(5)]
    page = http.get(KEYS, query={"limit": 2}).expect(200)
    assert [item["id"] for item in page["items"]] == made[:2:-1]
    make_key(http, "read")
    page = http.get(KEYS, query={"limit": 3, "cursor": page["next"]}).expect(200)
    assert [item["id"] for item in page["items"]] == made[2::-1]
    assert set(made) < set(listed(http, limit=3))


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=201", "limit=x", "cursor=garbage", "cursor=", "name=x", "limit=1&limit=2"]
)
def test_a_query_that_makes_no_sense_is_422(http: Http, query: str) -> None:
    http.get(f"{KEYS}?{query}").expect_problem(422, "invalid_request")


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ({}, {"/name", "/scopes"}),
        ({"name": "", "scopes": []}, {"/name", "/scopes"}),
        ({"name": "a b", "scopes": ["root"], "more": 1}, {"/name", "/scopes/0", "/more"}),
        ({"name": "a", "scopes": "read"}, {"/scopes"}),
        ({"name": "a", "scopes": ["read", "read"]}, {"/scopes"}),
        ({"name": "a", "scopes": ["read"], "tenants": []}, {"/tenants"}),
        ({"name": "a", "scopes": ["read"], "tenants": None}, {"/tenants"}),
        ({"name": "a", "scopes": ["read"], "tenants": ["", "x" * 257]}, {"/tenants/0", "/tenants/1"}),
        ({"name": "a", "scopes": ["read"], "tenants": ["x", "x"]}, {"/tenants"}),
        ({"name": "a", "scopes": ["read"], "tenants": ["*", "x"]}, {"/tenants"}),
        ({"name": "a", "scopes": ["read"], "tenants": [str(number) for number in range(101)]}, {"/tenants"}),
        ({"name": "a", "scopes": ["read"], "secret": "mine"}, {"/secret"}),
    ],
)
def test_what_is_wrong_is_named(http: Http, body: Json, paths: set[str]) -> None:
    assert http.post(KEYS, body).expect_faults(422, "invalid_request").keys() == paths


def test_a_hundred_tenants_are_served(http: Http) -> None:
    """As many as a key may have, in every query that is narrowed to them."""
    tenants = [f"{unique()}-{number}" for number in range(100)]
    key = make_key(http, "admin", tenants=tenants)
    flow = make_flow(http, read())
    run = Flow(key.http, flow.name, flow.registered).start(tenant=tenants[99])
    assert [item["id"] for item in key.http.get("/v1/executions").expect(200)["items"]] == [run.id]
    for path in ("/v1/workflows", "/v1/workers", "/v1/admin/audit", KEYS, "/v1/executions?blocked=true"):
        assert key.http.get(path).status == 200, path
    assert len(Flow(key.http, flow.name, flow.registered).claim()) == 1


def test_keys_of_one_name_share_what_is_the_principal_s(http: Http) -> None:
    """A secret is changed in three steps: a second key of the name, its use, the first one's end."""
    flow = make_flow(http, write())
    old = make_key(http, "worker", "execute")
    headers = {"Idempotency-Key": str(uuid4())}
    run = old.http.post("/v1/executions", {"workflow": flow.name}, headers=headers).expect(202)
    claim_id = str(uuid4())
    fields = {"serves": [{"workflow": flow.name}], "claim_id": claim_id}
    (data,) = claim(old.http, fields).expect(200)["leases"]
    Lease(old.http, data).begin()

    new = make_key(http, "worker", "execute", name=old.name)
    assert old.http.get(f"/v1/executions/{run['id']}").status == 200
    old.revoke(http)
    check_it_is_the_same_principal(new, run["id"], data)
    (again,) = claim(new.http, fields).expect(200)["leases"]
    assert again["id"] == data["id"]
    replayed = new.http.post("/v1/executions", {"workflow": flow.name}, headers=headers)
    assert replayed.expect(202)["id"] == run["id"]
    assert replayed.headers["idempotency-replayed"] == "true"
    Lease(new.http, data).complete().expect(200)


def check_it_is_the_same_principal(key: Key, run: str, lease: Json) -> None:
    assert key.http.get(f"/v1/executions/{run}").expect(200)["status"] == "running"
    assert run in key.http.get("/v1/executions").text
    Lease(key.http, lease).heartbeat().expect(200)


def test_another_name_is_another_principal(http: Http) -> None:
    flow = make_flow(http, write())
    one, other = make_key(http, "worker", "execute"), make_key(http, "worker", "execute")
    run = one.http.post("/v1/executions", {"workflow": flow.name}).expect(202)
    other.http.get(f"/v1/executions/{run['id']}").expect_problem(404, "not_found")
    assert run["id"] not in other.http.get("/v1/executions").text
    (data,) = claim(one.http, {"serves": [{"workflow": flow.name}]}).expect(200)["leases"]
    foreign = Lease(other.http, data)
    for answer in (foreign.heartbeat(started=True), foreign.complete(), foreign.fail("fatal")):
        answer.expect_problem(404, "not_found")
    Lease(one.http, data).begin().complete().expect(200)


def test_fewer_scopes_govern_new_claims_only(http: Http) -> None:
    """A lease's holder whose key has lost `worker` still says how it went; nobody else learns anything of the lease."""
    flow = make_flow(http, write(), read("after"))
    old = make_key(http, "worker")
    flow.start()
    (data,) = claim(old.http, {"serves": [{"workflow": flow.name}]}).expect(200)["leases"]
    lesser, stranger = make_key(http, "read", name=old.name), make_key(http, "read")
    old.revoke(http)
    claim(lesser.http, {"serves": [{"workflow": flow.name}]}).expect_problem(403, "forbidden")
    held = Lease(lesser.http, data).begin()
    assert Lease(stranger.http, data).heartbeat().expect_problem(403, "forbidden")["scope"] == "worker"
    body = {"worker": "w", "claim_id": str(uuid4()), "serves": [{"workflow": flow.name}]}
    done = held.complete(next=body).expect(200)
    assert done["leases"] == []
    assert any("scope worker" in warning for warning in done["warnings"])


def test_who_may_not_administer_makes_no_key(http: Http) -> None:
    for scope in ("worker", "execute", "read", "write", "operate"):
        key = make_key(http, scope)
        ask_for_key(key.http, "read").expect_problem(403, "forbidden")
        ask_for_key(key.http, scope).expect_problem(403, "forbidden")
        key.http.send("DELETE", f"{KEYS}/{key.id}").expect_problem(403, "forbidden")
        assert key.http.get("/v1/service").status == 200
