"""What the protocol's tests run against: the daemon that STEPD_TEST_URL names, or one started for the session.

STEPD_TEST_KEY is a key with the scope `admin`; STEPD_TEST_OTHER_KEY, one of another principal. Without the second one,
tests that need two principals are skipped. Tests that need settings of their own start a daemon of their own.

The daemon of the session has a file. The modules named in ``ON_BOTH`` run once more against one on PostgreSQL; with
STEPD_TEST_STORE=postgres all of them run against that one only.
"""

import os
import secrets
import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass

import pytest

from tests.support import postgres
from tests.support.client import Http, Json
from tests.support.daemon import running
from tests.support.flow import Flow, make_flow
from tests.support.stream import Stream
from tests.support.wait import beside

STORE = os.environ.get("STEPD_TEST_STORE")
ON_BOTH = {
    f"tests.protocol.test_{name}"
    for name in """
    claim claim_again complete json_exactness list said_again
    """.split()
}
"""Where a store's own ways could show: dealing, locking, order, exactness, what is found by what. The others would only
show again what the service and the engine do, which are the same for every store."""


@dataclass(frozen=True, slots=True)
class Target:
    """A daemon that is running, and the keys for it."""

    url: str
    key: str | None
    other_key: str | None


class MakeFlow:
    """Registers workflows of given steps, each under a name of its own."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def __call__(self, *steps: Json, name: str | None = None, **fields: Json) -> Flow:
        return make_flow(self._http, *steps, name=name, **fields)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Has the tests of some modules run on both stores."""
    both = metafunc.module.__name__ in ON_BOTH and STORE is None and not os.environ.get("STEPD_TEST_URL")
    if both and "target" in metafunc.fixturenames:
        metafunc.parametrize("target", ["sqlite", "postgres"], indirect=True, scope="session")


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    if url := os.environ.get("STEPD_TEST_URL"):
        yield Target(url, os.environ.get("STEPD_TEST_KEY"), os.environ.get("STEPD_TEST_OTHER_KEY"))
        return
    key, other = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    file = tmp_path_factory.mktemp("protocol") / "stepd.db"
    env = {"STEPD_ADMIN_KEYS": f"tester={key},other={other}"}
    if (getattr(request, "param", None) or STORE or "sqlite") == "sqlite":
        with running(file, env=env) as daemon:
            yield Target(daemon.url, key, other)
        return
    env["STEPD_ALLOW_OWNER_ROLE"] = str(postgres.own_server() is not None)
    with postgres.database() as database, running(file, env=env, database=database.daemon_url) as daemon:
        yield Target(daemon.url, key, other)


@pytest.fixture(scope="session")
def http(target: Target) -> Http:
    return Http(target.url, target.key)


@pytest.fixture(scope="session")
def other(target: Target) -> Http:
    """The same daemon under another principal."""
    if target.other_key is None:
        pytest.skip("needs STEPD_TEST_OTHER_KEY, the key of another principal")
    return Http(target.url, target.other_key)


@pytest.fixture(scope="session")
def flow(http: Http) -> MakeFlow:
    return MakeFlow(http)


@pytest.fixture(scope="session", autouse=True)
def quiet(flow: MakeFlow) -> "Future[tuple[float, str]]":
    """After how many seconds a stream on which nothing happens gets a comment; it is read beside all other tests."""
    run = flow({"id": "never", "effect": "read_only"}).start()

    def listen() -> tuple[float, str]:
        with Stream(run.http, f"{run.path}/events", seconds=30) as stream:
            last = time.monotonic()
            for message in stream:
                if message.comment is not None and time.monotonic() - last > 1:
                    return time.monotonic() - last, message.comment
                last = time.monotonic()
        raise AssertionError("the stream ended")

    return beside(listen)
