"""How every page looks in a real Chromium: accessible in light and dark, fit for a phone, as README shows it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import ViewportSize, expect

from tests.style.sources import ROOT
from tests.support.browser import PHONE
from tests.support.page import PageHttp
from tests.ui.conftest import Look, Scene
from tests.ui.story import Story, tell

PICTURES: Final = ROOT / "docs" / "images"
DRAW: Final = "STEPD_DRAW_PICTURES"
"""Has the pictures of README made anew, as `make screenshots` does."""
PICTURE_BYTES_MAX: Final = 150_000
PICTURE: Final = ViewportSize(width=1200, height=760)

PAGES: dict[str, Callable[[Story], str]] = {
    "executions": lambda story: "/ui",
    "nothing found": lambda story: "/ui?correlation=nothing",
    "a filter that is wrong": lambda story: "/ui?workflow=not%20a%20name",
    "running": lambda story: f"/ui/executions/{story.running.id}",
    "waiting": lambda story: f"/ui/executions/{story.waiting.id}",
    "failed": lambda story: f"/ui/executions/{story.failed.id}",
    "uncertain": lambda story: f"/ui/executions/{story.doubtful.id}",
    "step": lambda story: f"/ui/executions/{story.completed.id}/steps/classify",
    "payload": lambda story: f"/ui/executions/{story.completed.id}/payloads/input",
    "journal": lambda story: f"/ui/executions/{story.completed.id}/journal",
    "signal": lambda story: f"/ui/executions/{story.waiting.id}/signal",
    "cancel": lambda story: f"/ui/executions/{story.waiting.id}/cancel",
    "resolve": lambda story: f"/ui/executions/{story.doubtful.id}/resolve",
    "queue": lambda story: "/ui/queue",
    "workers": lambda story: "/ui/workers",
    "workflows": lambda story: "/ui/workflows",
    "workflow": lambda story: f"/ui/workflows/{story.workflow}",
    "usage": lambda story: "/ui/usage",
    "keys": lambda story: "/ui/keys",
    "audit": lambda story: "/ui/audit",
    "sign in": lambda story: "/ui/sign-in",
    "not found": lambda story: "/ui/executions/none",
    "no such page": lambda story: "/ui/nowhere",
}
"""Every page; a new one is one line more."""
REFUSED = {"a filter that is wrong": 422, "not found": 404, "no such page": 404}


@pytest.fixture(scope="module")
def story(scene: Scene) -> Story:
    return tell(scene.admin)


def test_every_page_is_accessible_in_light_and_dark(story: Story, look: Look) -> None:
    with look() as viewer:
        viewer.refused |= {*REFUSED.values()}
        for name, path in PAGES.items():
            page = viewer.go(path(story))
            expect(page.locator("h1"), name).to_have_count(1)
            viewer.check_accessible()


def test_every_page_fits_a_phone(story: Story, look: Look) -> None:
    with look(size=PHONE) as viewer:
        viewer.refused |= {*REFUSED.values()}
        for path in PAGES.values():
            viewer.go(path(story))
            viewer.check_narrow()


def test_every_page_that_opens_has_a_line_here(story: Story, scene: Scene) -> None:
    shown = {name: scene.signed_in.get(path(story)).status for name, path in PAGES.items()}
    assert shown == {name: REFUSED.get(name, 200) for name in PAGES}
    front = scene.signed_in.get("/ui").text
    linked = {part.partition('"')[0] for part in front.partition('aria-label="Pages"')[2].split('href="')[1:8]}
    assert linked <= {path(story) for path in PAGES.values()}


def test_a_key_that_may_little_is_offered_little(story: Story, scene: Scene, look: Look) -> None:
    with look(cookie=PageHttp(scene.url).signed_in(scene.key("read").secret).cookie) as viewer:
        page = viewer.go("/ui")
        names = page.get_by_role("navigation", name="Pages").get_by_role("link").all_inner_texts()
        assert "Executions" in names
        assert not {"Keys", "Audit"} & {*names}
        viewer.go(f"/ui/executions/{story.waiting.id}")
        expect(page.get_by_role("navigation", name="What you can do")).to_have_count(0)


@pytest.mark.parametrize(
    ("name", "theme", "path"),
    [
        ("executions", "light", PAGES["executions"]),
        ("execution", "dark", PAGES["waiting"]),
        ("resolve", "light", PAGES["resolve"]),
        ("usage", "light", PAGES["usage"]),
    ],
)
def test_the_pictures_are_of_these_pages(
    story: Story, look: Look, tmp_path: Path, name: str, theme: str, path: Callable[[Story], str]
) -> None:
    folder = PICTURES if os.environ.get(DRAW) else tmp_path
    folder.mkdir(exist_ok=True)
    with look(theme=theme, size=PICTURE) as viewer:
        page = viewer.go(path(story))
        expect(page.locator("#zone")).to_contain_text("UTC")
        page.screenshot(path=folder / f"{name}.png", animations="disabled")
    assert (folder / f"{name}.png").stat().st_size < PICTURE_BYTES_MAX
    assert (PICTURES / f"{name}.png").is_file(), "make screenshots draws it"
