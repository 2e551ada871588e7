"""What is done by forms of the page, over plain HTTP: what the API does, and by no key that may not."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest

from tests.support.client import Http
from tests.support.definitions import brief, read, wait, write
from tests.support.flow import Run, make_flow, register
from tests.support.page import PageHttp
from tests.ui.conftest import Scene

KEY = re.compile(r'name="key" value="([^"]+)"')
ALL_ACTIONS = ("signal", "cancel", "pause", "resume", "resolve")


def path(run: Run, action: str = "") -> str:
    return f"/ui/executions/{run.id}" + (f"/{action}" if action else "")


def waiting(scene: Scene) -> Run:
    return make_flow(scene.admin, wait("asked", "approval"), read("after")).start()


def doubtful(scene: Scene) -> Run:
    """An execution whose only write nobody knows about."""
    run, lease = make_flow(scene.admin, write("charge", **brief(lease=30))).begin(input={"amount": 5})
    lease.begin()
    lease.fail("fatal", message="the line broke <b>here</b>").expect(200)
    run.until("reconciliation_required")
    return run


def send(page: PageHttp, run: Run, act: str, **fields: str) -> Any:
    """Fills in the form of an action, with what is in it already."""
    form = page.get(path(run, act))
    assert form.status == 200, str(form)
    found = KEY.search(form.text)
    assert found is not None
    return page.submit(path(run, act), key=unescape(found[1]), **fields)


def test_a_signal_goes_to_its_wait_and_twice_is_once(scene: Scene) -> None:
    run = waiting(scene)
    fields = {"name": "approval", "payload": '{"by": "me", "n": 12345678901234567890}', "key": "the-same"}
    first, answer = (scene.signed_in.submit(path(run, "signal"), **fields) for _ in range(2))
    assert (first.status, answer.status) == (303, 303)
    assert answer.headers["location"].startswith(path(run))
    assert run.types().count("signal.received") == 1
    assert "The signal was received." in scene.signed_in.get(answer.headers["location"]).text


@pytest.mark.parametrize("payload", ["{", "yes", '"\\ud800"'])
def test_a_payload_that_is_no_json_comes_back_in_the_form(scene: Scene, payload: str) -> None:
    run = waiting(scene)
    answer = send(scene.signed_in, run, "signal", name="approval", payload=payload)
    assert answer.status in (400, 422)
    assert "is no JSON" in answer.text or "surrogate" in answer.text
    assert "signal.received" not in run.types()


def test_a_signal_that_no_wait_takes_is_refused_in_the_form(scene: Scene) -> None:
    run = waiting(scene)
    answer = send(scene.signed_in, run, "signal", name="other", payload='"kept as typed"')
    assert answer.status == 409
    assert "not_signalable" in answer.text
    assert "kept as typed" in unescape(answer.text)


def test_cancel_pause_and_resume(scene: Scene) -> None:
    run = waiting(scene)
    assert send(scene.signed_in, run, "pause").status == 303
    assert run.view()["status"] == "paused"
    assert send(scene.signed_in, run, "resume").status == 303
    assert run.view()["status"] != "paused"
    assert send(scene.signed_in, run, "cancel", reason="no longer wanted").status == 303
    assert run.until("cancelled")["status"] == "cancelled"
    assert run.event("execution.cancel_requested")["data"]["reason"] == "no longer wanted"


def test_a_budget_that_is_used_up_is_raised_by_resuming(scene: Scene) -> None:
    flow = make_flow(scene.admin, read("one"), read("two"))
    run = flow.start(budget={"tokens": 100})
    flow.claim_one().complete({}, usage=[{"model": "m", "input_tokens": 150}]).expect(200)
    assert run.view()["paused"]["reason"] == "budget_exceeded"
    assert "its budget is used up" in scene.signed_in.get(path(run)).text
    refused = send(scene.signed_in, run, "resume", budget_tokens="120")
    assert refused.status == 409
    assert "budget" in refused.text
    assert send(scene.signed_in, run, "resume", budget_tokens="1,000").status == 303
    flow.claim_one().complete({}).expect(200)
    assert run.until("completed")


def test_resolving_shows_the_evidence_and_says_what_became_of_each_step(scene: Scene) -> None:
    run = doubtful(scene)
    form = scene.signed_in.get(path(run, "resolve")).text
    for shown in (
        "charge is uncertain",
        "the line broke &lt;b&gt;here&lt;/b&gt;",
        "&#34;amount&#34;: 5",
        f"{run.id}:charge",
    ):
        assert shown in form
    said = {"step:0:step": "charge", "step:0:outcome": "succeeded", "step:0:output": '{"id": "ch_1"}'}
    told = {"action": "resume", "reference": "case 4711", "reason": "seen in the ledger", "revision": "1"}
    assert send(scene.signed_in, run, "resolve", **said, **told).status == 303
    assert run.until("completed")["steps"][0]["status"] == "succeeded"


def test_a_resolution_without_a_word_for_a_step_comes_back_with_what_was_typed(scene: Scene) -> None:
    run = doubtful(scene)
    told = {"step:0:step": "charge", "action": "resume", "reference": "case 4712", "reason": "not looked yet"}
    answer = send(scene.signed_in, run, "resolve", **told)
    assert answer.status == 422
    assert "case 4712" in answer.text
    assert run.view()["status"] == "reconciliation_required"


def test_closing_ends_it(scene: Scene) -> None:
    run = doubtful(scene)
    told = {"action": "close", "verification": "accepted", "reference": "case 1", "reason": "it stands"}
    assert send(scene.signed_in, run, "resolve", **told).status == 303
    assert run.until("failed")["standing_writes"] == [{"step": "charge", "index": None}]


@pytest.mark.parametrize("action", ALL_ACTIONS)
def test_a_key_that_may_only_read_acts_on_nothing_and_is_offered_nothing(scene: Scene, action: str) -> None:
    run = doubtful(scene) if action == "resolve" else waiting(scene)
    before = run.types()
    key = scene.key("read")
    session = PageHttp(scene.url).signed_in(key.secret)
    assert f"{path(run)}/{action}" not in session.get(path(run)).text
    assert session.get(path(run, action)).status == 403
    assert session.submit(path(run, action), key="k", name="approval", action="close").status == 403
    assert run.types() == before
    rows = scene.admin.get("/v1/admin/audit", query={"principal": key.name}).expect(200)["items"]
    assert any(row["outcome"] == "refused: forbidden" and row["action"] == f"execution.{action}" for row in rows)


@pytest.mark.parametrize("page", ["/ui/queue", "/ui/workers", "/ui/workflows", "/ui/usage"])
def test_pages_for_readers(scene: Scene, page: str) -> None:
    doubtful(scene)
    assert scene.session("read").get(page).status == 200
    assert scene.session("worker").get(page).status == 403


@pytest.mark.parametrize("page", ["/ui/keys", "/ui/audit"])
def test_pages_for_administrators(scene: Scene, page: str) -> None:
    assert scene.signed_in.get(page).status == 200
    session = scene.session("operate")
    assert session.get(page).status == 403
    assert page not in session.get("/ui").text


def test_the_operators_queue_has_what_is_in_doubt_blocked_and_paused(scene: Scene) -> None:
    doubt, paused = doubtful(scene), waiting(scene)
    paused.pause().expect(202)
    text = scene.signed_in.get("/ui/queue").text
    for run in (doubt, paused):
        assert run.id in text
    assert f"/ui/executions/{doubt.id}/resolve" in text


def test_a_version_is_made_current(scene: Scene) -> None:
    flow = make_flow(scene.admin, read())
    other = register(scene.admin, flow.name, {"steps": [read(), read("more")]}).expect(201)["version"]
    place = f"/ui/workflows/{flow.name}"
    assert f"Use {flow.version}" in scene.signed_in.get(f"{place}?use={flow.version}").text
    assert scene.signed_in.submit(place, version=flow.version).status == 303
    assert scene.admin.get(f"/v1/workflows/{flow.name}").expect(200)["current"] == flow.version != other
    assert scene.signed_in.submit(place, version="none").status == 404
    assert scene.session("read").submit(place, version=other).status == 403


def test_a_key_is_made_shown_once_and_revoked(scene: Scene) -> None:
    page = scene.signed_in
    answer = page.submit("/ui/keys", **{"name": "made-here", "scope:read": "on", "tenants": "*"})
    assert answer.status == 200
    secret = re.search(r'id="secret">([^<]+)<', answer.text)
    assert secret is not None
    assert Http(scene.url, secret[1]).get("/v1/executions").status == 200
    assert secret[1] not in page.get("/ui/keys").text
    (row,) = [one for one in scene.admin.get("/v1/admin/keys").expect(200)["items"] if one["name"] == "made-here"]
    assert "made-here" in page.get(f"/ui/keys/{row['id']}/revoke").text
    assert page.submit(f"/ui/keys/{row['id']}/revoke").status == 303
    assert Http(scene.url, secret[1]).get("/v1/executions").status == 401
    assert page.submit("/ui/keys", name="no scopes").status == 422


def test_usage_is_told_by_workflow_and_model(scene: Scene) -> None:
    flow = make_flow(scene.admin, read())
    flow.start()
    flow.claim_one().complete({}, usage=[{"model": "m<odel", "input_tokens": 1_234}]).expect(200)
    text = scene.signed_in.get("/ui/usage?days=7").text
    assert "m&lt;odel" in text
    assert flow.name in text


def test_the_audit_log_is_shown_with_its_filters(scene: Scene) -> None:
    run = waiting(scene)
    text = scene.signed_in.get(f"/ui/audit?target={run.id}").text
    assert "execution.start" in text
    assert scene.signed_in.get("/ui/audit?at_after=yesterday").status == 422


def test_a_step_its_items_a_payload_and_the_older_journal(scene: Scene) -> None:
    steps = read("each", foreach="input", max_parallel=2)
    run = make_flow(scene.admin, steps).start(input=[{"text": "x" * 5_000}, *range(40)])
    page = scene.signed_in
    items = page.get(f"{path(run)}/steps/each").text
    assert "each[0]" in items
    assert "More items" in items
    whole = page.get(f"{path(run)}/payloads/input").text
    assert "x" * 5_000 in whole
    assert "x" * 5_000 not in page.get(path(run)).text
    assert page.get(f"{path(run)}/payloads/nothing").status == 404
    assert page.get(f"{path(run)}/steps/nothing").status == 404
    assert "created" in page.get(f"{path(run)}/journal?before=2").text
    assert page.get(f"{path(run)}/journal?before=x").status == 200
