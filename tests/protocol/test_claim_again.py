"""`claim_id` makes a claim safe to send again: what was dealt is answered again, and nothing else ever is."""

import time
from functools import partial
from uuid import uuid4

from tests.protocol.conftest import MakeFlow
from tests.support.client import Http
from tests.support.definitions import brief, read, write
from tests.support.flow import Flow, Lease, claim
from tests.support.times import seconds
from tests.support.wait import beside, moment


def test_sent_again_it_answers_with_the_same_leases(flow: MakeFlow) -> None:
    work = flow(read())
    for _ in range(3):
        work.start()
    claim_id = str(uuid4())
    first = work.claim(claim_id=claim_id, max=2)
    again = work.claim(claim_id=claim_id, max=2)
    assert len(first) == 2
    assert [(lease.id, lease.fence) for lease in again] == [(lease.id, lease.fence) for lease in first]
    assert [lease.data["input"] for lease in again] == [lease.data["input"] for lease in first]


def test_dealt_once_it_is_never_dealt_others(flow: MakeFlow) -> None:
    work = flow(read())
    claim_id = str(uuid4())
    work.start()
    first = work.claim(claim_id=claim_id, max=10)
    work.start()
    assert [lease.id for lease in work.claim(claim_id=claim_id, max=10)] == [first[0].id]
    first[0].complete().expect(200)
    before = time.monotonic()
    answer = work.attempt_claim(claim_id=claim_id, max=10, wait_seconds=5).expect(200)
    assert answer["leases"] == [], "none of its leases is alive, so it answers with none"
    assert time.monotonic() - before < 3, "and at once"
    assert len(work.claim(max=10)) == 1, "a new one gets the other work"


def test_it_answers_at_once_though_it_asks_for_more(flow: MakeFlow) -> None:
    work = flow(read())
    work.start()
    claim_id = str(uuid4())
    work.claim(claim_id=claim_id)
    before = time.monotonic()
    again = work.claim(claim_id=claim_id, max=50, wait_seconds=20)
    assert len(again) == 1
    assert time.monotonic() - before < 3


def test_only_what_is_alive_is_answered_again(flow: MakeFlow) -> None:
    work = flow(read())
    runs = [work.start() for _ in range(3)]
    claim_id = str(uuid4())
    done, failed, open_one = work.claim(claim_id=claim_id, max=3)
    done.complete().expect(200)
    failed.fail("fatal").expect(200)
    assert [lease.id for lease in work.claim(claim_id=claim_id, max=3)] == [open_one.id]
    runs[2].cancel().expect(202)
    assert work.claim(claim_id=claim_id, max=3) == []


def test_each_is_renewed_as_by_a_heartbeat(flow: MakeFlow) -> None:
    work = flow(read(**brief(0.8, 0)))
    run = work.start()
    claim_id = str(uuid4())
    first = work.claim_one(claim_id=claim_id)
    ends = [first.data["expires_at"]]
    for _ in range(4):
        moment(0.3)
        (again,) = work.claim(claim_id=claim_id)
        assert again.id == first.id
        ends.append(again.data["expires_at"])
    assert seconds(ends[0], ends[-1]) >= 1
    first.complete().expect(200)
    assert "attempt.orphaned" not in run.types()


def test_a_lapsed_lease_is_not_revived(flow: MakeFlow) -> None:
    work = flow(read(**brief()))
    run = work.start()
    claim_id = str(uuid4())
    lease = work.claim_one(claim_id=claim_id)
    moment(0.15)
    assert work.claim(claim_id=claim_id) == []
    lease.heartbeat().expect_refusal("lease_expired")
    assert run.view()["status"] == "running"


def test_a_lease_that_must_be_started_says_so_again(flow: MakeFlow) -> None:
    work = flow(write())
    work.start()
    claim_id = str(uuid4())
    lease = work.claim_one(claim_id=claim_id)
    assert work.claim(claim_id=claim_id)[0].data["start_required"] is True
    lease.begin()
    (again,) = work.claim(claim_id=claim_id)
    assert (again.id, again.fence) == (lease.id, lease.fence)
    again.complete().expect(200)


def test_dealt_none_it_waits_anew(flow: MakeFlow) -> None:
    work = flow(read())
    claim_id = str(uuid4())
    assert work.claim(claim_id=claim_id) == []
    assert work.claim(claim_id=claim_id) == []
    parked = beside(lambda: work.claim(claim_id=claim_id, wait_seconds=20))
    moment(0.2)
    work.start()
    assert len(parked.result(10)) == 1


def park(work: Flow, claim_id: str) -> "tuple[float, list[Lease]]":
    """A claim that waits up to 20 seconds, and how long it did."""
    before = time.monotonic()
    leases = work.claim(claim_id=claim_id, wait_seconds=20)
    return time.monotonic() - before, leases


def test_a_newer_call_takes_the_place_of_the_older(flow: MakeFlow) -> None:
    work = flow(read())
    claim_id = str(uuid4())
    older = beside(lambda: park(work, claim_id))
    moment(0.3)
    newer = beside(lambda: park(work, claim_id))
    waited, nothing = older.result(5)
    assert nothing == []
    assert waited < 5, "it is answered when the newer one comes"
    work.start()
    assert len(newer.result(5)[1]) == 1


def test_a_claim_id_is_one_principal_s(http: Http, other: Http, flow: MakeFlow) -> None:
    work = flow(read())
    claim_id = str(uuid4())
    work.start()
    (mine,) = work.claim(claim_id=claim_id)
    fields = {"serves": [{"workflow": work.name}], "claim_id": claim_id}
    assert claim(other, fields).expect(200)["leases"] == []
    work.start()
    (theirs,) = claim(other, fields).expect(200)["leases"]
    assert theirs["id"] != mine.id
    assert [lease.id for lease in work.claim(claim_id=claim_id)] == [mine.id]


def test_the_same_id_sent_twice_at_once_deals_once(flow: MakeFlow) -> None:
    for _ in range(10):
        work = flow(read())
        for _ in range(4):
            work.start()
        claim_id = str(uuid4())
        calls = [beside(partial(work.claim, claim_id=claim_id, max=2)) for _ in range(4)]
        answers = [{lease.id for lease in call.result(10)} for call in calls]
        dealt = set().union(*answers)
        assert len(dealt) == 2, f"one claim id was dealt {len(dealt)} leases, and asked for 2: {answers}"
