"""A key with the scope `admin` for some tenants administers those, and can't give what it doesn't have."""

import pytest

from tests.support.client import Http
from tests.support.definitions import read, unique
from tests.support.flow import Flow, make_flow
from tests.support.keys import KEYS, Key, ask_for_key, make_key

A, B = unique("a"), unique("b")


@pytest.fixture(scope="module")
def boss(http: Http) -> Key:
    """An admin of the tenant A."""
    if http.key is None:
        pytest.skip("needs STEPD_TEST_KEY: the first key would end open mode")
    return make_key(http, "admin", tenants=[A])


def test_it_gives_no_more_than_it_has(boss: Key) -> None:
    for tenants in (None, ["*"], [B], [A, B]):
        problem = ask_for_key(boss.http, "read", tenants=tenants).expect_problem(403, "forbidden")
        assert "scope" not in problem, "it lacks no scope"
    made = make_key(boss.http, "admin", "worker", tenants=[A])
    ask_for_key(made.http, "read").expect_problem(403, "forbidden")
    made.revoke(boss.http)


def test_it_sees_and_revokes_keys_of_its_tenants(http: Http, boss: Key) -> None:
    mine, theirs, of_both = (make_key(http, "read", tenants=tenants) for tenants in ([A], [B], [A, B]))
    seen = {key["id"]: key["tenants"] for key in boss.http.get(KEYS, query={"limit": 200}).expect(200)["items"]}
    assert {mine.id, boss.id} <= seen.keys()
    assert set(map(tuple, seen.values())) == {(A,)}
    for key in (theirs, of_both):
        boss.http.send("DELETE", f"{KEYS}/{key.id}").expect_problem(404, "not_found")
        assert key.http.get("/v1/executions").status == 200
    mine.revoke(boss.http)
    mine.http.get("/v1/executions").expect_problem(401, "unauthenticated")


def test_it_reads_their_audit_log(http: Http, boss: Key) -> None:
    flow = make_flow(http, read())
    mine, theirs, of_none = flow.start(tenant=A), flow.start(tenant=B), flow.start()
    for run in (mine, theirs, of_none):
        run.cancel().expect(202)
    entries = boss.http.get("/v1/admin/audit", query={"limit": 200}).expect(200)["items"]
    assert {entry["tenant"] for entry in entries} == {A}
    assert {mine.id, boss.id} <= {entry["target"] for entry in entries}
    for query in ({"tenant": B}, {"target": theirs.id}, {"target": of_none.id}):
        assert boss.http.get("/v1/admin/audit", query=query).expect(200)["items"] == []


def test_its_executions_are_those_of_its_tenants(http: Http, boss: Key) -> None:
    flow = make_flow(http, read())
    mine, theirs = flow.start(tenant=A), flow.start(tenant=B)
    assert [item["id"] for item in Flow(boss.http, flow.name, flow.registered).list()["items"]] == [mine.id]
    boss.http.get(theirs.path).expect_problem(404, "not_found")
