"""One execution in a real Chromium: watched live, approved, retried, cancelled, paused and resolved by forms."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.support.definitions import read, unique, wait, write
from tests.support.flow import Flow, Run, make_flow
from tests.ui.conftest import Look, Scene

HOSTILE = "<img src=x onerror=alert(1)>\"'`<script>alert(2)</script>"


def status(page: Page) -> str:
    """The execution's status as the page has it."""
    return page.locator("#head h1 .chip").inner_text()


def approved(scene: Scene) -> Flow:
    """A step that may be retried, an approval, and what comes behind it."""
    return make_flow(
        scene.admin,
        read("draft", retry={"max_attempts": 3, "initial_seconds": 0.3}),
        wait("approval", event="approve", needs=["draft"]),
        read("send", needs=["approval"]),
        name=unique("flow"),
    )


def test_an_execution_is_watched_retried_and_approved_without_a_reload(scene: Scene, look: Look) -> None:
    flow = approved(scene)
    run = flow.start(input={"text": "hello"})
    with look() as viewer:
        page = viewer.go(f"/ui/executions/{run.id}")
        expect(page.locator("#execution[data-state=live]")).to_be_visible()
        page.evaluate("window.untouched = true")
        lease = flow.claim_step("draft", worker="w-1")
        row = page.locator("table.steps tbody tr").first
        expect(row).to_contain_text("running")
        lease.fail("retryable", message="try me again").expect(200)
        expect(page.locator("#journal")).to_contain_text("try me again")
        flow.claim_step("draft", worker="w-2").complete({"draft": "ok"}).expect(200)
        expect(row).to_contain_text("succeeded")
        expect(page.locator(".sentence")).to_contain_text("Waits for the signal approve")
        assert page.evaluate("window.untouched") is True
        page.get_by_role("link", name="Signal").click()
        expect(page.get_by_label("Signal", exact=True)).to_have_value("approve")
        page.get_by_label("Payload").fill('{"by": "dana"')
        viewer.refused.add(422)
        page.get_by_role("button", name="Signal it").click()
        expect(page.get_by_role("alert")).to_contain_text("JSON")
        page.get_by_label("Payload").fill('{"by": "dana"}')
        page.get_by_role("button", name="Signal it").click()
        expect(page.get_by_role("status")).to_contain_text("The signal was received")
        flow.claim_step("send").complete({}).expect(200)
        expect(page.locator("#head h1")).to_contain_text("completed")
        expect(page.get_by_role("navigation", name="What you can do")).to_have_count(0)
    assert run.event("signal.received")["data"]["name"] == "approve"


def test_cancel_asks_first_and_shows_what_came_of_it(scene: Scene, look: Look) -> None:
    run = approved(scene).start()
    with look() as viewer:
        page = viewer.go(f"/ui/executions/{run.id}")
        page.get_by_role("link", name="Cancel").click()
        assert run.view()["status"] == "queued"
        page.get_by_role("link", name="Leave it as it is").click()
        page.get_by_role("link", name="Cancel").click()
        page.get_by_label("Reason").fill("not needed any more")
        page.get_by_role("button", name="Cancel it").click()
        expect(page.get_by_role("status")).to_contain_text("asked to cancel")
        expect(page.locator("#head h1")).to_contain_text("cancelled")
        assert page.evaluate("document.activeElement !== null")
    assert run.event("execution.cancel_requested")["data"]["reason"] == "not needed any more"


def test_pause_and_resume(scene: Scene, look: Look) -> None:
    run = approved(scene).start()
    with look() as viewer:
        page = viewer.go(f"/ui/executions/{run.id}")
        page.get_by_role("link", name="Pause").click()
        page.get_by_role("button", name="Pause it").click()
        expect(page.locator("#head h1")).to_contain_text("paused")
        page.get_by_role("link", name="Resume").click()
        page.get_by_role("button", name="Resume it").click()
        expect(page.locator("#head h1")).to_contain_text("queued")
    assert run.view()["status"] == "queued"


def doubtful(scene: Scene) -> tuple[Flow, Run]:
    flow = make_flow(scene.admin, write("charge"), read("receipt", needs=["charge"]), name=unique("doubt"))
    run = flow.start(input={"amount": 19})
    lease = flow.claim_step("charge", worker="payer").begin()
    lease.fail("retryable", message="no answer came", effect="unknown").expect(200)
    run.until("reconciliation_required")
    return flow, run


def test_an_uncertain_step_is_resolved_with_its_evidence_in_sight(scene: Scene, look: Look) -> None:
    flow, run = doubtful(scene)
    with look() as viewer:
        page = viewer.go(f"/ui/executions/{run.id}")
        expect(page.locator("#head h1")).to_contain_text("reconciliation required")
        page.get_by_role("link", name="Resolve").click()
        expect(page.locator(".doubt")).to_contain_text("no answer came")
        expect(page.locator(".doubt")).to_contain_text("payer")
        page.get_by_label("It happened, with this output").check()
        page.get_by_label("Output of charge, as JSON").fill('{"id": 7}')
        page.get_by_label("Reference").fill("case 4711")
        page.get_by_role("textbox", name="Reason").fill("seen in the provider's ledger")
        page.get_by_role("button", name="Resolve it").click()
        expect(page.get_by_role("status")).to_contain_text("ledger")
        assert flow.claim_step("receipt").data["steps"]["charge"]["output"] == {"id": 7}
    assert run.event("execution.resolved")["data"]["evidence"]["reference"] == "case 4711"


def test_two_operators_with_one_form_each_resolve_once(scene: Scene, look: Look) -> None:
    _, run = doubtful(scene)
    with look() as viewer:
        viewer.refused |= {403, 409}
        page = viewer.go(f"/ui/executions/{run.id}/resolve")
        run.resolve("resume", results=[{"step": "charge", "outcome": "absent"}]).expect(200)
        page.get_by_label("It surely did not happen").check()
        page.get_by_label("Reference").fill("case 4712")
        page.get_by_role("textbox", name="Reason").fill("seen too")
        page.get_by_role("button", name="Resolve it").click()
        expect(page.get_by_role("alert")).to_be_visible()
    assert run.event("execution.resolved")["data"]["evidence"]["reference"] == "case 4711"


def test_hostile_text_in_every_field_of_an_execution_is_text(scene: Scene, look: Look) -> None:
    flow = make_flow(scene.admin, read("draft"), wait("approval", event="approve", needs=["draft"]), name=unique("bad"))
    given = {"text": HOSTILE, HOSTILE: [HOSTILE]}
    run = flow.start(input=given, correlation=HOSTILE, labels={"k": HOSTILE}, tenant=HOSTILE)
    lease = flow.claim_step("draft", worker="w")
    spans = [
        {
            "span_id": f"{1:016x}",
            "name": HOSTILE,
            "kind": "client",
            "start_unix_nano": "1764504000000000000",
            "end_unix_nano": "1764504001000000000",
            "status": "error",
            "attributes": {HOSTILE: HOSTILE},
        }
    ]
    usage = [{"model": HOSTILE, "input_tokens": 5}]
    lease.heartbeat(progress={"at": HOSTILE}).expect(200)
    lease.complete({"out": HOSTILE}, state={"s": HOSTILE}, spans=spans, usage=usage).expect(200)
    run.until("waiting")
    run.cancel(reason=HOSTILE).expect(202)
    failing = flow.start()
    flow.claim_step("draft").fail("fatal", message=HOSTILE, details={"d": HOSTILE}).expect(200)
    failing.until("failed")
    with look() as viewer:
        for path in (
            f"/ui/executions/{run.id}",
            f"/ui/executions/{run.id}/steps/draft",
            f"/ui/executions/{run.id}/payloads/input",
            f"/ui/executions/{failing.id}",
            f"/ui/executions/{failing.id}/steps/draft",
            "/ui/usage",
        ):
            page = viewer.go(path)
            assert "<img src=x onerror=alert(1)>" in page.locator("main").inner_text(), path
            assert page.locator("main img, main script").count() == 0, path


def test_a_wide_execution_stays_fast(scene: Scene, look: Look) -> None:
    flow = make_flow(scene.admin, read("each", foreach="input.items"), name=unique("wide"))
    run = flow.start(input={"items": [*range(5_000)]})
    flow.claim(max=100)
    with look() as viewer:
        page = viewer.go(f"/ui/executions/{run.id}")
        expect(page.locator("#graph")).to_contain_text("/5000")
        took = page.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
        assert took < 5_000
