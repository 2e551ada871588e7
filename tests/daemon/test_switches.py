"""The switches of the daemon's parts: what is off is not there, what is on works, and the daemon tells them apart."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.program import Program
from tests.support.client import Http, Json
from tests.support.daemon import Daemon, running
from tests.support.definitions import brief, read
from tests.support.flow import claim, make_flow, register
from tests.support.wait import eventually, moment

TAGS = {"worker_api": "workers", "request_api": "executions", "admin_api": "administration"}
ALWAYS = "service"
PARTS = ("worker_api", "request_api", "admin_api", "ui", "loops")
METHODS = ("get", "put", "post", "delete")


def switch(part: str) -> str:
    return f"--no-{part.replace('_', '-')}"


def methods_by_path(http: Http, tags: set[str]) -> dict[str, set[str]]:
    """The methods of each path that have one of these tags; of every path there is."""
    document = http.get("/openapi.json").expect(200)
    return {
        path.replace("{name}", "some-name").replace("{id}", "some-id"): {
            method.upper() for method, operation in item.items() if method in METHODS and tags & {*operation["tags"]}
        }
        for path, item in document["paths"].items()
    }


def check_paths(http: Http, tags: set[str]) -> None:
    """Checks that there are just the paths and methods of these tags. A path's methods are told by its refusals."""
    for path, methods in methods_by_path(http, tags).items():
        asked = http.send("TRACE", path)
        if not methods:
            asked.expect_problem(404, "not_found")
            for method in METHODS:
                http.send(method.upper(), path, {} if method in ("put", "post") else None).expect_problem(
                    404, "not_found"
                )
        else:
            asked.expect_problem(405, "method_not_allowed")
            assert {*asked.headers["allow"].split(", ")} - {"HEAD"} == methods, path


def check_parts(http: Http, off: set[str]) -> None:
    """Checks what the daemon says of its parts."""
    expected = {part: part not in off for part in PARTS}
    assert http.get("/readyz").expect(200)["parts"] == expected
    assert http.get("/v1/service").expect(200)["parts"] == expected


@pytest.fixture(params=[*TAGS, "ui"])
def one_off(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Http]]:
    """A daemon with one part switched off."""
    part: str = request.param
    with running(tmp_path / "stepd.db", switch(part)) as daemon:
        yield part, Http(daemon.url)


def test_one_part_off_takes_its_paths_and_no_others(one_off: tuple[str, Http]) -> None:
    part, http = one_off
    check_parts(http, {part})
    check_paths(http, {tag for name, tag in TAGS.items() if name != part} | {ALWAYS})
    if part == "ui":
        http.get("/ui").expect_problem(404, "not_found")
    else:
        assert http.get("/ui").status == 200


def test_what_stays_on_works(one_off: tuple[str, Http]) -> None:
    part, http = one_off
    if part == "request_api":
        assert register(http, "some", {"steps": [read()]}).status == 201
        assert claim(http, {"serves": [{"workflow": "some"}]}).expect(200)["leases"] == []
    elif part == "worker_api":
        assert http.get("/v1/executions").expect(200)["items"] == []
        http.post("/v1/executions", {"workflow": "some"}).expect_problem(404, "not_found")
    else:
        run, lease = make_flow(http, read()).begin()
        lease.complete({}).expect(200)
        assert run.until("completed")["status"] == "completed"
    if part != "admin_api":
        made = http.post("/v1/admin/keys", {"name": "ops", "scopes": ["admin"]}).expect(201)
        assert Http(http.url, made["secret"]).get("/v1/admin/keys").expect(200)["items"][0]["id"] == made["id"]


def test_all_parts_off_leaves_the_daemon_to_be_watched(tmp_path: Path) -> None:
    with running(tmp_path / "stepd.db", *map(switch, PARTS)) as daemon:
        http = Http(daemon.url)
        check_parts(http, {*PARTS})
        check_paths(http, {ALWAYS})
        for path in ("/healthz", "/metrics", "/openapi.yaml", "/v1/service"):
            assert http.get(path).status == 200
        assert daemon.stop() == 0


def test_a_part_that_is_off_is_not_there_for_any_key(tmp_path: Path) -> None:
    with running(tmp_path / "stepd.db", "--no-admin-api", env={"STEPD_ADMIN_KEYS": "ops=secret"}) as daemon:
        for key in (None, "secret", "wrong"):
            Http(daemon.url, key).get("/v1/admin/keys").expect_problem(404, "not_found")


def test_a_flag_switches_on_what_the_environment_switches_off(tmp_path: Path) -> None:
    env = {"STEPD_WORKER_API": "false", "STEPD_ADMIN_API": "false"}
    with running(tmp_path / "stepd.db", "--worker-api", env=env) as daemon:
        check_parts(Http(daemon.url), {"admin_api"})


def test_two_roles_one_store(tmp_path: Path) -> None:
    """One daemon after the other on a file: the first takes requests only, the second has the workers."""
    file = tmp_path / "stepd.db"
    with running(file) as daemon:
        flow = make_flow(Http(daemon.url), read())
        daemon.stop()
    with running(file, "--no-worker-api") as daemon:
        started = Http(daemon.url).post("/v1/executions", {"workflow": flow.name}).expect(202)
        daemon.stop()
    with running(file, "--no-request-api") as daemon:
        leases = claim(Http(daemon.url), {"serves": [{"workflow": flow.name}]}).expect(200)["leases"]
        assert [lease["execution"]["id"] for lease in leases] == [started["id"]]


# -- without loops --------------------------------------------------------------------------------------------------


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon without loops."""
    daemon = Daemon(tmp_path / "stepd.db", "--no-loops", "--drain-seconds", "0")
    try:
        yield daemon.start()
    finally:
        daemon.close()


def test_without_loops_the_worker_calls_work(idle: Daemon) -> None:
    http = Http(idle.url)
    check_parts(http, {"loops"})
    flow = make_flow(http, read("first"), read("second"))
    run = flow.start()
    first = flow.claim_one().begin()
    assert first.heartbeat().expect(200)["lease_seconds"] > 0
    first.complete({}).expect(200)
    flow.claim_one().fail("fatal").expect(200)
    assert run.until("failed")["error"]["class"] == "fatal"


def test_without_loops_nothing_is_acted_upon_until_a_daemon_with_loops_comes(idle: Daemon) -> None:
    http = Http(idle.url)
    short = {"max_attempts": 3, "initial_seconds": 0.1, "max_seconds": 0.1}
    lapsed, held = make_flow(http, read(**brief(1, 0.1))).begin()
    held.begin()
    retried, failing = make_flow(http, read(retry=short)).begin()
    over = make_flow(http, read(), timeout_seconds=0.3).start()
    removed = make_flow(http, read(), retention_seconds=1)
    gone, last = removed.begin()
    last.complete({}).expect(200)
    failing.fail("retryable").expect(200)
    moment(2.5)
    assert lapsed.statuses() == {"work": "running"}
    assert "attempt.orphaned" not in lapsed.types()
    assert retried.statuses() == {"work": "retry_wait"}
    assert over.view()["status"] == "queued"
    assert gone.view()["status"] == "completed"
    _restart(idle)
    retried.step_until("queued")
    assert over.until("failed")["error"]["class"] == "execution_timeout"
    lapsed.step_until("queued", seconds=30)
    eventually(lambda: http.get(gone.path).status == 404, seconds=60)


def test_without_loops_an_outcome_after_the_lapse_still_counts(idle: Daemon) -> None:
    run, lease = make_flow(Http(idle.url), read(**brief(0.5, 0.1))).begin()
    lease.begin()
    moment(1)
    lease.complete({}).expect(200)
    assert run.until("completed")["status"] == "completed"


def test_without_loops_keys_and_the_pulse_still_have_theirs(idle: Daemon) -> None:
    http = Http(idle.url)
    made: Json = http.post("/v1/admin/keys", {"name": "ops", "scopes": ["admin"]}).expect(201)
    program = Program(idle.url, made["secret"])
    program("doctor", "--json", "--database", f"sqlite:///{idle.file}").expect(0)
    moment(6)
    assert http.get("/readyz").status == 200, "a pulse that nobody moves would be stale by now"
    assert "stood still" not in idle.output()


def _restart(daemon: Daemon) -> None:
    """The same daemon, with its loops."""
    daemon.stop()
    daemon.flags = ()
    daemon.start()
