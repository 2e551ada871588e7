"""Daemons behind a real nginx, set up as `deploy/nginx` says: nothing is held back, cut off or kept from the daemon."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepd.settings import Settings
from tests.support import raw
from tests.support.client import Http
from tests.support.daemon import Daemon, running
from tests.support.definitions import read
from tests.support.flow import make_flow
from tests.support.nginx import FILES, check_site, program, proxying
from tests.support.postgres import cluster_database
from tests.support.stream import Stream
from tests.support.wait import beside, eventually

CLAIM = "/v1/leases/claim"


@pytest.fixture(scope="module", autouse=True)
def _nginx() -> None:
    if program() is None:
        pytest.skip("no nginx here, and no Debian that could bring it")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(tmp_path_factory.mktemp("behind") / "stepd.db") as daemon:
        yield daemon


@pytest.fixture(scope="module")
def proxy(daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    with proxying(tmp_path_factory.mktemp("nginx"), "stepd.conf", [f"127.0.0.1:{daemon.port}"]) as http:
        yield http


def test_an_execution_runs_through_the_proxy(proxy: Http) -> None:
    work = make_flow(proxy, read())
    run = work.start()
    work.claim_one().complete({"n": 1}).expect(200)
    assert run.view()["status"] == "completed"


def test_events_come_as_they_happen(proxy: Http) -> None:
    work = make_flow(proxy, read())
    run = work.start()
    with Stream(proxy, f"/v1/executions/{run.id}/events") as stream:
        types = (json.loads(message.data or "{}")["type"] for message in stream.messages())
        assert next(types) == "execution.created"
        work.claim_one().complete(None).expect(200)
        assert list(types)[-1] == "execution.completed"


def test_a_claim_is_answered_when_work_comes_and_freed_when_its_client_leaves(proxy: Http) -> None:
    work = make_flow(proxy, read())
    body = {"worker": "w", "claim_id": "c-1", "wait_seconds": 30, "serves": [{"workflow": work.name}]}
    parked = raw.send(proxy, "POST", CLAIM, body)
    eventually(lambda: _parked(proxy) == 1)
    parked.leave()
    eventually(lambda: _parked(proxy) == 0, what="the daemon noticed that the client behind the proxy is gone")
    run = work.start()
    assert work.claim_one().attempt == 1
    assert run.view()["status"] == "running"


def test_a_body_that_is_too_large_is_refused_by_the_daemon(proxy: Http) -> None:
    limit = Settings().limits.request_bytes
    problem = proxy.send("POST", "/v1/executions", raw=b'"' + b"x" * limit + b'"').expect_problem(
        413, "payload_too_large"
    )
    assert str(f"{limit}") in str(problem).replace(",", "")
    proxy.send("POST", "/v1/executions", raw=b'"' + b"x" * (limit - 2) + b'"').expect_problem(422, "invalid_request")


def test_a_daemon_without_keys_serves_nobody_by_another_name(proxy: Http) -> None:
    answer = proxy.get("/v1/service", headers={"Host": "stepd.example.com"})
    answer.expect_problem(403, "forbidden")


def test_waits_fit_into_the_time_outs() -> None:
    rules = (FILES / "stepd-proxy.inc").read_text("utf-8")
    assert "proxy_read_timeout 90s;" in rules
    assert "proxy_buffering off;" in rules


def test_the_site_of_compose_is_one_that_nginx_takes(daemon: Daemon, tmp_path: Path) -> None:
    with proxying(tmp_path, "compose.conf", [f"127.0.0.1:{daemon.port}"]) as http:
        assert http.get("/readyz").status == 200


def test_two_daemons_on_one_database_are_one_service_and_one_of_them_may_die(tmp_path: Path) -> None:
    with (
        cluster_database() as database,
        running(tmp_path / "one", database=database.daemon_url) as one,
        running(tmp_path / "two", database=database.daemon_url) as two,
        proxying(tmp_path, "stepd.conf", [f"127.0.0.1:{one.port}", f"127.0.0.1:{two.port}"]) as http,
    ):
        work = make_flow(http, read())
        started = beside(work.claim_one)
        eventually(lambda: _parked(Http(one.url)) + _parked(Http(two.url)) == 1)
        run = Http(one.url if _parked(Http(two.url)) else two.url).post("/v1/executions", {"workflow": work.name})
        started.result(5).begin().complete({"by": 1}).expect(200)
        one.kill()
        for _ in range(4):
            work.start()
            work.claim_one().begin().complete(None).expect(200)
        assert http.get(f"/v1/executions/{run.expect(202)['id']}").expect(200)["status"] == "completed"
        assert {item["status"] for item in http.get("/v1/executions").expect(200)["items"]} == {"completed"}


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
def test_nginx_takes_the_files_as_they_are(tmp_path: Path) -> None:
    certificate, key = tmp_path / "stepd.crt", tmp_path / "stepd.key"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=stepd.example.com"
    subprocess.run([*command.split(), "-keyout", key, "-out", certificate], check=True, capture_output=True)
    text = (FILES / "stepd.conf").read_text("utf-8").replace("/etc/nginx/tls", str(tmp_path))
    told = check_site(tmp_path, text.replace("/etc/nginx/stepd-proxy.inc", str(FILES / "stepd-proxy.inc")))
    assert "test is successful" in told


def _parked(http: Http) -> int:
    lines = http.get("/metrics").text.splitlines()
    return next(int(float(line.split()[1])) for line in lines if line.startswith("stepd_claims_parked "))
