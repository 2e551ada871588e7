"""Query, path and headers: what is out of range, unreadable or another's is a problem with a 4xx, for every route."""

import base64
import json
from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.faults.hostile import TEXTS, documented
from tests.support import raw
from tests.support.client import Answer, Http, Json
from tests.support.definitions import read, unique
from tests.support.flow import Flow, Run, claim, make_flow
from tests.support.stream import Stream

VALUES = {
    "NUL": "%00",
    "NUL within": "a%00b",
    "bad UTF-8": "%ff%fe",
    "UTF-8 of a surrogate": "%ed%a0%80",
    "cut UTF-8": "%f0%9f",
    "no escape": "%zz",
    "10^40": "1" + "0" * 40,
    "-10^40": "-1" + "0" * 40,
    "2^63": str(2**63),
    "2^64": str(2**64),
    "5,000 digits": "9" * 5000,
    "-1": "-1",
    "NaN": "NaN",
    "infinity": "inf",
    "1e400": "1e400",
    "other digits": "%D9%A1%D9%A2",
    "underscores": "1_0",
    "nothing": "",
    "spaces": "%20%20",
    "a list": "[1,2]",
    "JSON": "%7B%22a%22%3A1%7D",
    "up": "..%2F..%2Fetc%2Fpasswd",
    "SQL": "%27%20or%201%3D1%20--",
    "far past": "0001-01-01T00%3A00%3A00%2B23%3A59",
    "far future": "9999-12-31T23%3A59%3A59-23%3A59",
    "RTL mark": "%E2%80%AE",
    "long": "x" * 6000,
}
PATH_VALUES = VALUES.keys() - {"nothing"}
"""A path with an empty part is another path."""


@pytest.fixture(scope="module")
def run(http: Http) -> Run:
    return make_flow(http, read()).start()


def operations(http: Http) -> Iterator[tuple[str, str, Json]]:
    """Method, path and description of each operation in the daemon's document."""
    for path, methods in documented(http)["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def check_answer(answer: Answer, said: str) -> None:
    """Taken, or a whole problem of the client's making."""
    assert answer.status < 500, f"{said}: {answer}"
    if answer.status >= 400:
        answer.expect_problem(answer.status, answer.json["code"])
        assert len(answer.body) < 20_000, said


def test_any_value_of_any_query_parameter_is_taken_or_refused(http: Http, run: Run) -> None:
    count = 0
    for method, path, operation in operations(http):
        target = path.replace("{id}", run.id).replace("{name}", "any")
        for parameter in operation.get("parameters", ()):
            if parameter["in"] != "query":
                continue
            for kind, value in VALUES.items():
                answer = http.send(method, f"{target}?{parameter['name']}={value}", raw=_body(operation))
                check_answer(answer, f"{parameter['name']} {kind}")
                count += 1
    assert count > 500


@pytest.mark.parametrize("query", ["%00=1", "limit=1&limit=2", "=1", "&&&", "limit", "a" * 9000, "x=1&" * 2000])
def test_a_query_that_is_none_is_refused(http: Http, query: str) -> None:
    answer = http.get(f"/v1/executions?{query}")
    check_answer(answer, query[:40])
    assert answer.status == (200 if query == "&&&" else 422), str(answer)


def test_any_value_in_any_path_names_nothing(http: Http) -> None:
    for method, path, operation in operations(http):
        if "{" not in path or operation["operationId"] == "register_workflow":
            continue
        for kind in sorted(PATH_VALUES):
            target = path.replace("{id}", VALUES[kind]).replace("{name}", VALUES[kind])
            answer = http.send(method, target, raw=_body(operation))
            check_answer(answer, f"{path} {kind}")
            assert answer.status in (404, 422), str(answer)


def test_only_names_are_registered(http: Http) -> None:
    body = json.dumps({"steps": [read()]}).encode()
    for kind in sorted(
        PATH_VALUES - {"10^40", "2^63", "2^64", "NaN", "infinity", "1e400", "underscores", "far future"}
    ):
        answer = http.send("PUT", f"/v1/workflows/{VALUES[kind]}", raw=body)
        check_answer(answer, kind)
        assert answer.status in (404, 422), f"{kind}: {answer}"


@pytest.mark.parametrize("kind", ["execution", "lease", "key", "workflow"])
def test_the_id_of_something_else_is_nothing_here(http: Http, kind: str) -> None:
    work = make_flow(http, read())
    run, lease = work.begin()
    keys = http.get("/v1/admin/keys").expect(200)["items"]
    id = {"execution": run.id, "lease": lease.id, "key": keys[0]["id"], "workflow": work.name}[kind]
    if kind != "execution":
        for path in ("", "/events", "/spans"):
            http.get(f"/v1/executions/{id}{path}").expect_problem(404, "not_found")
        for call in ("cancel", "pause", "resume"):
            http.post(f"/v1/executions/{id}/{call}", {}).expect_problem(404, "not_found")
    if kind != "lease":
        for call, fields in (("heartbeat", {}), ("complete", {}), ("fail", {"class": "fatal"})):
            http.post(f"/v1/leases/{id}/{call}", {"fence": 1, **fields}).expect_problem(404, "not_found")
    if kind != "key":
        http.send("DELETE", f"/v1/admin/keys/{id}").expect_problem(404, "not_found")
    for other in (id.upper() + " ", f"{id}%00", f"%20{id}", id[:-1]):
        assert http.get(f"/v1/executions/{other.replace(' ', '%20')}").status == 404
    assert lease.complete().status == 200


def cursors_of(http: Http) -> dict[str, str]:
    """A real cursor of each list that has one, by its path."""
    flow = make_flow(http, read())
    for _ in range(2):
        flow.start()
        make_flow(http, read())
        http.post("/v1/admin/keys", {"name": unique(), "scopes": ["read"], "tenants": ["*"]}).expect(201)
    paths = ("/v1/executions", "/v1/workflows", "/v1/admin/keys", "/v1/admin/audit")
    return {path: http.get(path, query={"limit": 1}).expect(200)["next"] for path in paths}


def test_a_cursor_that_was_changed_or_is_another_list_s_is_no_fault(http: Http) -> None:
    cursors = cursors_of(http)
    for path in cursors:
        for made in (*cursors.values(), *(changed for cursor in cursors.values() for changed in _tampered(cursor))):
            answer = http.get(path, query={"cursor": made})
            check_answer(answer, f"{path} {made}")
            assert answer.status in (200, 422)


ODD_MEMBERS: list[Json] = [None, -1, 10**40, 1.5, "\0", [], {}, {"status": ["x"]}, {"x": [""]}]


def _tampered(cursor: str) -> Iterator[str]:
    """The cursor with one character changed or missing, and with other values in it."""
    for place in range(0, len(cursor), 5):
        yield cursor[:place] + ("A" if cursor[place] != "A" else "B") + cursor[place + 1 :]
        yield cursor[:place] + cursor[place + 1 :]
    held = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    others: list[Json] = [None, 1, "x\0", [], {}, 10**40, {"at": -1, "id": "", "filters": {}}]
    if isinstance(held, dict):
        for name in held:
            others += [{**held, name: odd} for odd in ODD_MEMBERS]
    for other in others:
        yield base64.urlsafe_b64encode(json.dumps(other).encode()).decode().rstrip("=")


LAST_EVENT_IDS = [
    "",
    "-1",
    "1.0",
    "1e1",
    " 1 2",
    "NaN",
    "0x1",
    "9" * 19,
    "9" * 4000,
    "\x7f",
    "\xa0",
    "\xd9\xa1",
    "\xff",
    "x" * 4000,
]


@pytest.mark.parametrize("last", LAST_EVENT_IDS, ids=lambda last: repr(last[:10]))
def test_a_last_event_id_that_is_none_is_400(run: Run, last: str) -> None:
    with Stream(run.http, f"{run.path}/events", headers={"Last-Event-ID": last}) as opened:
        answer = json.loads(opened.response.read())
        assert (opened.response.status, answer["code"]) == (400, "invalid_last_event_id"), answer


def test_two_of_a_header_are_refused(run: Run) -> None:
    for name in ("Last-Event-ID", "Idempotency-Key"):
        method, path = ("GET", f"{run.path}/events") if name == "Last-Event-ID" else ("POST", "/v1/executions")
        content = b"" if method == "GET" else b'{"workflow":"x"}'
        head = raw.head(run.http, method, path, len(content), {"Accept": "text/event-stream", name: "1"})
        head = head.replace(b"\r\n\r\n", f"\r\n{name}: 2\r\nConnection: close\r\n\r\n".encode())
        answer = raw.send_bytes(run.http, head + content).read_to_end(5)
        assert answer.startswith(b"HTTP/1.1 422 "), answer
        assert b"urn:stepd:problem:invalid_request" in answer


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 256, "\x7f", "\xe9", "\xff" * 10])
def test_an_idempotency_key_that_is_none_is_422(http: Http, key: str) -> None:
    answer = http.post("/v1/executions", {"workflow": "x"}, headers={"Idempotency-Key": key})
    answer.expect_problem(422, "invalid_request")


@pytest.mark.parametrize(
    "trace",
    [
        "",
        "00",
        "x" * 8000,
        "00-" + "0" * 32 + "-" + "0" * 16 + "-01",
        "ff-" + "1" * 32 + "-" + "1" * 16 + "-01",
        "\xff",
    ],
    ids=lambda trace: repr(trace[:8]),
)
def test_a_traceparent_that_is_none_is_passed_over(http: Http, trace: str) -> None:
    work = make_flow(http, read())
    assert work.attempt_start(headers={"traceparent": trace}).status == 202
    work.claim_one().complete().expect(200)


@pytest.mark.parametrize("name", ["Host", "Authorization", "Content-Type", "Accept", "Cookie", "Origin", "X-Any"])
def test_hostile_headers_are_no_fault(http: Http, name: str) -> None:
    for text in (*(text for text in TEXTS.values() if text.isprintable()), "\xff\xfe", "x" * 8000, ";;;,,,==", "q=nan"):
        value = text.encode("utf-8").decode("latin-1")
        answer = http.post("/v1/leases/claim", _claim(), headers={name: value})
        check_answer(answer, f"{name}: {text[:20]}")


def _claim() -> dict[str, Json]:
    return {"worker": "w", "claim_id": str(uuid4()), "wait_seconds": 0, "serves": [{"workflow": "none"}]}


def _body(operation: Json) -> bytes | None:
    return b"{}" if "requestBody" in operation else None


def test_a_claim_for_what_others_have_gets_nothing(http: Http) -> None:
    """Names of all kinds in `serves` find nothing, and hold nothing up."""
    work: Flow = make_flow(http, read())
    run = work.start()
    serves = [{"workflow": f"{unique()}", "version": "v" * 128, "steps": ["s" * 128]} for _ in range(500)]
    assert claim(http, {"serves": serves}).expect(200)["leases"] == []
    assert run.view()["status"] == "queued"
