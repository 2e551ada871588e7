"""Who is let in to the page, and what a foreign page can't have it do: over plain HTTP, without a browser."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.client import Http
from tests.support.daemon import Daemon, running
from tests.support.definitions import read
from tests.support.flow import make_flow
from tests.support.page import PageHttp, cookie_of
from tests.ui.conftest import Scene

PAGES = ("/ui", "/ui/part", "/ui/live", "/ui/executions/x", "/ui/executions/x/cancel")


@pytest.fixture(scope="module")
def other(scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Another service, with the same key."""
    file = tmp_path_factory.mktemp("other") / "other.db"
    with running(file, env={"STEPD_ADMIN_KEYS": f"ops={scene.secret}"}) as daemon:
        yield daemon


def test_a_session_is_a_cookie_that_scripts_and_other_sites_never_get(scene: Scene) -> None:
    answer = PageHttp(scene.url).sign_in(scene.secret)
    assert answer.status == 303
    assert answer.headers["location"] == "/ui"
    ((_, morsel),) = SimpleCookie(answer.headers["set-cookie"]).items()
    assert morsel["httponly"]
    assert morsel["samesite"] == "Strict"
    assert morsel["path"] == "/ui"
    assert not morsel["secure"]
    assert len(morsel.value) >= 43
    assert scene.secret not in answer.headers["set-cookie"]


def test_over_tls_the_cookie_is_for_tls_only(scene: Scene) -> None:
    answer = PageHttp(scene.url).sign_in(scene.secret, X_Forwarded_Proto="https")
    ((_, morsel),) = SimpleCookie(answer.headers["set-cookie"]).items()
    assert morsel["secure"]


def test_services_on_one_host_keep_their_sessions_apart(other: Daemon, scene: Scene) -> None:
    theirs = PageHttp(other.url).signed_in(scene.secret)
    assert theirs.cookie is not None
    assert scene.signed_in.cookie is not None
    assert theirs.cookie[0] != scene.signed_in.cookie[0]


@pytest.mark.parametrize("path", PAGES)
def test_who_has_not_signed_in_is_sent_to_where_that_is_done(scene: Scene, path: str) -> None:
    answer = PageHttp(scene.url).get(path)
    assert answer.status == 303
    assert answer.headers["location"] == f"/ui/sign-in?next={quote(path, safe='')}"


def test_a_session_ends_with_its_key_at_once(scene: Scene) -> None:
    key = scene.key("read")
    session = PageHttp(scene.url).signed_in(key.secret)
    assert session.get("/ui").status == 200
    key.revoke(scene.admin)
    answer = session.get("/ui")
    assert answer.status == 401
    assert "Sign in" in answer.text
    assert session.get("/ui/part").status == 401
    assert session.get("/ui/live").status == 401


def test_a_session_lasts_twelve_hours_and_its_cookie_is_not_kept(other: Daemon, scene: Scene) -> None:
    session = PageHttp(other.url).signed_in(scene.secret)
    assert session.cookie is not None
    assert session.get("/ui").status == 200
    connection = sqlite3.connect(other.file)
    ((hashed, seconds),) = connection.execute(
        "select id_hash, (expires_at - created_at) / 1000 from sessions order by created_at desc limit 1"
    ).fetchall()
    assert seconds == 12 * 3600
    assert len(hashed) == 64
    assert session.cookie[1] not in [value for row in connection.execute("select * from sessions") for value in row]
    with connection:
        connection.execute("update sessions set expires_at = 1")
    connection.close()
    assert session.get("/ui").status == 401


def test_who_signs_out_has_no_session_any_more(scene: Scene) -> None:
    session = scene.session("read")
    answer = session.submit("/ui/sign-out")
    assert answer.status == 303
    assert cookie_of(answer)[1] == ""
    assert session.get("/ui").status == 401


def test_a_form_without_its_token_does_nothing(scene: Scene) -> None:
    run = make_flow(scene.admin, read()).start()
    path = f"/ui/executions/{run.id}/cancel"
    for token in ("", "x" * 43, scene.session("admin").csrf()):
        answer = scene.signed_in.post(path, {"csrf": token, "reason": "none"}, Origin=scene.url)
        assert answer.status == 403
        assert "text/html" in answer.headers["content-type"]
    assert run.view()["status"] == "queued"
    assert scene.signed_in.submit(path, reason="none").status == 303
    assert run.until("cancelled")["status"] == "cancelled"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://elsewhere.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_a_form_of_another_site_does_nothing(scene: Scene, headers: dict[str, str]) -> None:
    run = make_flow(scene.admin, read()).start()
    fields = {"csrf": scene.signed_in.csrf(), "reason": "none"}
    assert scene.signed_in.post(f"/ui/executions/{run.id}/cancel", fields, **headers).status == 403
    assert run.view()["status"] == "queued"
    assert PageHttp(scene.url).sign_in(scene.secret, **headers).status == 403


def test_a_cookie_opens_nothing_but_the_page(scene: Scene) -> None:
    assert scene.signed_in.cookie is not None
    headers = {"Cookie": "=".join(scene.signed_in.cookie)}
    for path in ("/v1/executions", "/v1/admin/keys", "/v1/service"):
        Http(scene.url).get(path, headers=headers).expect_problem(401, "unauthenticated")


def test_a_key_in_the_header_opens_no_page(scene: Scene) -> None:
    assert scene.admin.get("/ui").status == 303


@pytest.mark.parametrize("path", ["/ui", "/ui/sign-in", "/ui/executions/none", "/ui/nowhere"])
def test_every_page_comes_with_what_protects_it(scene: Scene, path: str) -> None:
    headers = scene.signed_in.get(path).headers
    policy = headers["content-security-policy"]
    for rule in ("default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"):
        assert rule in policy
    assert "unsafe" not in policy
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"


def test_another_tenants_execution_is_not_there(scene: Scene) -> None:
    run = make_flow(scene.admin, read()).start(tenant="a", correlation="only-a")
    ours, theirs = (scene.session("read", "operate", "execute", tenants=[one]) for one in "ab")
    path = f"/ui/executions/{run.id}"
    assert ours.get(path).status == 200
    assert run.id in ours.get("/ui").text
    for one in (path, f"{path}/part", f"{path}/live", f"{path}/cancel", f"{path}/journal", f"{path}/payloads/input"):
        assert theirs.get(one).status == 404, one
    assert theirs.submit(f"{path}/cancel").status == 404
    assert run.id not in theirs.get("/ui").text
    assert run.id not in theirs.get("/ui?q=only-a").text
    assert theirs.get(f"/ui?q={run.id}").status in (200, 303)


def test_what_a_key_may_not_is_neither_offered_nor_done(scene: Scene) -> None:
    run = make_flow(scene.admin, read()).start()
    reader = scene.session("read")
    path = f"/ui/executions/{run.id}"
    assert f"{path}/cancel" in scene.signed_in.get(path).text
    assert f"{path}/cancel" not in reader.get(path).text
    assert reader.get(f"{path}/cancel").status == 403
    assert reader.submit(f"{path}/cancel").status == 403
    assert run.view()["status"] == "queued"


def test_a_key_that_executes_sees_what_it_started(scene: Scene) -> None:
    flow = make_flow(scene.admin, read())
    key = scene.key("execute")
    mine = Http(scene.url, key.secret).post("/v1/executions", {"workflow": flow.name}).expect(202)["id"]
    other = flow.start().id
    session = PageHttp(scene.url).signed_in(key.secret)
    shown = session.get("/ui").text
    assert mine in shown
    assert other not in shown
    assert session.get(f"/ui/executions/{other}").status == 404


@pytest.mark.parametrize(
    "place",
    [
        "https://elsewhere.example",
        "//elsewhere.example",
        "/\\elsewhere.example",
        "/v1/executions",
        "javascript:alert(1)",
        "/uix",
        "/ui\n",
    ],
)
def test_signing_in_leads_to_the_page_and_nowhere_else(scene: Scene, place: str) -> None:
    answer = PageHttp(scene.url).post("/ui/sign-in", {"key": scene.secret, "next": place})
    assert answer.headers["location"] == "/ui"


def test_signing_in_leads_to_where_one_wanted(scene: Scene) -> None:
    answer = PageHttp(scene.url).post("/ui/sign-in", {"key": scene.secret, "next": "/ui?status=failed"})
    assert answer.headers["location"] == "/ui?status=failed"


def test_wrong_keys_are_taken_slowly_and_cost_others_nothing(tmp_path: Path, scene: Scene) -> None:
    with running(tmp_path / "stepd.db", env={"STEPD_ADMIN_KEYS": f"ops={scene.secret}"}) as daemon:
        visitor = PageHttp(daemon.url)
        statuses = [visitor.sign_in(f"wrong-{number}").status for number in range(30)]
        assert statuses[0] == 401
        assert statuses[-1] == 429
        refused = visitor.sign_in(scene.secret)
        assert refused.status == 429
        assert int(refused.headers["retry-after"]) > 0
        Http(daemon.url, scene.secret).get("/v1/executions").expect(200)


def test_a_form_that_is_none_is_refused(scene: Scene) -> None:
    session = scene.signed_in
    assert session.post("/ui/sign-out", {}, Content_Type="application/json").status == 415
    assert session.post("/ui/sign-out", {"csrf": "x" * 2_000_000}).status in (403, 413)
    assert session.post("/ui/sign-out", {f"f{number}": "" for number in range(1_500)}).status in (403, 422)


def test_without_keys_the_page_is_for_this_machine_until_the_first_key_is_made(tmp_path: Path) -> None:
    with running(tmp_path / "stepd.db") as daemon:
        visitor = PageHttp(daemon.url)
        assert visitor.get("/ui").status == 200
        assert visitor.get("/ui", Host="elsewhere.example").status == 403
        assert visitor.get("/ui", Origin="http://elsewhere.example").status == 403
        assert visitor.get("/ui/sign-in").headers["location"] == "/ui"
        Http(daemon.url).post("/v1/admin/keys", {"name": "ops", "scopes": ["admin"]}).expect(201)
        assert visitor.get("/ui").status == 303


def test_the_page_shows_neither_cookie_nor_key_nor_fence(scene: Scene) -> None:
    flow = make_flow(scene.admin, read())
    run, lease = flow.begin()
    assert scene.signed_in.cookie is not None
    for path in (
        "/ui",
        f"/ui/executions/{run.id}",
        f"/ui/executions/{run.id}/steps/work",
        f"/ui/executions/{run.id}/journal",
    ):
        text = scene.signed_in.get(path).text
        assert scene.secret not in text
        assert scene.signed_in.cookie[1] not in text
        assert "fence" not in text
        assert lease.id not in text


def test_a_link_of_another_site_comes_once_more_from_here(scene: Scene) -> None:
    path = f"/ui/executions/{make_flow(scene.admin, read()).start().id}"
    answer = PageHttp(scene.url).get(path, Sec_Fetch_Site="cross-site")
    assert answer.status == 200
    assert 'http-equiv="refresh"' in answer.text
    assert PageHttp(scene.url).get(path, Sec_Fetch_Site="same-origin").status == 303
    assert scene.signed_in.get(path, Sec_Fetch_Site="cross-site").status == 200


def test_files_are_asked_for_again_and_sent_once(scene: Scene) -> None:
    visitor = PageHttp(scene.url)
    first = visitor.get("/ui/static/page.css")
    assert first.status == 200
    assert first.headers["content-type"].startswith("text/css")
    again = visitor.get("/ui/static/page.css", If_None_Match=first.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    assert visitor.get("/ui/static/web.py").status == 404
    assert visitor.get("/ui/static/..%2fweb.py").status == 404
