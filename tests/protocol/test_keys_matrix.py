"""Every route with every scope, and with everything that is no key: a table that has a line for each route there is."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import uuid4

import pytest

from tests.support.client import Answer, Http, Json
from tests.support.definitions import read, unique
from tests.support.flow import make_flow
from tests.support.keys import Key, make_key
from tests.support.raw import send_bytes

SCOPES = ("worker", "execute", "read", "write", "operate", "admin")
READERS = frozenset({"read", "write", "operate", "admin"})
NO_ID = "00000000-0000-7000-8000-000000000000"


@dataclass(frozen=True, slots=True)
class Call:
    """One route: how it is called, and which scopes may. `needs` is the scope that a refusal names."""

    method: str
    path: str
    may: frozenset[str]
    needs: str
    body: Callable[[], Json] = lambda: None

    def send(self, http: Http, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        return http.send(self.method, path, self.body(), headers=headers)


def worker(method: str, path: str, body: Callable[[], Json]) -> Call:
    return Call(method, path, frozenset({"worker", "admin"}), "worker", body)


def reader(path: str, *, own: bool = False) -> Call:
    """A read; `own`: a key with `execute` reads what its principal started."""
    return Call("GET", path, READERS | {"execute"} if own else READERS, "read")


def with_scope(scope: str, method: str, path: str, body: Callable[[], Json] = lambda: None) -> Call:
    return Call(method, path, frozenset({scope, "admin"}), scope, body)


def a_claim() -> Json:
    return {"worker": "w", "claim_id": str(uuid4()), "wait_seconds": 0, "serves": [{"workflow": unique()}]}


CALLS = {
    "register_workflow": worker("PUT", "/v1/workflows/{name}", lambda: {"steps": [read()]}),
    "claim_leases": worker("POST", "/v1/leases/claim", a_claim),
    "heartbeat": worker("POST", "/v1/leases/{id}/heartbeat", lambda: {"fence": 1}),
    "complete": worker("POST", "/v1/leases/{id}/complete", lambda: {"fence": 1, "output": None}),
    "fail": worker("POST", "/v1/leases/{id}/fail", lambda: {"fence": 1, "class": "fatal", "message": "m"}),
    "export_traces": worker("POST", "/v1/traces", lambda: {"resourceSpans": []}),
    "start_execution": with_scope("execute", "POST", "/v1/executions", lambda: {"workflow": unique()}),
    "cancel_execution": with_scope("execute", "POST", "/v1/executions/{id}/cancel", lambda: {"reason": "r"}),
    "signal_execution": with_scope("execute", "POST", "/v1/executions/{id}/signals", lambda: {"name": "go"}),
    "publish_event": with_scope("execute", "POST", "/v1/events", lambda: {"name": "go", "correlation": unique()}),
    "list_executions": reader("/v1/executions", own=True),
    "view_execution": reader("/v1/executions/{id}", own=True),
    "list_events": reader("/v1/executions/{id}/events", own=True),
    "list_spans": reader("/v1/executions/{id}/spans", own=True),
    "list_items": reader("/v1/executions/{id}/steps/{step}/items", own=True),
    "resolve_execution": with_scope("operate", "POST", "/v1/admin/executions/{id}/resolve"),
    "pause_execution": with_scope("operate", "POST", "/v1/executions/{id}/pause"),
    "resume_execution": with_scope("operate", "POST", "/v1/executions/{id}/resume"),
    "list_workflows": reader("/v1/workflows"),
    "view_workflow": reader("/v1/workflows/{name}"),
    "use_version": with_scope("operate", "POST", "/v1/workflows/{name}/current", lambda: {"version": "1"}),
    "simulate_workflow": Call("POST", "/v1/workflows/{name}/simulate", READERS, "read"),
    "list_workers": reader("/v1/workers"),
    "view_service": Call("GET", "/v1/service", frozenset(SCOPES), ""),
    "sum_usage": reader("/v1/usage"),
    "view_prices": with_scope("admin", "GET", "/v1/admin/prices"),
    "put_prices": with_scope("admin", "PUT", "/v1/admin/prices", lambda: {"currency": "USD", "prices": []}),
    "create_key": with_scope("admin", "POST", "/v1/admin/keys", lambda: {"name": unique(), "scopes": ["read"]}),
    "list_keys": with_scope("admin", "GET", "/v1/admin/keys"),
    "revoke_key": with_scope("admin", "DELETE", "/v1/admin/keys/{id}"),
    "list_audit": with_scope("admin", "GET", "/v1/admin/audit"),
}
PUBLIC = {
    "alive": "/healthz",
    "ready": "/readyz",
    "metrics": "/metrics",
    "openapi_yaml": "/openapi.yaml",
    "openapi_json": "/openapi.json",
}


@pytest.fixture(scope="module", autouse=True)
def _locked(http: Http) -> None:
    if http.key is None:
        pytest.skip("needs STEPD_TEST_KEY: in open mode everybody may do everything")


@pytest.fixture(scope="module")
def keys(http: Http) -> dict[str, Key]:
    """One key for each scope, each of a principal of its own. `worker` and `execute` end what `write` also may."""
    return {scope: make_key(http, scope, name=f"{scope}-{uuid4()}") for scope in SCOPES}


@pytest.fixture(scope="module")
def place(http: Http) -> Callable[[Call], str]:
    """The path of a call: of a workflow that there is, and of an execution, a lease or a key that there isn't."""
    name = make_flow(http, read()).name
    return lambda call: call.path.replace("{name}", name).replace("{id}", NO_ID).replace("{step}", "work")


def test_the_table_has_every_route(http: Http) -> None:
    document = Http(http.url).get("/openapi.json").expect(200)
    documented = {
        operation["operationId"]: (method.upper(), path)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }
    tabled = {name: (call.method, call.path) for name, call in CALLS.items()}
    assert tabled | {name: ("GET", path) for name, path in PUBLIC.items()} == documented


@pytest.mark.parametrize("name", CALLS)
def test_a_route_is_open_to_its_scopes_and_to_no_other(
    keys: dict[str, Key], place: Callable[[Call], str], name: str
) -> None:
    call = CALLS[name]
    for scope in SCOPES:
        answer = call.send(keys[scope].http, place(call))
        if scope in call.may:
            assert answer.status not in (401, 403), f"{scope} may {name}: {answer}"
        else:
            problem = answer.expect_problem(403, "forbidden")
            assert problem["scope"] == call.needs, f"{scope}: {answer}"
            assert call.needs in problem["detail"]


@pytest.mark.parametrize("name", CALLS)
def test_a_route_is_closed_without_a_good_key(http: Http, place: Callable[[Call], str], name: str) -> None:
    call, nobody = CALLS[name], Http(http.url)
    revoked = make_key(http, "admin")
    revoked.revoke(http)
    for headers in ({}, bearer(revoked.secret), *malformed(http.key or "")):
        check_closed(call.send(nobody, place(call), headers), http.key or "")
    for query in ("key", "access_token", "api_key", "token", "authorization"):
        check_closed(call.send(nobody, f"{place(call)}?{query}={http.key}"), http.key or "")


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def malformed(secret: str) -> list[dict[str, str]]:
    """What is no key, though it is much like the one with this secret."""
    values = [
        "",
        "Bearer",
        "Bearer ",
        "Bearer null",
        secret,
        f"Basic {secret}",
        f"Token {secret}",
        f"Bearer: {secret}",
        f"Bearer,{secret}",
        f'Bearer "{secret}"',
        f"Bearer {secret}x",
        f"Bearer {secret[:-1]}",
        f"Bearer {secret} {secret}",
        f"Bearer {secret}, Bearer {secret}",
        f"Bearer {secret.swapcase()}",
        f"Bearer {hashlib.sha256(secret.encode()).hexdigest()}",
        f"Bearer {'x' * 8000}",
        "Bearer \u00ff\u00fe",
    ]
    others = [{"X-API-Key": secret}, {"Cookie": f"key={secret}"}, {"Proxy-Authorization": f"Bearer {secret}"}]
    return [{"Authorization": value} for value in values] + others


def check_closed(answer: Answer, secret: str) -> None:
    """A 401 that says how to do better, and nothing else."""
    problem = answer.expect_problem(401, "unauthenticated")
    assert answer.headers["www-authenticate"].startswith("Bearer"), str(answer)
    assert problem.keys() == {"type", "title", "status", "detail", "code"}, str(answer)
    assert secret not in answer.text


@pytest.mark.parametrize("name", CALLS)
def test_two_authorization_headers_open_nothing(http: Http, place: Callable[[Call], str], name: str) -> None:
    call = CALLS[name]
    good, bad = f"Authorization: Bearer {http.key}", "Authorization: Bearer nobody"
    for first, second in ((good, good), (good, bad), (bad, good)):
        lines = [f"{call.method} {place(call)} HTTP/1.1", "Host: 127.0.0.1", first, second, "Content-Length: 0"]
        answer = send_bytes(http, ("\r\n".join([*lines, "Connection: close"]) + "\r\n\r\n").encode()).read_to_end(10)
        assert answer.startswith(b"HTTP/1.1 401 "), answer


@pytest.mark.parametrize("name", CALLS)
def test_head_and_options_open_nothing(
    http: Http, keys: dict[str, Key], place: Callable[[Call], str], name: str
) -> None:
    call, nobody = CALLS[name], Http(http.url)
    of_get = any(other.method == "GET" and other.path == call.path for other in CALLS.values())
    head = nobody.send("HEAD", place(call))
    assert (head.status, head.body) == (401 if of_get else 405, b"")
    for scope, key in keys.items():
        options = key.http.send("OPTIONS", place(call))
        assert options.status == 405, f"{scope}: {options}"
        assert "access-control-allow-origin" not in options.headers
        if call.method == "GET":
            asked = key.http.send("HEAD", place(call))
            assert (asked.status == 403, asked.body) == (scope not in call.may, b""), f"{scope}: {asked}"
    for headers in ({"X-HTTP-Method-Override": call.method}, {"X-Original-URL": place(call)}):
        nobody.send("GET", "/v1/service", headers=headers).expect_problem(401, "unauthenticated")


@pytest.mark.parametrize("name", CALLS)
def test_another_way_to_write_a_path_opens_nothing(http: Http, place: Callable[[Call], str], name: str) -> None:
    """Neither to anybody, nor to who may do everything: there is one way to write each path."""
    call = CALLS[name]
    for path in other_ways(place(call)):
        for caller in (Http(http.url), http):
            answer = call.send(caller, path)
            assert answer.status in (401, 404, 405), f"{path}: {answer}"


def other_ways(path: str) -> list[str]:
    """Ways to write a path that something between client and daemon might take for the same."""
    first, rest = path[1:].split("/", 1)
    encoded = f"/{first}/%{ord(rest[0]):02x}{rest[1:]}"
    return [
        f"/{path}",
        f"//{first}//{rest}",
        f"/{first}//{rest}",
        f"{path}/",
        f"{path}//",
        f"/./{first}/{rest}",
        f"/x/../{first}/{rest}",
        f"/{first}/./{rest}",
        f"/{first.upper()}/{rest}",
        f"/%76{first[1:]}/{rest}",
        encoded,
        f"/{first}%2f{rest}",
        f"/{first}%5c{rest}",
        f"/{first};a=b/{rest}",
        f"{path}%2f",
        f"{path}%00",
        f"{path}%0a",
        f"{path}/..",
        f"http://127.0.0.1{path}",
    ]


@pytest.mark.parametrize("path", PUBLIC.values())
def test_what_is_public_asks_for_no_key(http: Http, path: str) -> None:
    nobody = Http(http.url)
    for headers in ({}, bearer("nobody"), bearer(http.key or "none")):
        assert nobody.get(path, headers=headers).status == 200
    assert nobody.send("HEAD", path).status == 200
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        nobody.send(method, path).expect_problem(405, "method_not_allowed")


def test_a_key_is_asked_for_before_anything_is_looked_at(http: Http) -> None:
    """Not even what is wrong with a request is told to who has no key."""
    nobody = Http(http.url)
    for raw in (b"no json", b"\xff", b"[" * 200):
        nobody.send("POST", "/v1/executions", raw=raw).expect_problem(401, "unauthenticated")
    nobody.get("/v1/executions?no=such").expect_problem(401, "unauthenticated")
    nobody.get("/v1/executions/no-such").expect_problem(401, "unauthenticated")
