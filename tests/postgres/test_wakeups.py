"""What one daemon commits, those who wait at another one hear of at once."""

import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median

import pytest

from tests.support import postgres
from tests.support.client import Http
from tests.support.daemon import running
from tests.support.definitions import cel, read
from tests.support.flow import Flow, Lease, Run, claim, make_flow
from tests.support.keys import make_key
from tests.support.money import price, put_prices, usage, used
from tests.support.stream import Stream
from tests.support.wait import beside, eventually, moment

ADMIN = "for-the-test"
WITHIN_SECONDS = 0.05


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Http, Http]]:
    """Two daemons on one database."""
    folder: Path = tmp_path_factory.mktemp("two")
    env = {"STEPD_ADMIN_KEYS": f"tester={ADMIN}", "STEPD_ALLOW_OWNER_ROLE": str(postgres.own_server() is not None)}
    with (
        postgres.database() as database,
        running(folder / "a", env=env, database=database.daemon_url) as a,
        running(folder / "b", env=env, database=database.daemon_url) as b,
    ):
        yield Http(a.url, ADMIN), Http(b.url, ADMIN)


def parked(http: Http, work: Flow) -> float:
    """How long after a start through one daemon a claim that is parked at the other one has its lease."""
    ask = {"serves": [{"workflow": work.name}], "wait_seconds": 20}
    waiting = beside(lambda: (claim(http, ask).expect(200), time.monotonic()))
    moment(0.1)  # it is parked
    began = time.monotonic()
    work.start()
    answer, at = waiting.result(20)
    (lease,) = answer["leases"]
    Lease(http, lease).complete().expect(200)
    return at - began


def test_a_step_made_ready_by_one_daemon_is_claimed_through_the_other(two: tuple[Http, Http]) -> None:
    a, b = two
    work = make_flow(a, read())
    times = [parked(b, work) for _ in range(9)]
    assert median(times) < WITHIN_SECONDS, times
    assert max(times) < 0.4, "that is by the look twice a second"


def test_children_are_begun_once_and_heard_of_whichever_daemon_carries(two: tuple[Http, Http]) -> None:
    a, b = two
    child = make_flow(a, read(), output=cel("steps.work.output"))
    sub = {"id": "sub", "kind": "workflow", "workflow": child.name, "repeat": {"until": "index == 2", "max": 3}}
    parent = make_flow(b, sub, output=cel("steps.sub.output"))
    runs = [parent.start() for _ in range(4)]
    for number in range(12):
        daemon = (a, b)[number % 2]
        answer = claim(daemon, {"serves": [{"workflow": child.name}], "wait_seconds": 5}).expect(200)
        (lease,) = answer["leases"]
        Lease(daemon, lease).complete(number).expect(200)
    for run in runs:
        run.until("completed")
        assert [event["index"] for event in run.events() if event["type"] == "child.started"] == [0, 1, 2]
    assert len(child.list()["items"]) == 12


def test_a_view_that_waits_hears_of_the_end(two: tuple[Http, Http]) -> None:
    a, b = two
    work = make_flow(a, read())
    run, lease = work.begin()
    waiting = beside(lambda: (Run(b, run.id, run.started).view(wait_seconds=20), time.monotonic()))
    moment(0.1)
    began = time.monotonic()
    lease.complete("done").expect(200)
    view, at = waiting.result(20)
    assert view["status"] == "completed"
    assert at - began < 0.3


def test_a_stream_goes_on_with_what_another_daemon_does(two: tuple[Http, Http]) -> None:
    a, b = two
    run, lease = make_flow(a, read()).begin()
    with Stream(b, f"{run.path}/events") as stream:
        messages = iter(stream)
        lease.complete().expect(200)
        seen = [json.loads(message.data)["type"] for message in messages if message.data is not None]
    assert seen == run.types()


def test_a_key_revoked_at_one_daemon_ends_its_claims_at_the_other(two: tuple[Http, Http]) -> None:
    a, b = two
    key = make_key(a, "worker")
    eventually(lambda: claim(Http(b.url, key.secret), {"serves": [{"workflow": "x"}]}).status == 200, seconds=2)
    waiting = beside(lambda: claim(Http(b.url, key.secret), {"serves": [{"workflow": "nothing"}], "wait_seconds": 20}))
    moment(0.1)
    began = time.monotonic()
    key.revoke(a)
    answer = waiting.result(20)
    assert time.monotonic() - began < 1
    assert answer.status == 401 or answer.json["leases"] == []
    eventually(lambda: b.get("/v1/service").status == 200)
    eventually(lambda: Http(b.url, key.secret).get("/v1/service").status == 401, seconds=1)


def test_prices_put_at_one_daemon_are_the_other_s_too(two: tuple[Http, Http]) -> None:
    a, b = two
    work = make_flow(a, read())
    put_prices(a, price("m", "1"))

    def priced() -> bool:
        run, lease = work.begin()
        Lease(b, lease.data).complete(usage=[usage("m", 5)]).expect(200)
        return used(run)["cost"] is not None

    eventually(priced, seconds=2, what="a table that both know")


def test_a_claim_sent_again_to_the_other_daemon_gets_the_same_leases(two: tuple[Http, Http]) -> None:
    a, b = two
    work = make_flow(a, read())
    for _ in range(3):
        work.start()
    ask = {"serves": [{"workflow": work.name}], "max": 2, "claim_id": "11111111-1111-1111-1111-111111111111"}
    first = claim(a, ask).expect(200)["leases"]
    again = claim(b, ask).expect(200)["leases"]
    assert [lease["id"] for lease in again] == [lease["id"] for lease in first]
    for lease in again:
        assert Lease(b, lease).complete().expect(200)["execution"]["status"] == "completed"
    assert claim(b, ask).expect(200)["leases"] == []


def test_a_lease_is_shared_by_no_two_daemons(two: tuple[Http, Http]) -> None:
    a, b = two
    work = make_flow(a, read())
    for _ in range(60):
        work.start()
    ask = {"serves": [{"workflow": work.name}], "max": 7}
    calls = [beside(partial(claim, http, ask)) for http in (a, b) * 6]
    given = [lease["id"] for call in calls for lease in call.result(20).expect(200)["leases"]]
    left = [lease.id for lease in work.claim(max=100)]
    assert len(set(given + left)) == len(given) + len(left) == 60


def test_both_daemons_say_that_they_are_one_service(two: tuple[Http, Http]) -> None:
    a, b = two
    assert a.get("/v1/service").expect(200)["id"] == b.get("/v1/service").expect(200)["id"]


def test_of_exclusive_starts_through_two_daemons_at_once_one_is_accepted(two: tuple[Http, Http]) -> None:
    name = make_flow(two[0], read(), exclusive=True).name
    start = {"workflow": name, "correlation": "one"}
    answers = [beside(partial(daemon.post, "/v1/executions", start)) for daemon in two * 10]
    statuses = sorted(answer.result(20).status for answer in answers)
    assert statuses == [202, *[409] * 19]
    (one,) = two[1].get("/v1/executions", query={"workflow": name}).expect(200)["items"]
    Run(two[1], one["id"], answers[0].result()).cancel().expect(202)
    two[0].post("/v1/executions", start).expect(202)
