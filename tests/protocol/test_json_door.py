"""What comes in as JSON: what is no JSON is 400, what breaks a rule is 422, and nothing is ever 500."""

import json
from uuid import uuid4

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Answer, Http, Json
from tests.support.definitions import read
from tests.support.flow import Flow, register

NO_ID = "00000000-0000-7000-8000-000000000000"
NO_JSON = {
    "empty": b"",
    "no JSON": b"hello",
    "cut off": b'{"workflow":',
    "trailing text": b'{"workflow": "x"} more',
    "trailing comma": b'{"workflow": "x",}',
    "single quotes": b"{'workflow': 'x'}",
    "not UTF-8": b'{"workflow": "\xff"}',
    "not UTF-8, passing through": b'{"workflow": "x", "input": "\xff"}',
    "UTF-8 of a surrogate": b'{"workflow": "x", "input": "\xed\xa0\x80"}',
    "UTF-16": '{"workflow": "x"}'.encode("utf-16"),
    "NaN": b'{"workflow": "x", "input": NaN}',
    "Infinity": b'{"workflow": "x", "input": [Infinity]}',
    "-Infinity": b'{"workflow": "x", "input": {"a": -Infinity}}',
    "lone surrogate": b'{"workflow": "x", "input": "\\ud800"}',
    "lone low surrogate in a name": b'{"workflow": "x", "input": {"\\udc00": 1}}',
    "surrogates the wrong way round": b'{"workflow": "x", "input": "\\udc00\\ud800"}',
    "a name twice": b'{"workflow": "x", "workflow": "y"}',
    "a name twice, passing through": b'{"workflow": "x", "input": {"a": 1, "b": {"c": 1, "c": 2}}}',
    "a name twice, spelt differently": b'{"workflow": "x", "input": {"a": 1, "\\u0061": 2}}',
    "beyond a double": b'{"workflow": "x", "input": 1e400}',
    "beyond a double, negative": b'{"workflow": "x", "input": [-1.5e999]}',
    "beyond a double, with a fraction": b'{"workflow": "x", "input": 1' + b"0" * 400 + b".5}",
    "leading zero": b'{"workflow": "x", "input": 01}',
    "control character": b'{"workflow": "x", "input": "a\x00b"}',
    "20,000 nested arrays": b'{"workflow": "x", "input": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    "20,000 nested objects": b'{"workflow": "x", "input": ' + b'{"a":' * 20_000 + b"1" + b"}" * 20_000 + b"}",
    "101 levels": b'{"workflow": "x", "input": ' + b"[" * 100 + b"]" * 100 + b"}",
}
CALLS = {
    "start": ("POST", "/v1/executions"),
    "register": ("PUT", "/v1/workflows/anything"),
    "claim": ("POST", "/v1/leases/claim"),
    "heartbeat": ("POST", f"/v1/leases/{NO_ID}/heartbeat"),
    "complete": ("POST", f"/v1/leases/{NO_ID}/complete"),
    "fail": ("POST", f"/v1/leases/{NO_ID}/fail"),
    "cancel": ("POST", f"/v1/executions/{NO_ID}/cancel"),
}
ODD_VALUES: list[Json] = [
    None,
    True,
    0,
    -1,
    1.5,
    10**40,
    "",
    "x",
    "\u0000",
    [],
    [[]],
    {},
    {"$cel": 1},
    {"": None},
    "é😀" * 100,
]  # fmt: skip — one value a line would say no more


@pytest.fixture(scope="module")
def plain(flow: MakeFlow) -> Flow:
    return flow(read())


def start_raw(http: Http, raw: bytes) -> Answer:
    return http.send("POST", "/v1/executions", raw=raw)


@pytest.mark.parametrize("kind", NO_JSON)
def test_what_is_no_json_is_malformed(http: Http, kind: str) -> None:
    start_raw(http, NO_JSON[kind]).expect_problem(400, "malformed_json")


@pytest.mark.parametrize("call", CALLS)
def test_every_call_has_the_same_door(http: Http, call: str) -> None:
    method, path = CALLS[call]
    for kind in ("empty", "cut off", "not UTF-8, passing through", "a name twice", "20,000 nested arrays"):
        http.send(method, path, raw=NO_JSON[kind]).expect_problem(400, "malformed_json")


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("body", [b"[]", b"null", b'"text"', b"5"])
def test_a_body_that_is_no_object_is_invalid(http: Http, call: str, body: bytes) -> None:
    method, path = CALLS[call]
    http.send(method, path, raw=body).expect_problem(422, "invalid_request", "invalid_definition")


def test_a_hundred_levels_are_accepted(http: Http, plain: Flow) -> None:
    nested = b"[" * 99 + b"]" * 99
    assert start_raw(http, b'{"workflow":"%s","input":%s}' % (plain.name.encode(), nested)).status == 202


def test_brackets_in_text_are_no_nesting(plain: Flow) -> None:
    text = "[{" * 500 + '\\"' * 50
    assert plain.start(input=text).view()["input"] == text


def test_unknown_fields_are_refused_and_named(http: Http, plain: Flow) -> None:
    run = plain.start()
    lease = plain.claim_one()
    answers = {
        "start": plain.attempt_start(inputt=1),
        "claim": plain.attempt_claim(maxx=1),
        "heartbeat": lease.heartbeat(fense=1),
        "complete": lease.complete(outputt=1),
        "fail": lease.fail(klass="x"),
        "cancel": run.cancel(forced=True),
    }
    for call, answer in answers.items():
        problem = answer.expect_problem(422, "invalid_request")
        assert "settled" not in problem, call
        assert any(word in answer.text for word in ("inputt", "maxx", "fense", "outputt", "klass", "forced")), str(
            answer
        )
    lease.complete().expect(200)


def test_unknown_fields_inside_a_body_are_refused(plain: Flow) -> None:
    plain.attempt_claim(serves=[{"workflow": plain.name, "verzion": "1"}]).expect_problem(422, "invalid_request")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/executions?colour=red"),
        ("GET", "/v1/executions?limit=5&limit=6"),
        ("GET", "/v1/executions?workflow=a&workflow=b"),
        ("GET", "/v1/executions/{id}?wait=1"),
        ("GET", "/v1/executions/{id}?wait_seconds=0&wait_seconds=0"),
        ("GET", "/v1/executions/{id}?include=everything"),
        ("GET", "/v1/executions/{id}/events?before=1"),
        ("GET", "/v1/executions/{id}/events?after=0&after=0"),
    ],
)
def test_unknown_and_repeated_query_parameters_are_refused(http: Http, plain: Flow, method: str, path: str) -> None:
    run = plain.start()
    http.send(method, path.replace("{id}", run.id)).expect_problem(422, "invalid_request")


@pytest.mark.parametrize("query", ["wait_seconds=-1", "wait_seconds=soon", "wait_seconds=nan", "wait_seconds=1e9"])
def test_query_values_out_of_range_are_refused(http: Http, plain: Flow, query: str) -> None:
    http.get(f"{plain.start().path}?{query}").expect_problem(422, "invalid_request")


def test_a_query_parameter_of_a_post_is_refused_too(http: Http, plain: Flow) -> None:
    answer = http.send("POST", "/v1/executions?force=true", {"workflow": plain.name})
    answer.expect_problem(422, "invalid_request")


@pytest.mark.parametrize("content_type", ["text/plain", "application/xml", "application/x-www-form-urlencoded"])
def test_another_content_type_is_unsupported(http: Http, plain: Flow, content_type: str) -> None:
    body = json.dumps({"workflow": plain.name}).encode()
    answer = http.send("POST", "/v1/executions", raw=body, headers={"Content-Type": content_type})
    answer.expect_problem(415, "unsupported_media_type")


@pytest.mark.parametrize("content_type", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
def test_json_is_accepted_however_it_is_written(http: Http, plain: Flow, content_type: str) -> None:
    body = json.dumps({"workflow": plain.name}).encode()
    assert http.send("POST", "/v1/executions", raw=body, headers={"Content-Type": content_type}).status == 202


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/v1/executions", "GET"),
        ("GET", "/v1/leases/claim", "POST"),
        ("PATCH", f"/v1/executions/{NO_ID}", "GET"),
        ("POST", f"/v1/executions/{NO_ID}/events", "GET"),
    ],
)
def test_a_method_that_a_path_lacks_is_not_allowed(http: Http, method: str, path: str, allowed: str) -> None:
    answer = http.send(method, path)
    answer.expect_problem(405, "method_not_allowed")
    assert allowed in [name.strip() for name in answer.headers["allow"].split(",")]


@pytest.mark.parametrize("path", ["/v1/nothing", "/nothing", "/v2/executions", "/v1/executions/", "/v1"])
def test_a_path_that_is_none_is_not_found(http: Http, path: str) -> None:
    http.get(path).expect_problem(404, "not_found")


@pytest.mark.parametrize("id", [NO_ID, "2dacd507-d7fb-49e4-8edc-5cda0c0dc97e", "nonsense", "%00", "a" * 2000])
def test_an_execution_that_never_was_is_not_found(http: Http, id: str) -> None:
    http.get(f"/v1/executions/{id}").expect_problem(404, "not_found")
    http.get(f"/v1/executions/{id}/events").expect_problem(404, "not_found")
    http.post(f"/v1/executions/{id}/cancel", {"reason": "x"}).expect_problem(404, "not_found")


@pytest.mark.parametrize(
    "name", ["workflow", "input", "state", "labels", "priority", "correlation", "start_at", "tenant"]
)
def test_odd_values_in_a_start_are_told_apart_without_a_fault_of_the_daemon(http: Http, plain: Flow, name: str) -> None:
    for value in ODD_VALUES:
        answer = http.post("/v1/executions", {"workflow": plain.name, name: value})
        assert answer.status in (202, 404, 422), str(answer)


@pytest.mark.parametrize("name", ["id", "needs", "when", "input", "input_schema", "retry", "catch", "lease_seconds"])
def test_odd_values_in_a_step_are_told_apart_without_a_fault_of_the_daemon(http: Http, name: str) -> None:
    for number, value in enumerate(ODD_VALUES):
        answer = register(http, f"odd-{name}-{number}-{uuid4().hex}", {"steps": [{**read(), name: value}]})
        assert answer.status in (201, 422), str(answer)


@pytest.mark.parametrize("name", ["worker", "instance", "claim_id", "max", "wait_seconds", "serves"])
def test_odd_values_in_a_claim_are_told_apart_without_a_fault_of_the_daemon(plain: Flow, name: str) -> None:
    for value in ODD_VALUES:
        if name == "wait_seconds" and value in (None, 1.5):
            continue  # it would wait, rightly
        answer = plain.attempt_claim(**{name: value})
        assert answer.status in (200, 422), str(answer)


OUTCOME_FIELDS = [
    ("heartbeat", "progress"),
    ("heartbeat", "usage"),
    ("heartbeat", "spans"),
    ("heartbeat", "started"),
    ("complete", "state"),
    ("complete", "usage"),
    ("complete", "spans"),
    ("complete", "next"),
    ("fail", "message"),
    ("fail", "details"),
    ("fail", "retry_after"),
    ("fail", "effect"),
    ("fail", "next"),
]


@pytest.mark.parametrize(("call", "name"), OUTCOME_FIELDS)
def test_odd_values_in_an_outcome_are_told_apart_without_a_fault_of_the_daemon(
    flow: MakeFlow, call: str, name: str
) -> None:
    work = flow(read())
    for value in ODD_VALUES:
        _, lease = work.begin()
        body = {"fence": lease.fence, **({"class": "fatal"} if call == "fail" else {}), name: value}
        answer = lease.http.post(f"/v1/leases/{lease.id}/{call}", body)
        never_refused = name in ("progress", "usage", "spans", "next", "details", "retry_after")
        assert answer.status in ((200,) if never_refused else (200, 422)), str(answer)
