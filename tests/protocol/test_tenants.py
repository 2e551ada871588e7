"""Tenants: three keys on one daemon, and what each of them can reach of what the others do. It is only its own."""

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest

from tests.support.client import Answer, Http, Json
from tests.support.definitions import brief, read, unique, write
from tests.support.flow import Flow, Lease, Run, claim, listed, make_flow, register
from tests.support.keys import Key, make_key
from tests.support.stream import Stream
from tests.support.wait import beside, moment

ALL_BUT_ADMIN = ("worker", "execute", "read", "operate")
NO_ID = "00000000-0000-7000-8000-000000000000"


@dataclass(frozen=True, slots=True)
class Three:
    """A key of one tenant, one of another, and one of both; beside them there is the test's own, of all."""

    a: str
    b: str
    of_a: Key
    of_b: Key
    of_both: Key


@pytest.fixture(scope="module")
def three(http: Http) -> Three:
    if http.key is None:
        pytest.skip("needs STEPD_TEST_KEY: the first key would end open mode")
    a, b = unique("a"), unique("b")
    keys = [make_key(http, *ALL_BUT_ADMIN, tenants=tenants) for tenants in ([a], [b], [a, b])]
    return Three(a, b, *keys)


def under(key: Key | Http, flow: Flow) -> Flow:
    """The flow in the hands of whoever has the key."""
    return Flow(key.http if isinstance(key, Key) else key, flow.name, flow.registered)


def ids(items: list[Json]) -> set[str]:
    return {item["id"] for item in items}


# -- starts -----------------------------------------------------------------------------------------------------------


def test_a_start_takes_the_key_s_only_tenant(http: Http, three: Three) -> None:
    flow = make_flow(http, read())
    assert under(three.of_a, flow).start().view()["tenant"] == three.a
    assert under(three.of_a, flow).start(tenant=three.a).view()["tenant"] == three.a
    assert flow.start().view()["tenant"] is None
    assert flow.start(tenant="any text: \u00e4 * %").view()["tenant"] == "any text: \u00e4 * %"
    faults = under(three.of_both, flow).attempt_start().expect_faults(422, "invalid_request")
    assert faults.keys() == {"/tenant"}
    assert under(three.of_both, flow).start(tenant=three.b).view()["tenant"] == three.b


def test_a_start_for_a_tenant_that_is_not_the_key_s_is_403(http: Http, three: Three) -> None:
    flow = make_flow(http, read())
    for tenant in (three.b, unique(), "*"):
        problem = under(three.of_a, flow).attempt_start(tenant=tenant).expect_problem(403, "forbidden")
        assert "scope" not in problem, "it lacks no scope"
    assert flow.list()["items"] == []


def test_exclusive_is_a_matter_of_each_tenant(http: Http, three: Three) -> None:
    flow = make_flow(http, read(), exclusive=True)
    mine = under(three.of_a, flow).start(correlation="c")
    under(three.of_b, flow).start(correlation="c")
    flow.start(correlation="c")
    problem = under(three.of_a, flow).attempt_start(correlation="c").expect_problem(409, "occupied")
    assert problem["execution"]["id"] == mine.id


# -- looking ----------------------------------------------------------------------------------------------------------


def looks(http: Http, path: str) -> list[Answer]:
    """Every call that names an execution."""
    return [
        http.get(path),
        http.get(path, query={"include": "attempts,payloads"}),
        http.get(path, query={"wait_seconds": 1}),
        http.get(f"{path}/events"),
        http.get(f"{path}/events", headers={"Accept": "text/event-stream"}),
        http.get(f"{path}/events", headers={"Accept": "text/event-stream", "Last-Event-ID": "1"}),
        http.get(f"{path}/spans"),
        http.post(f"{path}/cancel", {"reason": "r"}),
        http.post(f"{path}/cancel", {"force": True}),
        http.post(f"{path}/pause"),
        http.post(f"{path}/resume"),
    ]


def test_what_is_another_tenant_s_is_404_like_what_never_was(http: Http, three: Three) -> None:
    flow = make_flow(http, read())
    for run in (under(three.of_b, flow).start(input="theirs"), flow.start(input="theirs")):
        missing = looks(three.of_a.http, f"/v1/executions/{NO_ID}")
        for answer, never in zip(looks(three.of_a.http, run.path), missing, strict=True):
            problem = answer.expect_problem(404, "not_found")
            assert problem["detail"].replace(run.id, NO_ID) == never.expect_problem(404, "not_found")["detail"]
            assert "theirs" not in answer.text
        assert http.get(run.path).expect(200)["status"] == "queued"
        assert run.types()[-1] == "step.queued", "nothing was done"


def test_a_list_shows_what_is_the_key_s(http: Http, three: Three) -> None:
    flow = make_flow(http, read())
    of_a, of_b, of_none = under(three.of_a, flow).start(), under(three.of_b, flow).start(), flow.start()
    seen = {
        "a": listed(three.of_a.http, {"workflow": flow.name}),
        "both": listed(three.of_both.http, {"workflow": flow.name}),
        "all": listed(http, {"workflow": flow.name}),
    }
    assert ids(seen["a"]) == {of_a.id}
    assert ids(seen["both"]) == {of_a.id, of_b.id}
    assert ids(seen["all"]) == {of_a.id, of_b.id, of_none.id}
    for query in ({"tenant": three.b}, {"tenant": "*"}, {"tenant": unique()}):
        assert listed(three.of_a.http, {"workflow": flow.name, **query}) == []
    assert ids(listed(three.of_both.http, {"workflow": flow.name, "tenant": three.b})) == {of_b.id}


@pytest.mark.parametrize(
    "query",
    [{}, {"status": "queued"}, {"label": "k:v"}, {"correlation": "c"}, {"blocked": "true"}, {"order": "oldest"}],
)
def test_no_filter_leads_around_it(http: Http, three: Three, query: dict[str, Any]) -> None:
    flow = make_flow(http, read())
    fields: dict[str, Json] = {"labels": {"k": "v"}, "correlation": "c"}
    mine = [under(three.of_a, flow).start(**fields).id for _ in range(3)]
    for key in (three.of_b, http):
        for _ in range(3):
            under(key, flow).start(**fields)
    assert ids(listed(three.of_a.http, {"workflow": flow.name, "limit": 2, **query})) == set(mine)


def test_a_cursor_of_another_key_shows_no_more(http: Http, three: Three) -> None:
    flow = make_flow(http, read())
    mine = under(three.of_a, flow).start()
    for _ in range(3):
        under(three.of_b, flow).start()
    cursor = flow.list(limit=1)["next"]
    page = three.of_a.http.get("/v1/executions", query={"cursor": cursor}).expect(200)
    assert ids(page["items"]) == {mine.id}
    cursor = under(three.of_b, flow).list(limit=1)["next"]
    assert ids(three.of_a.http.get("/v1/executions", query={"cursor": cursor}).expect(200)["items"]) == {mine.id}


def test_counts_are_of_the_key_s(http: Http, three: Three) -> None:
    flow = make_flow(http, read())
    under(three.of_a, flow).start()
    under(three.of_b, flow).start()
    flow.start()
    for key, count in ((three.of_a.http, 1), (three.of_both.http, 2), (http, 3)):
        (version,) = key.get(f"/v1/workflows/{flow.name}").expect(200)["versions"]
        assert version["open_executions"] == count


def test_an_execute_key_sees_what_its_principal_started_for_its_tenants(http: Http, three: Three) -> None:
    flow, name = make_flow(http, read()), unique()
    here, there = (make_key(http, "execute", name=name, tenants=[tenant]) for tenant in (three.a, three.b))
    mine, other = under(here, flow).start(), under(there, flow).start()
    under(three.of_a, flow).start()
    assert ids(here.http.get("/v1/executions").expect(200)["items"]) == {mine.id}
    here.http.get(other.path).expect_problem(404, "not_found")
    here.http.post(f"{other.path}/cancel").expect_problem(404, "not_found")


# -- calls sent again -------------------------------------------------------------------------------------------------


def test_an_answer_that_was_kept_is_for_its_tenant(http: Http, three: Three) -> None:
    """The same principal, the same idempotency key and the same body, and yet another tenant's execution."""
    flow, name = make_flow(http, read()), unique()
    here, there = (make_key(http, "execute", name=name, tenants=[tenant]) for tenant in (three.a, three.b))
    headers = {"Idempotency-Key": str(uuid4())}
    run = under(here, flow).start(input="mine", headers=headers)
    answer = under(there, flow).attempt_start(input="mine", headers=headers)
    answer.expect_problem(409, "idempotency_conflict")
    assert run.id not in answer.text
    again = under(here, flow).attempt_start(input="mine", headers=headers)
    assert (again.expect(202)["id"], again.headers["idempotency-replayed"]) == (run.id, "true")


def test_a_claim_sent_again_by_a_key_of_other_tenants_gets_nothing(http: Http, three: Three) -> None:
    flow, name = make_flow(http, write()), unique()
    here, there = (make_key(http, "worker", name=name, tenants=[tenant]) for tenant in (three.a, three.b))
    under(three.of_a, flow).start(input="mine")
    fields = {"serves": [{"workflow": flow.name}], "claim_id": str(uuid4())}
    (data,) = claim(here.http, fields).expect(200)["leases"]
    assert claim(there.http, fields).expect(200)["leases"] == []
    (again,) = claim(here.http, fields).expect(200)["leases"]
    assert again["id"] == data["id"]


def test_a_lease_is_its_principal_s_also_when_its_key_has_other_tenants_by_now(http: Http, three: Three) -> None:
    flow, name = make_flow(http, write()), unique()
    before, after = (make_key(http, "worker", name=name, tenants=[tenant]) for tenant in (three.a, three.b))
    under(three.of_a, flow).start()
    (data,) = claim(before.http, {"serves": [{"workflow": flow.name}]}).expect(200)["leases"]
    Lease(after.http, data).begin().complete().expect(200)


# -- work -------------------------------------------------------------------------------------------------------------


def test_a_claim_is_dealt_work_of_its_tenants(http: Http, three: Three) -> None:
    flow = make_flow(http, read())
    of_b = under(three.of_b, flow).start(priority=100)
    of_none = flow.start(priority=100)
    of_a = under(three.of_a, flow).start(priority=-100)
    assert dealt(under(three.of_a, flow)) == [of_a.id]
    assert dealt(under(three.of_a, flow)) == []
    assert dealt(under(three.of_both, flow)) == [of_b.id]
    assert dealt(under(three.of_both, flow)) == []
    assert dealt(flow) == [of_none.id]


def dealt(flow: Flow, **fields: Json) -> list[str]:
    """The executions that a claim is dealt a step of."""
    return [lease.data["execution"]["id"] for lease in flow.claim(max=10, **fields)]


@pytest.mark.parametrize("serves", [{}, {"version": True}, {"steps": ["work"]}, {"version": True, "steps": ["work"]}])
def test_whatever_a_claim_serves(http: Http, three: Three, serves: dict[str, Json]) -> None:
    flow = make_flow(http, read())
    narrowed = serves | ({"version": flow.version} if "version" in serves else {})
    mine = under(three.of_a, flow).start()
    under(three.of_b, flow).start()
    flow.start()
    assert dealt(under(three.of_a, flow), serves=[{"workflow": flow.name, **narrowed}]) == [mine.id]


def test_a_parked_claim_is_not_woken_by_others(http: Http, three: Three) -> None:
    flow = make_flow(http, read())
    parked = beside(lambda: dealt(under(three.of_a, flow), wait_seconds=20))
    moment(0.2)
    under(three.of_b, flow).start()
    flow.start()
    moment(0.7)
    assert not parked.done()
    mine = under(three.of_a, flow).start()
    assert parked.result(5) == [mine.id]


def test_a_claim_that_rides_on_a_complete_is_dealt_the_same(http: Http, three: Three) -> None:
    flow = make_flow(http, read())
    under(three.of_a, flow).start()
    lease = under(three.of_a, flow).claim_one()
    under(three.of_b, flow).start()
    flow.start()
    body = {"worker": "w", "claim_id": str(uuid4()), "max": 10, "serves": [{"workflow": flow.name}]}
    assert lease.complete(next=body).expect(200)["leases"] == []


def test_a_lease_taken_back_goes_to_its_tenant_again(http: Http, three: Three) -> None:
    flow = make_flow(http, read(**brief(lease=0.2, reclaim=0)))
    mine = under(three.of_a, flow).start()
    assert dealt(under(three.of_a, flow)) == [mine.id]
    waiting = beside(lambda: dealt(under(three.of_b, flow), wait_seconds=3))
    assert dealt(under(three.of_a, flow), wait_seconds=5) == [mine.id]
    assert waiting.result(5) == []


def test_workers_and_who_serves_what(http: Http, three: Three) -> None:
    flow = make_flow(http, read())
    names = {tenant: unique("w") for tenant in (three.a, three.b, "*")}
    runs = {three.a: under(three.of_a, flow).start(), three.b: under(three.of_b, flow).start()}
    assert not is_served(three.of_a.http, flow)
    claim(three.of_b.http, {"worker": names[three.b], "serves": [{"workflow": flow.name}]}).expect(200)
    assert not is_served(three.of_a.http, flow), "only another tenant's worker serves it"
    assert is_served(three.of_b.http, flow)
    assert runs[three.a].view()["blocked"]["code"] == "no_worker"
    assert runs[three.b].view()["blocked"] is None
    claim(three.of_a.http, {"worker": names[three.a], "serves": [{"workflow": flow.name}]}).expect(200)
    assert is_served(three.of_a.http, flow)
    claim(http, {"worker": names["*"], "serves": [{"workflow": unique()}]}).expect(200)
    assert named(three.of_a.http, names) == {three.a: 1}
    assert named(three.of_both.http, names) == {three.a: 1, three.b: 1}
    assert named(http, names) == {three.a: 1, three.b: 1, "*": 0}


def is_served(http: Http, flow: Flow) -> bool:
    (version,) = http.get(f"/v1/workflows/{flow.name}").expect(200)["versions"]
    return bool(version["served"])


def named(http: Http, names: dict[str, str]) -> dict[str, int]:
    """How many leases each of these workers holds, of those that the key sees."""
    workers = {worker["name"]: worker["leases"] for worker in http.get("/v1/workers").expect(200)["items"]}
    return {tenant: workers[name] for tenant, name in names.items() if name in workers}


def test_leases_of_other_tenants_are_not_counted(http: Http, three: Three) -> None:
    """Two keys of one name, and one worker that uses both."""
    flow, name = make_flow(http, read()), unique()
    here, there = (make_key(http, "worker", "read", name=name, tenants=[tenant]) for tenant in (three.a, three.b))
    under(three.of_a, flow).start()
    under(three.of_b, flow).start()
    for key in (there, here):
        assert len(claim(key.http, {"worker": name, "serves": [{"workflow": flow.name}]}).expect(200)["leases"]) == 1
    assert named(here.http, {"mine": name}) == {"mine": 1}
    assert named(http, {"mine": name}) == {"mine": 2}


# -- definitions, which are shared -------------------------------------------------------------------------------------


def test_a_new_version_needs_all_tenants(http: Http, three: Three) -> None:
    name = unique()
    problem = register(three.of_a.http, name, {"steps": [read()]}).expect_problem(403, "forbidden")
    assert "scope" not in problem, "it lacks no scope"
    three.of_a.http.get(f"/v1/workflows/{name}").expect_problem(404, "not_found")
    first = register(http, name, {"version": "1", "steps": [read()]}).expect(201)
    again = register(three.of_a.http, name, {"version": "1", "steps": [read()]}).expect(200)
    assert again == first
    changed = {"version": "1", "steps": [read(), read("more")]}
    register(three.of_a.http, name, changed).expect_problem(422, "definition_conflict")
    register(three.of_a.http, name, changed | {"version": "2"}).expect_problem(403, "forbidden")
    assert [version["version"] for version in versions(three.of_a.http, name)] == ["1"]


def test_the_current_version_is_chosen_for_all_tenants(http: Http, three: Three) -> None:
    name = unique()
    for version in ("1", "2"):
        register(http, name, {"version": version, "steps": [read()]}).expect(201)
    three.of_a.http.post(f"/v1/workflows/{name}/current", {"version": "1"}).expect_problem(403, "forbidden")
    assert http.get(f"/v1/workflows/{name}").expect(200)["current"] == "2"


def versions(http: Http, name: str) -> list[Json]:
    found: list[Json] = http.get(f"/v1/workflows/{name}").expect(200)["versions"]
    return found


def test_a_stream_is_of_one_tenant(http: Http, three: Three) -> None:
    flow = make_flow(http, read())
    run: Run = under(three.of_a, flow).start()
    with Stream(three.of_a.http, f"{run.path}/events") as stream:
        assert next(stream.messages()).id == "1"
    with Stream(three.of_b.http, f"{run.path}/events") as stream:
        assert stream.response.status == 404


def test_metrics_name_no_tenant(http: Http, three: Three) -> None:
    flow = make_flow(http, read())
    under(three.of_a, flow).start()
    text = Http(http.url).get("/metrics").text
    assert not any(name in text for name in (three.a, three.of_a.name))
