"""What a worker does with each answer to an outcome."""

from dataclasses import replace
from typing import Any

import pytest

from stepd_worker import Context, NotApplied, StepFailed
from tests.sdk.peer import DROPPED, Peer, Reply, lease, problem, refused
from tests.sdk.running import jobs, plus_one, raising, running


@pytest.mark.parametrize("trouble", [DROPPED, Reply(500), problem(408, "request_timeout"), problem(429, "too_busy")])
def test_an_outcome_is_sent_with_the_same_bytes_until_it_is_answered(peer: Peer, trouble: Reply) -> None:
    quick = trouble if trouble.drop else replace(trouble, headers={"Retry-After": "0.01"})
    peer.script("complete", quick, quick)
    peer.deal(lease())
    with running(peer, jobs(plus_one)):
        completes = peer.wait_for("complete", 3)
    assert len({call.raw for call in completes}) == 1


def test_an_answer_that_is_no_daemons_is_none(peer: Peer) -> None:
    proxy = Reply(200, b"<h1>Welcome to the hotel</h1>")
    for name in ("claim", "heartbeat", "complete"):
        peer.script(name, proxy)
    peer.deal(lease(start_required=True, effect="non_idempotent_write"))
    with running(peer, jobs(plus_one, effect="non_idempotent_write")):
        completes = peer.wait_for("complete", 2)
    assert completes[0].raw == completes[1].raw
    assert len(peer.named("heartbeat")) == 2


def test_a_lease_that_cannot_be_read_is_left_to_others(peer: Peer) -> None:
    peer.deal(lease("l-1", effect="an_effect_of_later"), lease("l-2"))
    with running(peer, jobs(plus_one)):
        (complete,) = peer.wait_for("complete")
    assert complete.path == "/v1/leases/l-2/complete"


def test_more_spans_than_a_call_takes_go_ahead_of_the_outcome(peer: Peer) -> None:
    async def body(ctx: Context, input: Any) -> None:
        for n in range(450):
            with ctx.span(f"call {n}"):
                pass

    peer.deal(lease())
    with running(peer, jobs(body)):
        (complete,) = peer.wait_for("complete")
    sent = [span["name"] for call in [*peer.named("heartbeat"), complete] for span in call.body.get("spans", [])]
    assert sorted(sent) == sorted(f"call {n}" for n in range(450))
    assert len(complete.body["spans"]) <= 200


@pytest.mark.parametrize("reason", ["already_settled", "execution_ended", "lease_lost", "lease_expired"])
def test_a_refused_outcome_is_not_sent_again_and_the_slot_goes_on(peer: Peer, reason: str) -> None:
    peer.script("complete", refused(reason))
    peer.deal(lease())
    with running(peer, jobs(plus_one), concurrency=1):
        peer.wait_for("complete")
        peer.deal(lease("l-2"))
        completes = peer.wait_for("complete", 2)
    assert [call.path.split("/")[3] for call in completes] == ["l-1", "l-2"]
    assert peer.named("fail") == []


def test_an_unknown_lease_is_given_up(peer: Peer) -> None:
    peer.script("complete", problem(404, "not_found"))
    peer.deal(lease(), lease("l-2"))
    with running(peer, jobs(plus_one), concurrency=1):
        completes = peer.wait_for("complete", 2)
    assert [call.path.split("/")[3] for call in completes] == ["l-1", "l-2"]


def test_a_422_that_settled_is_the_end_of_it(peer: Peer) -> None:
    settled = {"outcome": "failed", "at": "2026-11-30T12:00:00.000Z"}
    peer.script("complete", problem(422, "invalid_output", settled=settled))
    peer.deal(lease(), lease("l-2"))
    with running(peer, jobs(plus_one), concurrency=1):
        completes = peer.wait_for("complete", 2)
    assert [call.path.split("/")[3] for call in completes] == ["l-1", "l-2"]
    assert peer.named("fail") == []


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, "malformed_json"), (413, "payload_too_large"), (415, "unsupported_media_type"), (422, "invalid_request")],
)
def test_a_complete_that_cannot_be_taken_becomes_an_invalid_output(peer: Peer, status: int, code: str) -> None:
    peer.script("complete", problem(status, code))
    peer.deal(lease())
    with running(peer, jobs(plus_one)):
        (fail,) = peer.wait_for("fail")
    assert {key: value for key, value in fail.body.items() if value is not None} == {
        "fence": 3,
        "class": "invalid_output",
        "message": f"test: {code}",
        "effect": "applied",
    }


def test_a_fail_that_cannot_be_taken_is_said_once_more_and_bare(peer: Peer) -> None:
    peer.script("fail", problem(422, "invalid_request"), problem(422, "invalid_request"))
    peer.deal(lease(), lease("l-2"))
    body = raising(NotApplied(StepFailed("timeout", "the daemon's own class", details={"a": 1})))
    with running(peer, jobs(body), concurrency=1):
        fails = peer.wait_for("fail", 3)
    assert fails[1].body == {"fence": 3, "class": "fatal", "effect": "none"}
    assert fails[2].path == "/v1/leases/l-2/fail"
