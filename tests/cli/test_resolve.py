"""`stepd resolve`: what it shows of what is uncertain, what it asks, and what it sends."""

import json
from typing import Any

import pytest

from tests.cli.answers import ID
from tests.cli.program import Program
from tests.sdk.peer import Peer, Reply
from tests.support.client import Http
from tests.support.definitions import read, safe_write, write
from tests.support.flow import Run, make_flow

EVIDENCE = ("--reference", "case 4711", "--reason", "seen in the ledger")
SENT = {"reference": "case 4711", "reason": "seen in the ledger"}
RESOLVED: dict[str, Any] = {
    "id": ID,
    "status": "running",
    "direction": "forward",
    "revision": 2,
    "standing_writes": [],
    "resolution": {"id": "0193-r", "at": "2026-11-30T12:00:00.000Z", "operator": "me"},
}


@pytest.fixture
def willing(peer: Peer) -> Peer:
    """A scripted daemon that takes any resolution."""
    peer.always("resolve", Reply(200, RESOLVED))
    return peer


def test_what_is_told_with_options_is_sent(willing: Peer, stepd: Program) -> None:
    succeeded = ["--succeeded", 'charge={"id": 1.0}', "--state", 'charge={"paid": true}', "--succeeded", "mail"]
    told = [*succeeded, "--as-reported", "print[3]", "--absent", "ship", "--expected-revision", "3"]
    result = stepd("resolve", ID, *told, *EVIDENCE, "--idempotency-key", "k-1").expect(0)
    (call,) = willing.calls
    assert call.path == f"/v1/admin/executions/{ID}/resolve"
    assert call.headers["idempotency-key"] == "k-1"
    assert call.body == {
        "action": "resume",
        "results": [
            {"step": "charge", "outcome": "succeeded", "output": {"id": 1.0}, "state": {"paid": True}},
            {"step": "mail", "outcome": "succeeded"},
            {"step": "print", "index": 3, "outcome": "as_reported"},
            {"step": "ship", "outcome": "absent"},
        ],
        "expected_revision": 3,
        "evidence": SENT,
    }
    assert (result.out, result.err) == ("running\n", "")


def test_it_can_be_closed_and_says_so_as_json(willing: Peer, stepd: Program) -> None:
    result = stepd("resolve", ID, "--close", "accepted", *EVIDENCE, "--json").expect(0)
    assert willing.calls[0].body == {"action": "close", "verification": "accepted", "evidence": SENT}
    assert len(willing.calls[0].headers["idempotency-key"]) == 36
    assert json.loads(result.out) == RESOLVED


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--absent", "a"], "--reference, --reason"),
        (["--absent", "a", "--close", "accepted", *EVIDENCE], "--close"),
        (["--close", "failed", *EVIDENCE], "absent_verified, compensated_verified, accepted"),
        (["--absent", "a[x]", *EVIDENCE], "must look like step or step[3]"),
        (["--absent", "a", "--state", "a={}", *EVIDENCE], "is not told --succeeded"),
        (["--json"], "say what happened with options"),
    ],
)
def test_what_cannot_be_read_is_refused_before_anything_is_sent(
    peer: Peer, stepd: Program, options: list[str], said: str
) -> None:
    result = stepd("resolve", ID, *options).expect(64)
    assert said in " ".join(result.err.split())
    assert peer.calls == []


@pytest.fixture
def doubtful(http: Http) -> Run:
    """A charge that its worker was at when it was given up; it told too late that it was made."""
    flow = make_flow(http, write("charge"), read("next"))
    run = flow.start(input={"amount": 12})
    lease = flow.claim_step("charge", worker="billing-1").begin()
    lease.heartbeat(progress={"sent": True}).expect(200)
    run.cancel(force=True).expect(202)
    lease.complete({"id": "ch_1"}).expect_refusal("lease_lost")
    return run


def test_it_shows_what_is_known_and_asks(real: Program, doubtful: Run) -> None:
    answers = "r\nx\nl\ncase 4711\nseen in the ledger\ny\n"
    result = real("resolve", doubtful.id, input=answers).expect(0)
    for said in (
        "charge is uncertain",
        f"idempotency key: {doubtful.id}:charge",
        "on billing-1",
        'last progress: {"sent": true}',
        'complete, output {"id": "ch_1"}',
        "Answer with s or l or a",
        "No personal documents, tokens, secrets",
        "charge: as_reported",
    ):
        assert said in result.out + result.err, said
    assert result.lines[-1].endswith("cancelled")
    step = doubtful.view(include="payloads")["steps"][0]
    assert (step["status"], step["output"]) == ("succeeded", {"id": "ch_1"})


def test_an_output_is_asked_for_and_sent_as_it_was_given(real: Program, http: Http) -> None:
    flow = make_flow(http, safe_write(), read("next"))
    run = flow.start()
    flow.claim_step("work").fail("fatal").expect(200)
    result = real("resolve", run.id, input='r\ns\n{"n": 1.0}\nx\ny\ny\n').expect(0)
    assert "too late" not in result.out, "no worker told anything too late"
    assert run.view(include="payloads")["steps"][0]["output"] == {"n": 1.0}


def test_it_can_be_closed_by_answers(real: Program, doubtful: Run) -> None:
    real("resolve", doubtful.id, *EVIDENCE, input="c\na\ny\n").expect(0)
    view = doubtful.view()
    assert (view["status"], view["steps"][0]["error"]["class"]) == ("cancelled", "accepted")


def test_nothing_is_done_where_the_operator_thinks_again(real: Program, doubtful: Run) -> None:
    result = real("resolve", doubtful.id, input="r\na\nx\ny\nn\n")
    assert result.code != 0
    assert doubtful.view()["status"] == "reconciliation_required"


def test_what_needs_nothing_is_not_asked_about(real: Program, http: Http) -> None:
    run = make_flow(http, read()).start()
    result = real("resolve", run.id).expect(65)
    assert "the execution is queued; there is nothing to resolve" in result.err


def test_of_a_step_with_items_those_are_asked_about_that_are_uncertain(real: Program, http: Http) -> None:
    flow = make_flow(http, write("charge", foreach="[1, 2, 3]"), read("next"))
    run = flow.start()
    leases = {int(lease.data["index"]): lease.begin() for lease in flow.claim(max=3, wait_seconds=5)}
    leases[0].complete().expect(200)
    leases[2].complete().expect(200)
    leases[1].fail("fatal").expect(200)
    assert run.view()["status"] == "reconciliation_required"
    result = real("resolve", run.id, input='r\ns\n"made"\nx\ny\ny\n').expect(0)
    assert f"idempotency key: {run.id}:charge[1]" in result.out
    assert "writes that stand: charge[0], charge[2]" in result.out
    assert "charge[0] is uncertain" not in result.out
    assert run.statuses()["charge"] == "succeeded"
    assert run.view(include="payloads")["steps"][0]["output"] == [None, "made", None]
