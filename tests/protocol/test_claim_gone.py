"""A client that goes away in its poll: it is noticed, and no work is lost or spent on it."""

from collections.abc import Callable
from functools import partial
from uuid import uuid4

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support import raw
from tests.support.client import Http, Json
from tests.support.definitions import brief, read, write
from tests.support.flow import Flow
from tests.support.wait import beside, eventually, moment, together


def park(http: Http, work: Flow, **fields: Json) -> raw.Pending:
    """A claim that waits for half a minute on a connection that the test holds."""
    body = {"worker": "goner", "claim_id": str(uuid4()), "wait_seconds": 30, "serves": [{"workflow": work.name}]}
    return raw.send(http, "POST", "/v1/leases/claim", {**body, **fields})


LEAVE: dict[str, Callable[[raw.Pending], None]] = {"closed": raw.Pending.leave, "reset": raw.Pending.vanish}


@pytest.mark.parametrize("how", LEAVE)
@pytest.mark.parametrize("make", [read, write])
def test_a_client_gone_before_work_came_gets_none(
    http: Http, flow: MakeFlow, how: str, make: Callable[[], Json]
) -> None:
    work = flow(make())
    parked = park(http, work)
    moment(0.2)
    LEAVE[how](parked)
    moment(0.2)
    run = work.start()
    lease = work.claim_one()
    assert lease.attempt == 1
    assert [event["worker"] for event in run.events() if event["type"] == "attempt.leased"][-1] == "tester"


def test_a_client_that_goes_as_work_comes_spends_nothing(http: Http, flow: MakeFlow) -> None:
    def round_(number: int) -> int:
        mine = flow(read(**brief(1, 0)))
        parked = park(http, mine)
        moment(0.1)
        starting = beside(mine.start)
        moment(number * 0.0007)
        LEAVE["closed" if number % 2 else "reset"](parked)
        starting.result(10)
        lease = mine.claim_one(wait_seconds=10)
        lease.complete().expect(200)
        return lease.attempt

    rounds = together([partial(round_, number) for number in range(20)])
    assert all(attempt <= 2 for attempt in rounds), rounds


def test_an_answer_that_nobody_read_is_answered_again(http: Http, flow: MakeFlow) -> None:
    work = flow(write())
    run = work.start()
    claim_id = str(uuid4())
    parked = park(http, work, claim_id=claim_id)
    assert parked.has_answer(5)
    parked.leave()
    (lease,) = work.claim(claim_id=claim_id)
    assert lease.attempt == 1
    lease.begin().complete("done").expect(200)
    assert run.view()["status"] == "completed"
    assert run.types().count("attempt.leased") == 1, "the lease is the same, not another"


def test_a_second_call_in_the_gap_keeps_the_lease(http: Http, flow: MakeFlow) -> None:
    """The first connection goes away after the same claim was answered on another: the lease stays that one's."""
    work = flow(write())
    claim_id = str(uuid4())
    parked = park(http, work, claim_id=claim_id)
    moment(0.1)
    run = work.start()
    assert parked.has_answer(5)
    (lease,) = work.claim(claim_id=claim_id)
    parked.vanish()
    lease.begin()
    moment(0.3)
    lease.complete().expect(200)
    assert run.view()["status"] == "completed"
    assert "attempt.requeued" not in run.types()


def test_many_clients_gone_leave_nothing_behind(http: Http, flow: MakeFlow) -> None:
    work = flow(read())
    parked = [park(http, work, max=100) for _ in range(100)]
    moment(0.3)
    for each in parked:
        each.leave()
    moment(0.2)
    runs = [work.start() for _ in range(10)]
    leases = eventually(lambda: work.claim(max=100, wait_seconds=1), what="the work is there for a client that is")
    while len(leases) < len(runs):
        leases += work.claim(max=100, wait_seconds=5)
    assert [lease.attempt for lease in leases] == [1] * len(runs)
