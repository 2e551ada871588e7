"""Who is let in: everybody of this machine while there is no key, then only who has one, for what its scopes say."""

from collections.abc import Iterator

import pytest

from tests.http.conftest import key
from tests.http.edge import Edge
from tests.support.client import Http
from tests.support.raw import send_bytes

SCOPES = ("admin", "worker", "execute", "read", "write", "operate")


def as_(edge: Edge, secret: str | None) -> Http:
    return Http(edge.url, secret)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:7117", "127.1.2.3", "[::1]:80", "[::1]"])
def test_in_open_mode_names_of_this_machine_are_answered(http: Http, host: str) -> None:
    assert http.get("/any", headers={"Host": host}).expect(200) == "anonymous"


@pytest.mark.parametrize(
    "host", ["example.org", "127.0.0.1.example.org", "localhost.example.org", "10.0.0.1:7117", "evil@localhost", ""]
)
def test_in_open_mode_foreign_names_are_403(http: Http, host: str) -> None:
    http.get("/any", headers={"Host": host}).expect_problem(403, "forbidden")
    http.get("/public", headers={"Host": host}).expect_problem(403, "forbidden")


@pytest.mark.parametrize("origin", ["http://example.org", "null", "http://localhost:1", "https://evil", "file://"])
def test_in_open_mode_foreign_pages_are_403(http: Http, origin: str) -> None:
    http.post("/echo", {}, headers={"Origin": origin}).expect_problem(403, "forbidden")


def test_in_open_mode_its_own_page_is_answered(edge: Edge, http: Http) -> None:
    assert http.post("/echo", {}, headers={"Origin": edge.url}).status == 200


def test_with_keys_a_call_needs_one(guarded: Edge) -> None:
    for secret in (None, "nobody", "admin2", ""):
        answer = as_(guarded, secret).get("/any")
        answer.expect_problem(401, "unauthenticated")
        assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("value", ["admin", "Basic admin", "Bearer", "Bearer  ", "Bearer admin extra", "Bearer,admin"])
def test_another_form_of_authorization_is_401(guarded: Edge, value: str) -> None:
    as_(guarded, None).get("/any", headers={"Authorization": value}).expect_problem(401, "unauthenticated")


@pytest.mark.parametrize("value", ["Bearer admin", "bearer admin", "BEARER  admin "])
def test_a_key_opens(guarded: Edge, value: str) -> None:
    assert as_(guarded, None).get("/any", headers={"Authorization": value}).expect(200) == "admin"


def test_with_keys_the_host_does_not_matter(guarded: Edge) -> None:
    assert as_(guarded, "read").get("/any", headers={"Host": "example.org"}).status == 200


def test_what_is_public_needs_no_key(guarded: Edge) -> None:
    assert as_(guarded, None).get("/public").status == 200
    assert as_(guarded, "nobody").get("/public").status == 200


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/any", {*SCOPES}),
        ("/echo", {"admin", "execute"}),
        ("/poll", {"admin", "worker"}),
        ("/things/x", {"admin", "execute", "read", "write", "operate"}),
    ],
)
def test_a_route_is_open_to_its_scopes(guarded: Edge, path: str, allowed: set[str]) -> None:
    guarded.drain()
    let_in = set()
    for scope in SCOPES:
        http = as_(guarded, scope)
        answer = http.post(path, {}) if path in ("/echo", "/poll") else http.get(path)
        if answer.status == 200:
            let_in.add(scope)
        else:
            needed = "read" if path == "/things/x" else allowed - {"admin"}
            assert answer.expect_problem(403, "forbidden")["scope"] in needed
    assert let_in == allowed


def test_a_lease_stays_open_to_its_holder_without_the_scope(guarded: Edge) -> None:
    assert as_(guarded, "read").post("/leases/mine/beat", {}).status == 200
    as_(guarded, "read").post("/leases/other/beat", {}).expect_problem(403, "forbidden")
    as_(guarded, "worker").post("/leases/other/beat", {}).expect_problem(404, "not_found")


def test_a_refused_change_is_told(guarded: Edge) -> None:
    as_(guarded, "read").post("/start", {}).expect_problem(403, "forbidden")
    as_(guarded, "read").post("/echo", {}).expect_problem(403, "forbidden")
    assert guarded.refusals == [("read", "start", ())]


@pytest.fixture
def alone() -> Iterator[Edge]:
    """An edge whose keys are `admin` and `write` only."""
    edge = Edge(key("admin", "admin"), key("write", "write")).start()
    yield edge
    edge.close()


def test_write_works_until_others_have_existed(alone: Edge) -> None:
    http = as_(alone, "write")
    alone.drain()
    assert http.post("/poll", {}).status == 200
    assert http.post("/echo", {}).status == 200
    alone.store.rows.append(key("worker", "worker", revoked_at=1))
    alone.refresh_keys()
    http.post("/poll", {}).expect_problem(403, "forbidden")
    assert http.post("/echo", {}).status == 200
    alone.store.rows.append(key("execute", "execute"))
    alone.refresh_keys()
    http.post("/echo", {}).expect_problem(403, "forbidden")
    assert http.get("/things/x").status == 200


def test_a_revoked_key_is_401(alone: Edge) -> None:
    assert as_(alone, "write").get("/any").status == 200
    alone.store.rows[1] = key("write", "write", revoked_at=1)
    alone.refresh_keys()
    as_(alone, "write").get("/any").expect_problem(401, "unauthenticated")


def test_the_first_key_ends_open_mode_for_good(edge: Edge, http: Http) -> None:
    assert http.get("/any").status == 200
    edge.store.rows.append(key("admin", "admin", revoked_at=1))
    edge.refresh_keys()
    http.get("/any").expect_problem(401, "unauthenticated")


@pytest.mark.parametrize("header", ["Host: localhost", "Host: evil.example", "Origin: http://evil.example"])
def test_in_open_mode_a_request_of_two_minds_is_refused(http: Http, header: str) -> None:
    lines = ["GET /any HTTP/1.1", "Host: localhost", "Origin: http://localhost", header, "Connection: close", "", ""]
    answer = send_bytes(http, "\r\n".join(lines).encode()).read_to_end(10)
    assert answer.split()[1] in (b"400", b"403"), answer
