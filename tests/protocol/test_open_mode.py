"""A daemon without keys, and the fallbacks of keys: who is served, who is refused, and what ends it for good."""

import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.client import Http
from tests.support.daemon import STEPD, Daemon, clean_environment, free_port, running
from tests.support.definitions import read, unique
from tests.support.flow import claim, make_flow, register


@pytest.fixture(scope="module")
def open_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(tmp_path_factory.mktemp("open") / "stepd.db") as daemon:
        yield daemon


@pytest.fixture(scope="module")
def everybody(open_daemon: Daemon) -> Http:
    return Http(open_daemon.url)


def test_everybody_on_the_machine_may_do_everything(everybody: Http) -> None:
    work = make_flow(everybody, read())
    run, lease = work.begin()
    run.pause().expect(202)
    run.resume().expect(202)
    lease.complete().expect(200)
    assert run.view(include="attempts,payloads")["status"] == "completed"
    assert everybody.get("/v1/workers").status == 200


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]", "LOCALHOST"])
def test_a_loopback_host_is_served(open_daemon: Daemon, everybody: Http, name: str) -> None:
    for host in (name, f"{name}:{open_daemon.port}"):
        assert everybody.get("/v1/executions", headers={"Host": host}).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:7117",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "192.168.1.1",
        "0.0.0.0",
        "",
    ],
)
def test_another_host_is_refused(everybody: Http, host: str) -> None:
    assert everybody.get("/v1/executions", headers={"Host": host}).status in (400, 403)
    if host:
        everybody.get("/v1/executions", headers={"Host": host}).expect_problem(403, "forbidden")


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "https://localhost.evil.example", "null", "http://127.0.0.1.evil"]
)
def test_a_foreign_origin_is_refused(everybody: Http, origin: str) -> None:
    body = {"workflow": unique()}
    everybody.post("/v1/executions", body, headers={"Origin": origin}).expect_problem(403, "forbidden")
    everybody.get("/v1/executions", headers={"Origin": origin}).expect_problem(403, "forbidden")


def test_its_own_origin_is_served(open_daemon: Daemon, everybody: Http) -> None:
    origin = f"http://127.0.0.1:{open_daemon.port}"
    assert everybody.get("/v1/executions", headers={"Origin": origin}).status == 200


def secret() -> str:
    return secrets.token_urlsafe(32)


def test_the_first_key_ends_open_mode_for_good(tmp_path: Path) -> None:
    file, key = tmp_path / "stepd.db", secret()
    with running(file) as daemon:
        assert Http(daemon.url).get("/v1/executions").status == 200
    with running(file, env={"STEPD_ADMIN_KEYS": f"root={key}"}) as daemon:
        Http(daemon.url).get("/v1/executions").expect_problem(401, "unauthenticated")
        assert Http(daemon.url, key).get("/v1/executions").status == 200
    with running(file) as daemon:
        Http(daemon.url).get("/v1/executions").expect_problem(401, "unauthenticated")


def test_a_key_without_a_name_works(tmp_path: Path) -> None:
    one, two = secret(), secret()
    with running(tmp_path / "stepd.db", env={"STEPD_ADMIN_KEYS": f"{one}, root={two}"}) as daemon:
        for key in (one, two):
            assert Http(daemon.url, key).get("/v1/executions").status == 200


def ended(*flags: str, **env: str) -> tuple[int, str]:
    """The exit status and the words of a daemon that must not start."""
    done = subprocess.run(
        [str(STEPD), "serve", *flags], env=clean_environment() | env, capture_output=True, timeout=20, check=False
    )
    return done.returncode, (done.stdout + done.stderr).decode()


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
def test_without_keys_nothing_but_loopback_is_bound(tmp_path: Path, host: str) -> None:
    status, words = ended("--bind", f"{host}:{free_port()}", "--database", f"sqlite:///{tmp_path}/stepd.db")
    assert status != 0
    assert "key" in words.lower()
    assert "Traceback" not in words


def test_the_first_key_must_be_an_admin_s(tmp_path: Path) -> None:
    flags = ("--bind", f"127.0.0.1:{free_port()}", "--database", f"sqlite:///{tmp_path}/stepd.db")
    status, words = ended(*flags, STEPD_WORKER_KEYS=f"w={secret()}")
    assert status != 0
    assert "admin" in words.lower()
    assert "Traceback" not in words


def test_beats_longer_than_a_third_of_a_lease_are_refused(tmp_path: Path) -> None:
    flags = ("--bind", f"127.0.0.1:{free_port()}", "--database", f"sqlite:///{tmp_path}/stepd.db")
    status, words = ended(*flags, "--lease-seconds", "3", "--heartbeat-seconds", "1.5")
    assert status != 0
    assert "heartbeat" in words.lower()
    assert "Traceback" not in words


def test_times_of_the_settings_are_the_protocol_s(tmp_path: Path) -> None:
    flags = ("--lease-seconds", "1.5", "--reclaim-seconds", "0.5", "--heartbeat-seconds", "0.5")
    with running(tmp_path / "stepd.db", *flags) as daemon:
        work = make_flow(Http(daemon.url), read())
        protocol = work.registered["protocol"]
        assert (protocol["lease_seconds"], protocol["reclaim_seconds"], protocol["heartbeat_seconds"]) == (
            1.5,
            0.5,
            0.5,
        )
        _, lease = work.begin()
        assert (lease.data["lease_seconds"], lease.data["reclaim_seconds"]) == (1.5, 0.5)
        assert lease.data["heartbeat_seconds"] == 0.5


def test_write_makes_the_worker_s_calls_until_a_worker_key_has_existed(tmp_path: Path) -> None:
    file, admin, write, worker = tmp_path / "stepd.db", secret(), secret(), secret()
    env = {"STEPD_ADMIN_KEYS": f"root={admin}", "STEPD_WRITE_KEYS": f"w={write}"}
    with running(file, env=env) as daemon:
        http = Http(daemon.url, write)
        work = make_flow(http, read())
        run, lease = work.begin()
        lease.complete().expect(200)
        assert run.view()["status"] == "completed"
        run = work.start()
        run.cancel().expect(202)
    with running(file, env={**env, "STEPD_WORKER_KEYS": f"k={worker}"}) as daemon:
        check_worker_calls_refused(Http(daemon.url, write))
        Http(daemon.url, write).post("/v1/executions", {"workflow": work.name}).expect(202)
    with running(file, env=env) as daemon:
        check_worker_calls_refused(Http(daemon.url, write))


def check_worker_calls_refused(http: Http) -> None:
    claim(http, {"serves": [{"workflow": "any"}]}).expect_problem(403, "forbidden")
    register(http, unique(), {"steps": [read()]}).expect_problem(403, "forbidden")


def test_write_starts_until_an_execute_key_has_existed(tmp_path: Path) -> None:
    admin, write = secret(), secret()
    env = {
        "STEPD_ADMIN_KEYS": f"root={admin}",
        "STEPD_WRITE_KEYS": f"w={write}",
        "STEPD_EXECUTE_KEYS": f"e={secret()}",
    }
    with running(tmp_path / "stepd.db", env=env) as daemon:
        http = Http(daemon.url, write)
        work = make_flow(http, read())
        work.attempt_start().expect_problem(403, "forbidden")
        run = make_flow(Http(daemon.url, admin), read(), name=work.name).start()
        http.post(f"{run.path}/cancel", {"reason": "r"}).expect_problem(403, "forbidden")
        assert http.get(run.path).status == 200
