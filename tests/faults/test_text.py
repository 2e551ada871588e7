"""Hostile text in every field comes out of the API as the data that it is; a step can always fail."""

import json

import pytest

from tests.faults.hostile import TEXTS
from tests.support.client import Http, Json
from tests.support.definitions import read
from tests.support.flow import Flow, Lease, make_flow
from tests.support.stream import Stream


@pytest.fixture(scope="module")
def work(http: Http) -> Flow:
    retry = {"max_attempts": 2, "initial_seconds": 0}
    return make_flow(http, read(retry=retry), description="<b>\x1b[31m", output={"out": {"$cel": "steps.work.output"}})


@pytest.mark.parametrize("kind", TEXTS)
def test_text_comes_out_as_it_went_in(http: Http, work: Flow, kind: str) -> None:
    text = TEXTS[kind]
    value = {text: [text, {"deep": text}]}
    fields: dict[str, Json] = {"input": value, "state": {text: text}, "correlation": text, "labels": {"l": text}}
    run, lease = work.begin(**fields)
    assert (lease.data["input"], lease.data["state"]) == (value, {text: text})
    assert (lease.data["execution"]["correlation"], lease.data["execution"]["labels"]) == (text, {"l": text})
    span = {"span_id": "00f067aa0ba902b7", "name": text, "start_unix_nano": "1", "end_unix_nano": "2"}
    usage = [{"model": text, "input_tokens": 1}]
    warnings = lease.heartbeat(progress=value, usage=usage, spans=[{**span, "attributes": {text: text}}]).expect(200)
    assert warnings["warnings"] == []
    assert lease.fail("retryable", message=text, details=value).status == 200
    again = work.claim_one()
    error = again.data["previous"]["error"]
    cleaned = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    assert (error["message"], error["details"]) == (cleaned, value), "only what no store keeps is cleaned away"
    assert again.data["previous"]["progress"] == value
    assert again.complete(value, state={text: value}).status == 200
    view = run.view(include="attempts,payloads")
    assert (view["correlation"], view["labels"], view["input"]) == (text, {"l": text}, value)
    assert (view["output"], view["state"]) == ({"out": value}, {text: value})
    spans = http.get(f"{run.path}/spans").expect(200)["items"]
    assert any(text in (found["name"], *found["attributes"]) for found in spans)
    listed = http.get("/v1/executions", query={"correlation": text}).expect(200)["items"]
    assert run.id in [item["id"] for item in listed], "a filter takes it as text too"


@pytest.mark.parametrize("kind", TEXTS)
def test_a_stream_s_frames_are_its_own(http: Http, work: Flow, kind: str) -> None:
    """Line breaks in a message begin no event of their own."""
    run, lease = work.begin()
    lease.fail("fatal", message=TEXTS[kind], details={"d": TEXTS[kind]}).expect(200)
    with Stream(http, f"{run.path}/events") as opened:
        messages = list(opened.messages())
    assert [json.loads(message.data or "") for message in messages] == run.events()


def test_answers_say_what_they_are(http: Http) -> None:
    """Nothing is HTML, so that no browser takes a text for a page."""
    run = make_flow(http, read()).start(input=TEXTS["HTML"])
    for path in (
        run.path,
        f"{run.path}/events",
        "/v1/executions",
        f"/v1/executions?label={TEXTS['ANSI']!r}",
        "/nothing",
    ):
        answer = http.get(path.replace(" ", "%20").replace("<", "%3C"))
        assert answer.headers["content-type"].split(";")[0] in ("application/json", "application/problem+json")


FAILS = {
    "no text": 5,
    "null": None,
    "a list": ["<b>", "\0"],
    "long": "\N{PILE OF POO}" * 100_000,
    "NULs": "\0" * 10_000,
    "only blanks": " \t\n",
}


@pytest.mark.parametrize("kind", FAILS)
def test_a_fail_is_cleaned_rather_than_refused(work: Flow, kind: str) -> None:
    run, lease = work.begin()
    odd: dict[str, Json] = {"usage": kind, "spans": {"a": kind}, "retry_after": {"b": 1}, "next": kind}
    answer = lease.fail("fatal", message=FAILS[kind], details="x" * 100_000, **odd).expect(200)
    assert answer["disposition"] == "step_failed"
    assert answer["warnings"]
    error = run.view()["error"]
    assert len(error["message"].encode()) <= 4096
    assert "\0" not in error["message"]


def test_a_fail_that_is_no_json_can_be_said_again(http: Http, work: Flow) -> None:
    run, lease = work.begin()
    nested = b'{"fence":%d,"class":"card_declined","details":%b}' % (lease.fence, b"[" * 20_000 + b"]" * 20_000)
    http.send("POST", f"/v1/leases/{lease.id}/fail", raw=nested).expect_problem(400, "malformed_json")
    assert Lease(http, lease.data).heartbeat().status == 200, "the lease is as it was"
    assert lease.fail("fatal").expect(200)["disposition"] == "step_failed"
    assert run.view()["status"] == "failed"
