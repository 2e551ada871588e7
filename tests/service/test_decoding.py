"""Bodies that don't fit are refused with every fault at once, each by its JSON Pointer."""

import msgspec
import pytest

from stepd.service.decoding import FAULTS_MAX, BodyDecoder
from stepd_protocol.executions import StartRequest
from stepd_protocol.leases import ClaimRequest, Complete, Fail, Heartbeat, NextClaim
from stepd_protocol.problems import Problem

CLAIM = BodyDecoder(ClaimRequest)
START = BodyDecoder(StartRequest)
WHOLE_CLAIM = {"worker": "w", "claim_id": "c", "serves": [{"workflow": "x"}]}


def faults(decoder: BodyDecoder[StartRequest] | BodyDecoder[ClaimRequest], value: object) -> dict[str, str]:
    found = decoder.decode(msgspec.json.encode(value))
    assert isinstance(found, Problem)
    assert (found.status, found.code) == (422, "invalid_request")
    assert isinstance(found.errors, list)
    return {fault.path: fault.message for fault in found.errors}


def test_a_body_that_fits_is_decoded() -> None:
    claim = CLAIM.decode(msgspec.json.encode(WHOLE_CLAIM | {"max": 5}))
    assert isinstance(claim, ClaimRequest)
    assert (claim.worker, claim.max, claim.wait_seconds) == ("w", 5, 30)


def test_all_faults_are_named_at_once() -> None:
    body = {"worker": "a b", "serves": [{"workflow": 5, "surprise": 1}], "max": 0, "wait_seconds": 61, "a/b~c": 1}
    assert faults(CLAIM, body).keys() == {
        "/worker",
        "/claim_id",
        "/serves/0/workflow",
        "/serves/0/surprise",
        "/max",
        "/wait_seconds",
        "/a~1b~0c",
    }


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("max", True, "must be a whole number from 1 to 100"),
        ("max", 2.0, "must be a whole number from 1 to 100"),
        ("max", 10**30, "must be a whole number from 1 to 100"),
        ("wait_seconds", "5", "must be a number from 0 to 60"),
        ("serves", [], "must not be empty"),
        ("serves", {}, "must be a list"),
        ("worker", None, "must be text"),
    ],
)
def test_a_fault_says_what_is_wanted(field: str, value: object, message: str) -> None:
    assert faults(CLAIM, WHOLE_CLAIM | {field: value}) == {f"/{field}": message}


def test_a_name_that_is_none_is_said_back_shortened() -> None:
    assert faults(CLAIM, WHOLE_CLAIM | {"worker": "ü" * 200})["/worker"].endswith("...'")


def test_what_is_no_object_has_the_empty_pointer() -> None:
    assert faults(CLAIM, []) == {"": "must be an object"}


def test_keys_and_values_of_a_map_have_their_own_pointers() -> None:
    body = {"workflow": "w", "labels": {"a b": "", "k": 1, "good": "v"}}
    assert faults(START, body).keys() == {"/labels/a b", "/labels/k"}


def test_a_time_is_checked_with_the_rest() -> None:
    body = {"workflow": "w", "start_at": "tomorrow", "priority": 101}
    assert faults(START, body).keys() == {"/start_at", "/priority"}


def test_a_body_full_of_faults_names_a_bounded_number() -> None:
    labels = {f"k{number}": 0 for number in range(FAULTS_MAX * 2)}
    assert len(faults(START, {"workflow": "w", "labels": labels})) == FAULTS_MAX


def test_a_claim_that_rides_may_not_wait() -> None:
    found = BodyDecoder(NextClaim).decode(msgspec.json.encode(WHOLE_CLAIM | {"wait_seconds": 1}))
    assert isinstance(found, Problem)
    assert "must be 0" in found.detail


@pytest.mark.parametrize("type_", [StartRequest, ClaimRequest, NextClaim, Heartbeat, Complete, Fail])
@pytest.mark.parametrize("value", [None, 1, "x", [], {}, {"fence": "x"}, {"fence": -1}, {"class": 1}, {"serves": [1]}])
def test_the_collector_finds_a_fault_wherever_the_decoder_does(type_: type, value: object) -> None:
    decoder: BodyDecoder[object] = BodyDecoder(type_)
    body = msgspec.json.encode(value)
    found = decoder.decode(body)
    assert isinstance(found, Problem) == bool(decoder.faults(body))
