"""The first key made through the API: what it must be, what it ends for good, and what later keys end."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import raw
from tests.support.client import Http, Json
from tests.support.daemon import Daemon, running
from tests.support.definitions import read, unique
from tests.support.flow import claim, make_flow, register
from tests.support.keys import KEYS, Key, ask_for_key, make_key
from tests.support.stream import Stream
from tests.support.wait import beside, moment, together

PARKED_SECONDS = 0.3


@pytest.fixture
def unlocked(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon in open mode."""
    with running(tmp_path / "stepd.db") as daemon:
        yield daemon


def locked_by(unlocked: Daemon) -> Key:
    return make_key(Http(unlocked.url), "admin", name="root")


@pytest.mark.parametrize(
    "scopes", [["worker"], ["execute", "read"], ["write"], ["operate", "worker", "execute", "write"]]
)
def test_the_first_key_must_administer(unlocked: Daemon, scopes: list[str]) -> None:
    everybody = Http(unlocked.url)
    faults = ask_for_key(everybody, *scopes).expect_faults(422, "invalid_request")
    assert faults.keys() == {"/scopes"}
    assert "admin" in faults["/scopes"]
    assert everybody.get("/v1/executions").status == 200, "open mode goes on"
    assert everybody.get(KEYS).expect(200) == {"items": [], "next": None}


def test_the_first_key_must_reach_all_tenants(unlocked: Daemon) -> None:
    faults = ask_for_key(Http(unlocked.url), "worker", tenants=["acme"]).expect_faults(422, "invalid_request")
    assert faults.keys() == {"/scopes", "/tenants"}
    ask_for_key(Http(unlocked.url), "admin", tenants=["acme"]).expect_faults(422, "invalid_request")
    locked_by(unlocked)


def test_it_ends_open_mode_at_once_and_for_good(unlocked: Daemon) -> None:
    everybody = Http(unlocked.url)
    root = locked_by(unlocked)
    everybody.get("/v1/executions").expect_problem(401, "unauthenticated")
    ask_for_key(everybody, "admin").expect_problem(401, "unauthenticated")
    assert [key["id"] for key in root.http.get(KEYS).expect(200)["items"]] == [root.id]
    unlocked.stop()
    unlocked.start()
    everybody.get("/v1/executions").expect_problem(401, "unauthenticated")
    assert root.http.get("/v1/executions").status == 200
    root.revoke(root.http)
    for http in (everybody, root.http):
        http.get("/v1/executions").expect_problem(401, "unauthenticated")
    unlocked.stop()
    unlocked.start()
    for http in (everybody, root.http):
        http.get("/v1/executions").expect_problem(401, "unauthenticated")


def test_a_key_from_the_settings_helps_where_all_were_revoked(unlocked: Daemon) -> None:
    root, fresh = locked_by(unlocked), secrets.token_urlsafe(32)
    root.revoke(root.http)
    unlocked.stop()
    unlocked.start()
    assert "no key with the scope admin is left" in unlocked.output()
    unlocked.stop()
    unlocked.env = {"STEPD_ADMIN_KEYS": f"rescue={fresh}"}
    unlocked.start()
    make_key(Http(unlocked.url, fresh), "read")


def test_whoever_waits_in_open_mode_waits_in_vain(unlocked: Daemon) -> None:
    everybody = Http(unlocked.url)
    flow = make_flow(everybody, read())
    run = make_flow(everybody, read()).start()
    waiting = beside(lambda: claim(everybody, {"serves": [{"workflow": flow.name}], "wait_seconds": 30}))
    looking = beside(lambda: everybody.get(run.path, query={"wait_seconds": 30}))
    with Stream(everybody, f"{run.path}/events") as stream:
        messages = iter(stream)
        next(messages)
        moment(PARKED_SECONDS)
        root = locked_by(unlocked)
        root.http.post("/v1/executions", {"workflow": flow.name}).expect(202)
        root.http.post(f"{run.path}/cancel").expect(202)
        assert not any("cancel" in (message.data or "") for message in messages)
    assert waiting.result(2).expect(200)["leases"] == []
    looking.result(2).expect_problem(401, "unauthenticated")


def test_of_many_first_keys_one_is_made(unlocked: Daemon) -> None:
    """Whoever asks as open mode ends either made the first key, or is refused."""
    everybody = Http(unlocked.url)
    answers = together([lambda: ask_for_key(everybody, "admin")] * 8)
    made = [answer for answer in answers if answer.status == 201]
    for answer in answers:
        if answer.status != 201:
            answer.expect_problem(401, "unauthenticated")
    assert len(made) == 1
    assert len(Http(unlocked.url, made[0].json["secret"]).get(KEYS).expect(200)["items"]) == 1


def test_a_body_that_comes_after_open_mode_does_nothing(unlocked: Daemon) -> None:
    everybody = Http(unlocked.url)
    content = b'{"name": "late", "scopes": ["admin"]}'
    pending = raw.send_bytes(everybody, raw.head(everybody, "POST", KEYS, len(content), {"Connection": "close"}))
    moment(PARKED_SECONDS)
    root = locked_by(unlocked)
    pending.link.sendall(content)
    assert pending.read_to_end(10).startswith(b"HTTP/1.1 401 ")
    assert [key["name"] for key in root.http.get(KEYS).expect(200)["items"]] == ["root"]


def test_a_foreign_page_makes_no_first_key(unlocked: Daemon) -> None:
    everybody = Http(unlocked.url)
    body: Json = {"name": "evil", "scopes": ["admin"]}
    for headers in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}, {"Origin": "null"}):
        everybody.post(KEYS, body, headers=headers).expect_problem(403, "forbidden")
    lines = ["POST /v1/admin/keys HTTP/1.1", f"Host: 127.0.0.1:{unlocked.port}", "Origin: http://evil.example"]
    twice = [*lines, f"Origin: {unlocked.url}", "Content-Length: 2", "Connection: close", "", "{}"]
    assert raw.send_bytes(everybody, "\r\n".join(twice).encode()).read_to_end(10).startswith(b"HTTP/1.1 403 ")
    assert everybody.get(KEYS).expect(200)["items"] == []


def test_what_was_started_in_open_mode_is_there_for_keys(unlocked: Daemon) -> None:
    run = make_flow(Http(unlocked.url), read()).start()
    root = locked_by(unlocked)
    assert root.http.get(run.path).expect(200)["status"] == "queued"


def test_write_may_less_from_the_first_worker_and_execute_keys_on(unlocked: Daemon) -> None:
    """And their end does not bring it back."""
    root = locked_by(unlocked)
    write = make_key(root.http, "write")
    flow = make_flow(write.http, read())
    run, lease = flow.begin()
    flow.start().cancel().expect(202)
    parked = beside(lambda: flow.attempt_claim(wait_seconds=30))
    moment(PARKED_SECONDS)

    worker = make_key(root.http, "worker")
    assert parked.result(2).expect(200)["leases"] == [], "a change of scopes governs claims that wait too"
    # But not the lease that it holds.
    lease.complete().expect(200)
    assert run.view()["status"] == "completed"
    check_no_worker(write.http)
    run = flow.start()
    worker.revoke(root.http)
    check_no_worker(write.http)
    assert flow.attempt_start().status == 202

    make_key(root.http, "execute").revoke(root.http)
    check_no_worker(write.http)
    flow.attempt_start().expect_problem(403, "forbidden")
    run.cancel().expect_problem(403, "forbidden")
    assert run.view()["status"] == "queued"
    unlocked.stop()
    unlocked.start()
    check_no_worker(write.http)
    flow.attempt_start().expect_problem(403, "forbidden")


def check_no_worker(http: Http) -> None:
    claim(http, {"serves": [{"workflow": "any"}]}).expect_problem(403, "forbidden")
    register(http, unique(), {"steps": [read()]}).expect_problem(403, "forbidden")


def test_keys_of_settings_and_of_the_api_stand_side_by_side(tmp_path: Path) -> None:
    """A key of the settings that was revoked through the API stays revoked, also at the next start with it."""
    boss, eye = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    env = {"STEPD_ADMIN_KEYS": f"boss={boss}", "STEPD_READ_KEYS": f"eye={eye}"}
    with running(tmp_path / "stepd.db", env=env) as daemon:
        admin = Http(daemon.url, boss)
        made = make_key(admin, "read")
        ids = {key["name"]: key["id"] for key in admin.get(KEYS).expect(200)["items"]}
        assert ids.keys() == {"boss", "eye", made.name}
        admin.send("DELETE", f"{KEYS}/{ids['eye']}").expect(204)
        Http(daemon.url, eye).get("/v1/executions").expect_problem(401, "unauthenticated")
        daemon.stop()
        daemon.start()
        Http(daemon.url, eye).get("/v1/executions").expect_problem(401, "unauthenticated")
        assert made.http.get("/v1/executions").status == 200
        assert "the key of eye in the settings was revoked, and stays so" in daemon.output()
        assert eye not in daemon.output()
