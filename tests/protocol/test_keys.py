"""Keys from settings: which scope may do what, and what is told to whom."""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import uuid4

import pytest

from tests.support.client import Answer, Http, Json
from tests.support.daemon import Daemon, running
from tests.support.definitions import read, unique, write
from tests.support.flow import Flow, Lease, claim, make_flow, register

SCOPES = ("admin", "worker", "execute", "read", "operate", "write")
NO_ID = "00000000-0000-7000-8000-000000000000"


@dataclass(frozen=True, slots=True)
class Keyed:
    """A daemon with one key for each scope, and clients that use them."""

    daemon: Daemon
    clients: dict[str, Http]

    def __getitem__(self, scope: str) -> Http:
        return self.clients[scope]


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    keys = {scope: secrets.token_urlsafe(32) for scope in SCOPES} | {"worker2": secrets.token_urlsafe(32)}
    env = {f"STEPD_{scope.upper()}_KEYS": f"{scope}-name={keys[scope]}" for scope in SCOPES}
    env["STEPD_WORKER_KEYS"] += f",worker-name={keys['worker2']}"
    with running(tmp_path_factory.mktemp("keys") / "stepd.db", env=env) as daemon:
        clients = {scope: Http(daemon.url, key) for scope, key in keys.items()}
        yield Keyed(daemon, clients)


@pytest.fixture(scope="module")
def work(keyed: Keyed) -> Flow:
    return make_flow(keyed["admin"], read())


def calls(work: Flow, run: str, lease: str) -> dict[str, tuple[str, str, Json]]:
    """Each call of the API, with a body that is well-formed."""
    served = {"worker": "w", "claim_id": str(uuid4()), "wait_seconds": 0, "serves": [{"workflow": unique()}]}
    return {
        "register": ("PUT", f"/v1/workflows/{unique()}", {"steps": [read()]}),
        "claim": ("POST", "/v1/leases/claim", served),
        "heartbeat": ("POST", f"/v1/leases/{lease}/heartbeat", {"fence": 1}),
        "complete": ("POST", f"/v1/leases/{lease}/complete", {"fence": 1, "output": None}),
        "fail": ("POST", f"/v1/leases/{lease}/fail", {"fence": 1, "class": "fatal", "message": "m"}),
        "start": ("POST", "/v1/executions", {"workflow": work.name}),
        "cancel": ("POST", f"/v1/executions/{run}/cancel", {"reason": "r"}),
        "signal": ("POST", f"/v1/executions/{run}/signals", {"name": "go"}),
        "publish": ("POST", "/v1/events", {"name": "go", "correlation": unique()}),
        "pause": ("POST", f"/v1/executions/{run}/pause", None),
        "resume": ("POST", f"/v1/executions/{run}/resume", None),
        "use": ("POST", f"/v1/workflows/{work.name}/current", {"version": work.version}),
        "view": ("GET", f"/v1/executions/{run}", None),
        "list": ("GET", "/v1/executions", None),
        "events": ("GET", f"/v1/executions/{run}/events", None),
        "spans": ("GET", f"/v1/executions/{run}/spans", None),
        "content": ("GET", f"/v1/executions/{run}?include=attempts,payloads", None),
        "workflows": ("GET", "/v1/workflows", None),
        "workflow": ("GET", f"/v1/workflows/{work.name}", None),
        "workers": ("GET", "/v1/workers", None),
    }


WORKER = ("register", "claim", "heartbeat", "complete", "fail")
READ = ("view", "list", "events", "spans", "content", "workflows", "workflow", "workers")
MAY: dict[str, tuple[str, ...]] = {
    "worker": WORKER,
    "execute": ("start", "cancel", "signal", "publish"),
    "read": READ,
    "operate": ("pause", "resume", "use", *READ),
    "write": READ,
    "admin": (*WORKER, *READ, "start", "cancel", "signal", "publish", "pause", "resume", "use"),
}
# What an execute key may read depends on who started it, and has a test of its own.
OWN = {"execute": ("view", "list", "events", "spans", "content", "workflows", "workflow")}


def ask(http: Http, call: tuple[str, str, Json]) -> Answer:
    return http.send(*call)


@pytest.mark.parametrize("scope", MAY)
def test_a_scope_may_do_what_is_its_own_and_nothing_else(keyed: Keyed, work: Flow, scope: str) -> None:
    run = work.start()
    for name, call in calls(work, run.id, NO_ID).items():
        answer = ask(keyed[scope], call)
        if name in MAY[scope]:
            assert answer.status not in (401, 403), f"{scope} may {name}: {answer}"
        elif name not in OWN.get(scope, ()):
            answer.expect_problem(403, "forbidden")


@pytest.mark.parametrize(
    ("scope", "call", "named"),
    [
        ("read", "claim", "worker"),
        ("worker", "start", "execute"),
        ("worker", "view", "read"),
        ("execute", "pause", "operate"),
        ("read", "use", "operate"),
    ],
)
def test_a_refusal_names_the_scope_that_is_missing(keyed: Keyed, work: Flow, scope: str, call: str, named: str) -> None:
    problem = ask(keyed[scope], calls(work, work.start().id, NO_ID)[call]).expect_problem(403, "forbidden")
    assert named in problem["detail"]


@pytest.mark.parametrize(
    "header",
    [
        None,
        "Bearer",
        "Bearer ",
        "Bearer wrong-key-wrong-key-wrong-key-wrong-key-1234",
        "Basic dXNlcjpwYXNz",
        "Bearer a b",
        "Bearer \u00e9\u00e9\u00e9",
        "Bearer " + "x" * 8000,
    ],
)
def test_without_a_valid_key_it_is_401(keyed: Keyed, work: Flow, header: str | None) -> None:
    nobody = Http(keyed.daemon.url)
    headers = {} if header is None else {"Authorization": header}
    for method, path, body in calls(work, NO_ID, NO_ID).values():
        answer = nobody.send(method, path, body, headers=headers)
        problem = answer.expect_problem(401, "unauthenticated")
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert "wrong-key" not in str(problem)


def test_the_scheme_is_read_in_any_case(keyed: Keyed) -> None:
    nobody = Http(keyed.daemon.url)
    for scheme in ("Bearer", "bearer", "BEARER"):
        headers = {"Authorization": f"{scheme} {keyed['read'].key}"}
        assert nobody.get("/v1/executions", headers=headers).status == 200


def test_what_needs_no_key(keyed: Keyed) -> None:
    nobody = Http(keyed.daemon.url)
    for path in ("/healthz", "/readyz", "/openapi.json", "/openapi.yaml"):
        assert nobody.get(path).status == 200, path


def test_an_execute_key_reads_what_its_principal_started(keyed: Keyed, work: Flow) -> None:
    mine = keyed["execute"].post("/v1/executions", {"workflow": work.name}).expect(202)
    path = f"/v1/executions/{mine['id']}"
    assert keyed["execute"].get(path).expect(200)["status"] == "queued"
    assert keyed["execute"].get(f"{path}/events").expect(200)["items"]
    keyed["execute"].get(f"{path}?include=attempts,payloads").expect_problem(403, "forbidden")
    keyed["execute"].post(f"{path}/cancel", {"reason": "r"}).expect(202)


def test_an_execute_key_reads_nothing_that_others_started(keyed: Keyed, work: Flow) -> None:
    theirs = work.start(input={"theirs": "secret text"})
    for path in (theirs.path, f"{theirs.path}/events", f"{theirs.path}/spans"):
        answer = keyed["execute"].get(path)
        assert answer.status in (403, 404), str(answer)
        assert "secret text" not in answer.text
    listed = keyed["execute"].get("/v1/executions", query={"workflow": work.name})
    assert theirs.id not in listed.text


def test_who_may_cancel_but_not_read_gets_id_and_status_only(keyed: Keyed, work: Flow) -> None:
    theirs = work.start(input={"theirs": "secret text"})
    answer = keyed["execute"].post(f"{theirs.path}/cancel", {"reason": "r"})
    assert answer.expect(202) == {"id": theirs.id, "status": "cancelled"}


def test_a_lease_is_its_principal_s_only(keyed: Keyed) -> None:
    work = make_flow(keyed["worker"], write())
    keyed["admin"].post("/v1/executions", {"workflow": work.name}).expect(202)
    lease = work.claim_one()
    foreign = Lease(keyed["admin"], lease.data)
    for answer in (foreign.heartbeat(started=True), foreign.complete(), foreign.fail("fatal")):
        answer.expect_problem(404, "not_found")
    lease.begin().complete().expect(200)
    foreign.complete().expect_problem(404, "not_found")


def test_keys_of_one_name_are_one_principal(keyed: Keyed) -> None:
    work = make_flow(keyed["worker"], write())
    keyed["admin"].post("/v1/executions", {"workflow": work.name}).expect(202)
    claim_id = str(uuid4())
    lease = work.claim_one(claim_id=claim_id)
    rotated = keyed["worker2"]
    again = claim(rotated, {"serves": [{"workflow": work.name}], "claim_id": claim_id}).expect(200)
    assert [each["id"] for each in again["leases"]] == [lease.id]
    Lease(rotated, lease.data).begin()
    Lease(rotated, lease.data).complete().expect(200)


def test_a_key_is_checked_before_anything_is_told(keyed: Keyed, work: Flow) -> None:
    nobody = Http(keyed.daemon.url)
    run = work.start()
    for id in (run.id, NO_ID):
        nobody.get(f"/v1/executions/{id}").expect_problem(401, "unauthenticated")
        keyed["worker"].get(f"/v1/executions/{id}").expect_problem(403, "forbidden")
    nobody.send("POST", "/v1/executions", raw=b"no json").expect_problem(401, "unauthenticated")


def test_registration_is_a_worker_s_call(keyed: Keyed) -> None:
    assert register(keyed["worker"], unique(), {"steps": [read()]}).status == 201
    register(keyed["execute"], unique(), {"steps": [read()]}).expect_problem(403, "forbidden")


def test_secrets_are_in_no_log(keyed: Keyed, work: Flow) -> None:
    work.start(input={"payload": "a-payload-never-logged"})
    output = keyed.daemon.output()
    assert "a-payload-never-logged" not in output
    for http in keyed.clients.values():
        assert http.key is not None
        assert http.key not in output


def test_the_file_holds_hashes_only(keyed: Keyed) -> None:
    stored = b"".join(path.read_bytes() for path in keyed.daemon.file.parent.glob("stepd.db*") if path.suffix != ".log")
    for http in keyed.clients.values():
        assert http.key is not None
        assert http.key.encode() not in stored
