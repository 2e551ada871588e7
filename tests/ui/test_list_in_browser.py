"""The list of executions in a real Chromium: filters, search, live rows, keys, time zones, no script, hostile text."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect

from tests.support.browser import PHONE
from tests.support.definitions import AT_ONCE, read, unique, wait
from tests.support.flow import Flow, make_flow
from tests.support.page import PageHttp
from tests.ui.conftest import Look, Scene

HOSTILE = "<img src=x onerror=alert(1)>\"'`{{7*7}}<script>alert(2)</script>"
DECEIVING = "live\u202eevil\u0000\u001b[31m\u200b"


@pytest.fixture(scope="module")
def flow(scene: Scene) -> Flow:
    """A workflow with executions that differ in what the list can ask for."""
    flow = make_flow(scene.admin, read(), name=unique("list"))
    flow.start(correlation="order-1", tenant="acme", labels={"team": "billing"})
    flow.start(correlation="order-2", tenant="other", labels={"team": "support"}).cancel()
    return flow


def test_signing_in_by_hand_and_out_again(scene: Scene, look: Look) -> None:
    with look(cookie=None) as viewer:
        viewer.refused.add(401)
        page = viewer.go("/ui?status=failed")
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        expect(page.get_by_label("Key")).to_be_focused()
        page.keyboard.type("wrong")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("No key has this secret")
        page.get_by_label("Key").fill(scene.secret)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", name="Executions")).to_be_visible()
        assert page.url == f"{scene.url}/ui?status=failed"
        page.get_by_role("button", name="sign out").click()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        viewer.go("/ui")
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_filters_narrow_the_list_and_stand_in_its_address(flow: Flow, look: Look) -> None:
    with look() as viewer:
        page = viewer.go(f"/ui?workflow={flow.name}")
        rows = page.locator("#rows tbody tr")
        expect(rows).to_have_count(2)
        for label, value in (("Correlation", "order-1"), ("Label", "team:billing"), ("Tenant", "acme")):
            page.get_by_label(label, exact=True).fill(value)
            page.get_by_role("button", name="Show").click()
            expect(rows).to_have_count(1)
            expect(rows).to_contain_text("order-1")
            page.go_back()
            expect(rows).to_have_count(2)
        page.locator("select[name=status]").select_option("cancelled")
        page.get_by_role("button", name="Show").click()
        expect(rows).to_have_count(1)
        expect(rows).to_contain_text("order-2")
        assert "status=cancelled" in page.url


def test_one_field_finds_by_id_correlation_and_label(flow: Flow, look: Look) -> None:
    run = flow.start(correlation="find me", labels={"ticket": "4711"})
    with look() as viewer:
        page = viewer.go("/ui")
        for text in (run.id, run.id.upper(), "find me", "ticket:4711"):
            field = page.get_by_role("searchbox")
            field.fill(text)
            field.press("Enter")
            expect(page.get_by_text(run.id).first).to_be_visible()
        page.get_by_role("searchbox").fill("nothing like it")
        page.get_by_role("searchbox").press("Enter")
        expect(page.locator(".empty")).to_contain_text("No execution is like that")


def test_a_filter_that_says_nothing_sensible_is_explained_where_it_stands(look: Look) -> None:
    with look() as viewer:
        viewer.refused.add(422)
        page = viewer.go("/ui?workflow=not%20a%20name")
        expect(page.get_by_role("alert")).to_be_visible()
        expect(page.get_by_label("Workflow", exact=True)).to_have_value("not a name")


def test_new_and_changed_rows_appear_by_themselves(scene: Scene, look: Look) -> None:
    flow = make_flow(scene.admin, read(), wait(event="approval", needs=["work"]), name=unique("live"))
    with look() as viewer:
        page = viewer.go(f"/ui?workflow={flow.name}")
        expect(page.locator(".empty")).to_be_visible()
        expect(page.locator("[data-state=live]")).to_be_visible()
        page.evaluate("window.untouched = true")
        run, lease = flow.begin()
        row = page.locator("#rows tbody tr")
        expect(row).to_have_count(1)
        expect(row).to_contain_text("running")
        lease.complete({}).expect(200)
        expect(row).to_contain_text("waiting")
        run.signal("approval", {"yes": True}).expect(202)
        expect(row).to_contain_text("completed")
        assert page.evaluate("window.untouched") is True


def test_the_focus_stays_where_it_is_while_rows_change(scene: Scene, look: Look) -> None:
    flow = make_flow(scene.admin, read(), name=unique("focus"))
    first = flow.start()
    with look() as viewer:
        page = viewer.go(f"/ui?workflow={flow.name}")
        link = page.locator(f"a[href='/ui/executions/{first.id}']").first
        link.focus()
        flow.start()
        expect(page.locator("#rows tbody tr")).to_have_count(2)
        expect(link).to_be_focused()


def test_older_executions_are_a_page_further(scene: Scene, look: Look) -> None:
    flow = make_flow(scene.admin, read(), name=unique("many"))
    runs = [flow.start() for _ in range(55)]
    with look() as viewer:
        page = viewer.go(f"/ui?workflow={flow.name}")
        expect(page.locator("#rows tbody tr")).to_have_count(50)
        expect(page.get_by_text(runs[-1].id)).to_be_visible()
        page.get_by_role("link", name="Older").click()
        expect(page.locator("#rows tbody tr")).to_have_count(5)
        expect(page.get_by_text(runs[0].id)).to_be_visible()


def test_everything_can_be_reached_and_done_by_keys(flow: Flow, look: Look) -> None:
    with look() as viewer:
        page = viewer.go(f"/ui?workflow={flow.name}")
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
        expect(page.get_by_role("link", name="Skip to the content")).to_be_in_viewport()
        page.keyboard.press("Enter")
        expect(page.locator("main")).to_be_focused()
        seen: list[str] = []
        for _ in range(20):
            page.keyboard.press("Tab")
            seen.append(
                page.evaluate("document.activeElement.getAttribute('href') || document.activeElement.name || ''")
            )
            if seen[-1].startswith("/ui/executions/"):
                break
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none", f"the focus on {seen[-1]} can't be seen"
        assert [name for name in seen if name in ("status", "workflow", "tenant")] == ["status", "workflow", "tenant"]
        page.keyboard.press("Enter")
        expect(page.locator("#execution")).to_be_visible()


@pytest.mark.parametrize(
    ("zone", "hour", "named"), [("Asia/Tokyo", 9, "Asia/Tokyo"), ("America/Lima", -5, "America/Lima")]
)
def test_times_are_in_the_viewers_zone_which_is_named(flow: Flow, look: Look, zone: str, hour: int, named: str) -> None:
    with look(zone=zone) as viewer:
        page = viewer.go(f"/ui?workflow={flow.name}")
        expect(page.locator("#zone")).to_contain_text(named)
        shown = page.locator("#rows time").first
        at = datetime.fromisoformat(shown.get_attribute("datetime") or "").astimezone(UTC) + timedelta(hours=hour)
        expect(shown).to_have_text(re.compile(f"^{at:%Y-%m-%d %H:%M:%S}"))


def test_it_works_without_script(flow: Flow, look: Look, scene: Scene) -> None:
    with look(script=False) as viewer:
        page = viewer.go("/ui")
        page.get_by_label("Workflow", exact=True).fill(flow.name)
        page.get_by_label("Correlation", exact=True).fill("order-1")
        page.get_by_role("button", name="Show").click()
        expect(page.locator("#rows tbody tr")).to_have_count(1)
        expect(page.get_by_text("Times are in UTC")).to_be_visible()
        expect(page.locator("#rows time")).to_contain_text(re.compile("UTC|Z$"))
        page.locator("#rows tbody a").first.click()
        expect(page.locator("#execution")).to_be_visible()
        page.get_by_role("link", name="Cancel").click()
        page.get_by_role("button", name="Cancel it").click()
        expect(page.get_by_role("status")).to_contain_text("asked to cancel")


def test_a_theme_is_chosen_and_kept(look: Look) -> None:
    with look(theme="light") as viewer:
        page = viewer.go("/ui")
        before = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.get_by_role("button", name="Theme").click()
        after = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert after != before
        page.reload()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == after


def test_hostile_text_in_every_field_of_the_list_is_text(scene: Scene, look: Look) -> None:
    flow = make_flow(scene.admin, read(retry=AT_ONCE), name=unique("hostile"))
    run = flow.start(correlation=HOSTILE, tenant=DECEIVING.replace("\0", ""), labels={"k": HOSTILE})
    lease = flow.claim_one(worker="w")
    lease.fail("fatal", message=HOSTILE + DECEIVING).expect(200)
    assert run.until("failed")["status"] == "failed"
    with look() as viewer:
        page = viewer.go(f"/ui?workflow={flow.name}")
        row = page.locator("#rows tbody tr")
        expect(row).to_have_count(1)
        text = row.inner_text()
        assert text.count(HOSTILE) == 3
        assert not {"\u202e", "\x1b", "\0", "\u200b"} & {*text}
        assert "202e" in text
        assert page.locator("#rows img, #rows script").count() == 0
        page.get_by_role("searchbox").fill(HOSTILE)
        page.get_by_role("searchbox").press("Enter")
        expect(row).to_have_count(1)
        expect(page.get_by_label("Correlation", exact=True)).to_have_value(HOSTILE)


def test_a_phone_shows_the_list_without_scrolling_sideways(flow: Flow, look: Look) -> None:
    with look(size=PHONE) as viewer:
        viewer.go(f"/ui?workflow={flow.name}")
        viewer.check_narrow()
        viewer.go("/ui/sign-in")
        viewer.check_narrow()


def test_a_page_that_is_open_ends_with_its_session(scene: Scene, look: Look) -> None:
    key = scene.key("read")
    with look(cookie=PageHttp(scene.url).signed_in(key.secret).cookie) as viewer:
        viewer.refused.add(401)
        page = viewer.go("/ui")
        expect(page.locator("[data-state=live]")).to_be_visible()
        key.revoke(scene.admin)
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
