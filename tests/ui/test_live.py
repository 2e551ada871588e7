"""What an open page is told: that something it sees has changed, at whatever daemon, while its session lasts."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import postgres
from tests.support.client import Http
from tests.support.daemon import Daemon, running
from tests.support.definitions import read
from tests.support.flow import Flow, make_flow
from tests.support.page import PageHttp
from tests.support.stream import Stream
from tests.support.wait import eventually
from tests.ui.conftest import Scene


def live(session: PageHttp, path: str = "/ui/live", seconds: float = 20) -> Stream:
    assert session.cookie is not None
    stream = Stream(Http(session.url), path, headers={"Cookie": "=".join(session.cookie)}, seconds=seconds)
    assert stream.response.status == 200
    return stream


def next_change(stream: Stream) -> str | None:
    """What the stream tells next, its comments left out; None where it has ended."""
    return next((message.event or message.data for message in stream if message.data is not None), None)


@pytest.fixture
def flow(scene: Scene) -> Flow:
    return make_flow(scene.admin, read())


def test_a_list_is_told_of_any_execution_and_of_nothing_in_it(scene: Scene, flow: Flow) -> None:
    with live(scene.signed_in) as stream:
        run = flow.start(correlation="a secret")
        message = next(message for message in stream if message.data is not None)
        assert message.data == "changed"
        assert run.id not in str(message)


def test_a_page_of_one_execution_is_told_of_that_one_until_it_has_ended(scene: Scene, flow: Flow) -> None:
    run, other = flow.start(), flow.start()
    with live(scene.signed_in, f"/ui/executions/{run.id}/live") as stream:
        other.cancel().expect(202)
        flow.claim_one(max=1).complete({}).expect(200)
        assert run.until("completed")["status"] == "completed"
        told = [message.event or message.data for message in stream if message.data is not None]
    assert told[-1] == "ended"
    with live(scene.signed_in, f"/ui/executions/{run.id}/live") as stream:
        assert next_change(stream) == "ended"


def test_another_tenants_changes_are_not_told(scene: Scene, flow: Flow) -> None:
    session = scene.session("read", tenants=["ours"])
    with live(session, seconds=1.5) as stream:
        flow.start(tenant="theirs")
        with pytest.raises(TimeoutError):
            next(iter(stream))
    with live(session) as stream:
        flow.start(tenant="ours")
        assert next_change(stream) == "changed"


def test_a_stream_ends_with_its_session(scene: Scene, flow: Flow) -> None:
    session = scene.session("read")
    with live(session) as stream:
        assert session.submit("/ui/sign-out").status == 303
        flow.start()
        assert next_change(stream) is None


def test_a_stream_ends_with_its_key(scene: Scene) -> None:
    key = scene.key("read")
    with live(PageHttp(scene.url).signed_in(key.secret)) as stream:
        key.revoke(scene.admin)
        assert next_change(stream) is None


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[Daemon, Daemon, str]]:
    """Two daemons on one database."""
    secret = secrets.token_urlsafe(32)
    env = {"STEPD_ADMIN_KEYS": f"ops={secret}", "STEPD_ALLOW_OWNER_ROLE": str(postgres.own_server() is not None)}
    with (
        postgres.database() as database,
        running(tmp_path / "a.db", env=env, database=database.daemon_url) as one,
        running(tmp_path / "b.db", env=env, database=database.daemon_url) as other,
    ):
        yield one, other, secret


def test_a_session_is_good_at_every_daemon_and_ends_at_all_of_them(two: tuple[Daemon, Daemon, str]) -> None:
    one, other, secret = two
    here = PageHttp(one.url).signed_in(secret)
    there = PageHttp(other.url, here.cookie)
    assert there.get("/ui").status == 200
    with live(there) as stream:
        make_flow(Http(one.url, secret), read()).start()
        assert next_change(stream) == "changed"
    assert here.submit("/ui/sign-out").status == 303
    assert there.get("/ui").status == 401
    key = Http(one.url, secret).post("/v1/admin/keys", {"name": "looker", "scopes": ["read"]}).expect(201)
    assert eventually(lambda: Http(other.url, key["secret"]).get("/v1/service").status == 200)
    looker = PageHttp(other.url).signed_in(key["secret"])
    assert Http(one.url, secret).send("DELETE", f"/v1/admin/keys/{key['id']}").status == 204
    assert eventually(lambda: looker.get("/ui").status == 401)
