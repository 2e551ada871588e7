"""Every field of every call: bytes that are no JSON are 400, odd values are taken or refused by name."""

from collections.abc import Iterator

import pytest

from tests.faults.hostile import NO_JSON, ODD, PLACE, documented, with_bytes
from tests.support.client import Answer, Http, Json
from tests.support.definitions import read, unique
from tests.support.flow import Flow, make_flow

TELEMETRY = {"usage", "spans", "next", "progress", "details", "retry_after"}
"""What is dropped with a warning where it can't be read, so that it never costs an outcome."""
USAGE = {"model": "m", "input_tokens": 1, "cache_read_tokens": 0, "output_tokens": 2}
SPAN = {
    "span_id": "00f067aa0ba902b7",
    "parent_span_id": "00f067aa0ba902b8",
    "name": "s",
    "kind": "client",
    "start_unix_nano": "1",
    "end_unix_nano": "2",
    "status": "ok",
    "attributes": {"a": 1},
    "usage": [USAGE],
}
STEP = {
    "id": "s",
    "kind": "task",
    "effect": "read_only",
    "delivery": "at_least_once",
    "needs": [],
    "when": "true",
    "input": {"a": {"$cel": "input"}},
    "input_schema": {"type": "object"},
    "output_schema": {"type": "object"},
    "retry": {"max_attempts": 2, "initial_seconds": 1, "factor": 2, "max_seconds": 3},
    "catch": [{"class": "c", "value": {"b": 1}}],
    "lease_seconds": 30,
    "reclaim_seconds": 1,
    "timeout_seconds": 10,
    "queue_timeout_seconds": 10,
    "priority": 1,
    "manual_result": "allowed",
    "foreach": "input.l",
    "max_parallel": 2,
    "compensate": "undo",
}
OTHER_STEPS: list[Json] = [
    {"id": "undo", "effect": "read_only"},
    {"id": "again", "effect": "read_only", "repeat": {"until": "last.done", "max": 2, "next": {"n": 1}}},
    {
        "id": "wait",
        "kind": "wait",
        "event": "e",
        "payload_schema": {"type": "object"},
        "timeout_seconds": 5,
        "on_timeout": "skip",
    },
    {"id": "nap", "kind": "sleep", "seconds": 1},
    {"id": "then", "kind": "sleep", "until": "2100-01-01T00:00:00Z"},
    {"id": "choice", "kind": "decision", "hit_policy": "first", "rules": [{"id": "r", "then": 1}], "default": 0},
    {"id": "child", "kind": "workflow", "workflow": "w", "version": "1", "input": {"a": 1}},
]
DEFINITION = {
    "version": "1",
    "description": "d",
    "input_schema": {"type": "object"},
    "state_schema": {"type": "object"},
    "steps": [STEP, *OTHER_STEPS],
    "outcome": {"hit_policy": "first", "rules": [{"id": "r", "when": "true", "then": 1}], "default": 0},
    "updates": [{"path": "/a", "value": 1}],
    "output": {"o": 1},
    "timeout_seconds": 60,
    "on_restart": "resume",
    "on_failure": "fail",
    "exclusive": False,
    "retention_seconds": 60,
    "budget": {"cost": 1.5, "tokens": 5},
}
START = {
    "workflow": "w",
    "version": "1",
    "input": {"a": 1},
    "state": {"a": 1},
    "correlation": "c",
    "tenant": "t",
    "labels": {"l": "v"},
    "priority": 1,
    "start_at": "2100-01-01T00:00:00Z",
    "on_restart": "retry",
    "exclusive": False,
    "budget": {"cost": 1.5, "tokens": 5},
}
CLAIM = {
    "worker": "w",
    "instance": "i",
    "claim_id": "c",
    "max": 1,
    "wait_seconds": 0,
    "serves": [{"workflow": "w", "version": "1", "steps": ["s"]}],
}
SIMULATION = {
    "version": "1",
    "input": {"a": 1},
    "state": {"a": 1},
    "correlation": "c",
    "steps": {"s": [{"output": 1}, None], "t": {"fail": {"class": "c", "message": "m"}}},
    "signals": [{"name": "go", "payload": {"a": 1}}],
}
RESOLUTION = {
    "action": "resume",
    "results": [{"step": "s", "index": 0, "outcome": "succeeded", "output": 1, "state": {"a": 1}}],
    "expected_revision": 1,
    "evidence": {"reference": "r", "reason": "because"},
}
PRICE = {
    "model": "m",
    "valid_from": "2026-01-01",
    "input": 2.5,
    "cache_read": "0.25",
    "cache_write": None,
    "output": 10,
    "reasoning": "1e1",
}
BODIES: dict[str, tuple[str, str, Json]] = {
    "register_workflow": ("PUT", "/v1/workflows/{name}", DEFINITION),
    "start_execution": ("POST", "/v1/executions", START),
    "claim_leases": ("POST", "/v1/leases/claim", CLAIM),
    "heartbeat": (
        "POST",
        "/v1/leases/{lease}/heartbeat",
        {"fence": 1, "started": False, "progress": 1, "usage": [USAGE], "spans": [SPAN]},
    ),
    "complete": (
        "POST",
        "/v1/leases/{lease}/complete",
        {"fence": 1, "output": 1, "state": {"a": 1}, "usage": [], "spans": [], "next": {}},
    ),
    "fail": (
        "POST",
        "/v1/leases/{lease}/fail",
        {
            "fence": 1,
            "class": "fatal",
            "message": "m",
            "details": {"a": 1},
            "retry_after": 1,
            "effect": "none",
            "usage": [USAGE],
            "spans": [SPAN],
            "next": CLAIM,
        },
    ),
    "signal_execution": ("POST", "/v1/executions/{execution}/signals", {"name": "go", "payload": {"a": 1}}),
    "publish_event": ("POST", "/v1/events", {"name": "go", "correlation": "c", "payload": {"a": 1}}),
    "cancel_execution": ("POST", "/v1/executions/{execution}/cancel", {"reason": "r", "force": False}),
    "resume_execution": ("POST", "/v1/executions/{execution}/resume", {"budget": {"cost": 1.5, "tokens": 5}}),
    "use_version": ("POST", "/v1/workflows/{name}/current", {"version": "1"}),
    "simulate_workflow": ("POST", "/v1/workflows/{name}/simulate", SIMULATION),
    "resolve_execution": ("POST", "/v1/admin/executions/{execution}/resolve", RESOLUTION),
    "put_prices": ("PUT", "/v1/admin/prices", {"currency": "USD", "prices": [PRICE]}),
    "create_key": ("POST", "/v1/admin/keys", {"name": "k", "scopes": ["read"], "tenants": ["t"]}),
}
EMPTY_BODIES = {"pause_execution"}
FOREIGN_BODIES = {"export_traces"}
"""Their fields are another standard's."""


@pytest.fixture(scope="module")
def work(http: Http) -> Flow:
    return make_flow(http, read())


def spots(value: Json) -> Iterator[Json]:
    """The value once for each place in it, with PLACE there; the whole itself is one."""
    yield PLACE
    if isinstance(value, dict):
        for name, member in value.items():
            yield from ({**value, name: changed} for changed in spots(member))
    if isinstance(value, list):
        for place, item in enumerate(value):
            yield from ([*value[:place], changed, *value[place + 1 :]] for changed in spots(item))


def path_of(place: Json) -> list[str | int]:
    """Where PLACE is."""
    if isinstance(place, dict):
        return next([name, *path_of(member)] for name, member in place.items() if _holds(member))
    if isinstance(place, list):
        return next([number, *path_of(item)] for number, item in enumerate(place) if _holds(item))
    return []


def _holds(value: Json) -> bool:
    if isinstance(value, dict):
        return any(map(_holds, value.values()))
    return any(map(_holds, value)) if isinstance(value, list) else value == PLACE


def sent(http: Http, call: str, work: Flow, raw: bytes, lease: str = "none") -> Answer:
    method, path, _ = BODIES[call]
    execution = "00000000-0000-7000-8000-000000000000"
    target = path.replace("{name}", unique()).replace("{lease}", lease).replace("{execution}", execution)
    headers = {"Idempotency-Key": unique()} if call == "resolve_execution" else {}
    return http.send(method, target, raw=raw, headers=headers)


def test_the_bodies_name_every_field_there_is(http: Http) -> None:
    document = documented(http)
    schemas = document["components"]["schemas"]
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    with_body = {operation["operationId"]: operation for operation in operations if "requestBody" in operation}
    assert with_body.keys() == BODIES.keys() | EMPTY_BODIES | FOREIGN_BODIES
    for call, (_, _, body) in BODIES.items():
        schema = with_body[call]["requestBody"]["content"]["application/json"]["schema"]
        reference = schema["anyOf"][0]["$ref"] if "anyOf" in schema else schema["$ref"]
        assert schemas[reference.rsplit("/", 1)[1]]["properties"].keys() | {"action"} == body.keys() | {"action"}, call
    assert schemas["Step"]["properties"].keys() == set().union(STEP, *OTHER_STEPS)


@pytest.mark.parametrize("call", BODIES)
def test_what_is_no_json_is_400_wherever_it_stands(http: Http, work: Flow, call: str) -> None:
    for place in spots(BODIES[call][2]):
        for kind, value in NO_JSON.items():
            answer = sent(http, call, work, with_bytes(place, value))
            assert answer.status == 400, f"{kind} at {path_of(place)}: {answer}"
            answer.expect_problem(400, "malformed_json")


@pytest.mark.parametrize("call", sorted(BODIES.keys() - {"heartbeat", "complete", "fail"}))
def test_an_odd_value_is_taken_or_refused_by_name_wherever_it_stands(http: Http, work: Flow, call: str) -> None:
    for place in spots(BODIES[call][2]):
        for kind, value in ODD.items():
            check_refusal_names(sent(http, call, work, with_bytes(place, value)), place, kind)


@pytest.mark.parametrize("call", ["heartbeat", "complete", "fail"])
def test_an_odd_value_never_costs_a_lease_more_than_its_call(http: Http, work: Flow, call: str) -> None:
    """A field that may not be refused is dropped; another is named, and the lease stays as it was."""
    for place in spots(BODIES[call][2]):
        _, lease = work.begin()
        where = path_of(place)
        for kind, value in ODD.items():
            raw = with_bytes(place | {"fence": lease.fence} if where and where != ["fence"] else place, value)
            answer = sent(http, call, work, raw, lease.id)
            check_refusal_names(answer, place, kind)
            if where and where[0] in TELEMETRY:
                assert answer.status == 200 or answer.json["reason"] == "already_settled", str(answer)
            if answer.status == 200 and call != "heartbeat":
                _, lease = work.begin()
        assert lease.fail("fatal").status == 200


def check_refusal_names(answer: Answer, place: Json, kind: str) -> None:
    """Taken, or a whole problem that says where the fault is."""
    said = f"{kind} at {path_of(place)}: {answer}"
    assert answer.status < 500, said
    if answer.status < 300:
        return
    problem = answer.expect_problem(answer.status, answer.json["code"])
    assert answer.status in (404, 409, 413, 422), said
    if answer.status == 422:
        assert problem.get("errors") or "settled" in problem or problem["code"] == "definition_conflict", said
        assert len(problem["detail"]) < 1000, "what was sent is said back in short"
