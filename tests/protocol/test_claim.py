"""A claim: what it must say, how long it waits, which work it gets and in which order."""

import time
from uuid import uuid4

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Http, Json
from tests.support.definitions import AT_ONCE, read, unique
from tests.support.flow import Flow, Run, ahead, claim
from tests.support.wait import beside, eventually, moment, together


@pytest.fixture(scope="module")
def plain(flow: MakeFlow) -> Flow:
    return flow(read())


def given(work: Flow, **fields: Json) -> list[str]:
    """The executions that a claim gets work of, in the order of its answer."""
    return [lease.data["execution"]["id"] for lease in work.claim(**{"max": 100, **fields})]


def ids(*runs: Run) -> list[str]:
    return [run.id for run in runs]


BAD: list[tuple[dict[str, Json], str]] = [
    ({"max": 0}, "/max"),
    ({"max": 101}, "/max"),
    ({"max": -1}, "/max"),
    ({"max": 1.5}, "/max"),
    ({"max": "1"}, "/max"),
    ({"wait_seconds": -1}, "/wait_seconds"),
    ({"wait_seconds": 61}, "/wait_seconds"),
    ({"wait_seconds": "5"}, "/wait_seconds"),
    ({"serves": []}, "/serves"),
    ({"serves": {}}, "/serves"),
    ({"serves": None}, "/serves"),
    ({"serves": [{}]}, "/serves/0"),
    ({"serves": [{"workflow": "w", "steps": "a"}]}, "/serves/0/steps"),
    ({"serves": [{"workflow": "w", "version": 3}]}, "/serves/0/version"),
    ({"worker": ""}, "/worker"),
    ({"worker": 5}, "/worker"),
    ({"claim_id": 5}, "/claim_id"),
    ({"claim_id": ""}, "/claim_id"),
    ({"instance": 5}, "/instance"),
]


@pytest.mark.parametrize(("fields", "place"), BAD)
def test_a_value_out_of_bounds_is_refused_with_its_place(plain: Flow, fields: dict[str, Json], place: str) -> None:
    faults = plain.attempt_claim(**fields).expect_faults(422, "invalid_request")
    assert any(path == place or path.startswith(f"{place}/") for path in faults), faults


@pytest.mark.parametrize("field", ["worker", "claim_id", "serves"])
def test_what_is_required_must_be_given(http: Http, plain: Flow, field: str) -> None:
    whole = {"worker": "w", "claim_id": str(uuid4()), "wait_seconds": 0, "serves": [{"workflow": plain.name}]}
    assert http.post("/v1/leases/claim", whole).status == 200
    part = {name: value for name, value in whole.items() if name != field}
    problem = http.post("/v1/leases/claim", part).expect_problem(422, "invalid_request")
    assert field in str(problem)


def test_several_faults_are_named_at_once(plain: Flow) -> None:
    faults = plain.attempt_claim(max=0, wait_seconds=99, serves=[]).expect_faults(422, "invalid_request")
    assert {"/max", "/wait_seconds", "/serves"} <= faults.keys()


def test_nothing_to_do_is_an_empty_list_at_once_where_nothing_is_waited_for(plain: Flow) -> None:
    before = time.monotonic()
    answer = plain.attempt_claim(wait_seconds=0).expect(200)
    assert time.monotonic() - before < 2
    assert answer["leases"] == []
    assert 0 <= answer["held_seconds"] < 1
    assert answer["service"] == plain.registered["service"]


def test_a_claim_waits_as_long_as_it_says(plain: Flow) -> None:
    before = time.monotonic()
    answer = plain.attempt_claim(wait_seconds=0.6).expect(200)
    assert 0.55 <= time.monotonic() - before < 5
    assert answer["leases"] == []


def test_work_wakes_a_claim_that_waits(flow: MakeFlow) -> None:
    work = flow(read())
    parked = beside(lambda: work.attempt_claim(wait_seconds=30))
    moment(0.5)
    run = work.start()
    before = time.monotonic()
    answer = parked.result(10).expect(200)
    assert time.monotonic() - before < 1
    assert [lease["execution"]["id"] for lease in answer["leases"]] == ids(run)
    assert 0.2 < answer["held_seconds"] < 5


def test_a_step_that_ends_wakes_a_claim_for_the_next(flow: MakeFlow) -> None:
    work = flow(read("a"), read("b"))
    run, first = work.begin()
    parked = beside(lambda: work.claim_one(wait_seconds=30))
    moment(0.2)
    first.complete().expect(200)
    second = parked.result(5)
    assert (second.step, second.data["execution"]["id"]) == ("b", run.id)


def test_a_due_retry_wakes_a_claim(flow: MakeFlow) -> None:
    work = flow(read(retry={"initial_seconds": 0.5, "factor": 1}))
    _, lease = work.begin()
    lease.fail().expect(200)
    work.assert_idle()
    before = time.monotonic()
    assert work.claim_one(wait_seconds=30).attempt == 2
    assert time.monotonic() - before < 3


def test_a_due_start_wakes_a_claim(http: Http, flow: MakeFlow) -> None:
    work = flow(read())
    run = work.start(start_at=ahead(http, 1.0))
    assert run.started.json["status"] == "scheduled"
    assert work.claim_one(wait_seconds=30).data["execution"]["id"] == run.id


def test_max_bounds_a_batch(flow: MakeFlow) -> None:
    work = flow(read())
    runs = [work.start() for _ in range(5)]
    assert given(work, max=2) == ids(*runs[:2])
    assert given(work, max=2) == ids(*runs[2:4])
    assert given(work, max=100) == ids(runs[4])


def test_one_lease_is_the_default(flow: MakeFlow) -> None:
    work = flow(read())
    for _ in range(2):
        work.start()
    assert len(work.claim()) == 1


def test_a_claim_answers_with_what_is_there_and_does_not_wait_for_more(flow: MakeFlow) -> None:
    work = flow(read())
    work.start()
    before = time.monotonic()
    assert len(work.claim(max=10, wait_seconds=30)) == 1
    assert time.monotonic() - before < 5


def test_work_is_given_by_priority_then_creation(flow: MakeFlow) -> None:
    work = flow(read())
    plain, low, high, plain_too, highest = (work.start(priority=value) for value in (0, -100, 5, 0, 100))
    assert given(work) == ids(highest, high, plain, plain_too, low)


def test_a_step_s_priority_is_added_and_cut(flow: MakeFlow) -> None:
    work = flow(read("up", needs=[], priority=60), read("down", needs=[], priority=-60))
    first, second = work.start(priority=50), work.start(priority=100)
    leases = work.claim(max=10)
    order = [(lease.data["execution"]["id"], lease.step) for lease in leases]
    assert order == [(first.id, "up"), (second.id, "up"), (second.id, "down"), (first.id, "down")]


def test_of_equal_priority_the_one_due_first_is_given_first(flow: MakeFlow) -> None:
    work = flow(read(retry={"initial_seconds": 0.05, "factor": 1}))
    early, lease = work.begin()
    late = work.start()
    lease.fail().expect(200)
    early.step_until("queued")
    assert given(work) == ids(late, early)


def test_priority_comes_before_due_time(flow: MakeFlow) -> None:
    work = flow(read(retry=AT_ONCE))
    first = work.start(priority=10)
    lease = work.claim_one()
    second = work.start()
    lease.fail().expect(200)
    first.step_until("queued")
    assert given(work) == ids(first, second)


def test_a_claim_that_waited_longer_is_served_too(flow: MakeFlow) -> None:
    work = flow(read())
    parked = [beside(lambda: work.claim(wait_seconds=10)) for _ in range(5)]
    moment(0.3)
    runs = [work.start() for _ in range(5)]
    got = [lease.data["execution"]["id"] for future in parked for lease in future.result(10)]
    assert sorted(got) == sorted(ids(*runs)), "each claim asked for one, and there was one for each"


def test_no_lease_is_given_twice_to_claims_at_once(flow: MakeFlow) -> None:
    work = flow(read())
    runs = [work.start() for _ in range(20)]
    answers = together([lambda: work.claim(max=3, wait_seconds=1) for _ in range(12)])
    got = [lease.data["execution"]["id"] for leases in answers for lease in leases]
    assert sorted(got) == sorted(ids(*runs))


def test_serves_may_narrow_to_a_version(flow: MakeFlow) -> None:
    work = flow(read(), version="1")
    flow(read(), read("more"), version="2", name=work.name)
    old, new = work.start(version="1"), work.start(version="2")
    work.assert_idle(serves=[{"workflow": work.name, "version": "3"}])
    assert given(work, serves=[{"workflow": work.name, "version": "2"}]) == ids(new)
    assert given(work, serves=[{"workflow": work.name}]) == ids(old)


def test_serves_may_narrow_to_steps(flow: MakeFlow) -> None:
    work = flow(read("a", needs=[]), read("b", needs=[]), read("c", needs=[]))
    work.start()
    only = work.claim(max=10, serves=[{"workflow": work.name, "steps": ["b", "c"]}])
    assert {lease.step for lease in only} == {"b", "c"}
    work.assert_idle(serves=[{"workflow": work.name, "steps": ["nothing"]}])
    assert [lease.step for lease in work.claim(max=10)] == ["a"]


def test_serves_may_name_several(flow: MakeFlow) -> None:
    one, two, three = (flow(read(needs=[])) for _ in range(3))
    runs = [work.start() for work in (one, two, three)]
    serves = [{"workflow": two.name}, {"workflow": one.name, "version": one.version, "steps": ["work"]}]
    assert sorted(given(one, serves=serves)) == sorted(ids(*runs[:2]))


def test_what_is_not_registered_is_answered_as_if_no_work_came(http: Http, flow: MakeFlow) -> None:
    nobody = {"serves": [{"workflow": unique()}]}
    answer = claim(http, nobody).expect(200)
    assert answer["leases"] == []
    before = time.monotonic()
    assert claim(http, {**nobody, "wait_seconds": 0.4}).expect(200)["leases"] == []
    assert time.monotonic() - before >= 0.35
    work = flow(read())
    work.start()
    mixed = [{"workflow": unique()}, {"workflow": work.name}]
    assert len(given(work, serves=mixed)) == 1


def test_work_registered_while_a_claim_waits_reaches_it(http: Http, flow: MakeFlow) -> None:
    name = unique()
    parked = beside(lambda: claim(http, {"serves": [{"workflow": name}], "wait_seconds": 20}))
    moment(0.2)
    flow(read(), name=name).start()
    assert len(parked.result(10).expect(200)["leases"]) == 1


def test_an_answer_has_a_size(flow: MakeFlow) -> None:
    work = flow(read())
    large = "x" * (256 * 1024 - 2)
    runs = together([lambda: work.start(input=large) for _ in range(40)])
    answer = work.attempt_claim(max=100).expect(200)
    assert 1 <= len(answer["leases"]) <= 32, "8 MiB hold no more"
    rest = [lease.data["execution"]["id"] for _ in range(3) for lease in work.claim(max=100)]
    got = [lease["execution"]["id"] for lease in answer["leases"]]
    assert sorted(got + rest) == sorted(ids(*runs)), "what didn't fit is still there"


def test_a_worker_is_seen(http: Http, flow: MakeFlow) -> None:
    work = flow(read())
    worker, instance = unique("w"), str(uuid4())
    work.claim(worker=worker, instance=instance)
    seen = eventually(
        lambda: [each for each in all_workers(http) if each["name"] == worker], what="the worker is listed"
    )
    assert seen[0]["instance"] == instance


def test_an_instance_left_out_is_the_worker_s_name(http: Http, flow: MakeFlow) -> None:
    work = flow(read())
    worker = unique("w")
    work.claim(worker=worker)
    seen = eventually(
        lambda: [each for each in all_workers(http) if each["name"] == worker], what="the worker is listed"
    )
    assert seen[0]["instance"] == worker


def all_workers(http: Http) -> list[Json]:
    items: list[Json] = []
    query: dict[str, str] = {}
    while True:
        page = http.get("/v1/workers", query=query).expect(200)
        items += page["items"]
        if page["next"] is None:
            return items
        query = {"cursor": page["next"]}
