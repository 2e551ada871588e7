"""A real Chromium for tests of the page: found or installed, one a module, watched for what a page must not do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]  # the package has no types
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, ViewportSize, sync_playwright

NAMED: Final = "STEPD_TEST_CHROMIUM"
"""Names the program, where it is not on the path."""
NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSTALL: Final = (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", "chromium"])
INSTALL_SECONDS: Final = 300
# A program that runs as root has no sandbox, and a container's shared memory is too small for it.
ARGUMENTS: Final = ("--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars")
WAIT_MS: Final = 10_000
WIDE: Final = ViewportSize(width=1280, height=800)
PHONE: Final = ViewportSize(width=375, height=740)
VIOLATIONS: Final = {"resultTypes": ["violations"], "iframes": False}
"""What axe shall tell: to describe all that is well would take most of its time."""
GRAVE: Final = ("serious", "critical")
"""What axe may not find."""


class NoBrowser(Exception):
    """There is no Chromium, and none could be installed; `str()` of it names the way out."""


def program() -> Path:
    """Chromium's program, installed from Debian's package where there is none and this is root. Raises NoBrowser."""
    if (found := _found()) is not None:
        return found
    if os.geteuid() == 0 and shutil.which("apt-get"):
        for command in INSTALL:
            subprocess.run(command, check=False, capture_output=True, timeout=INSTALL_SECONDS)
        if (found := _found()) is not None:
            return found
    raise NoBrowser(
        "The tests of the page need Chromium: install your system's package (Debian: apt-get install chromium), or "
        f"name the program by {NAMED}=/path/to/chromium."
    )


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser for the tests of one module; each test has contexts of its own in it."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program(), args=[*ARGUMENTS])
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Viewer:
    """Somebody who looks at the page of the daemon at ``url``."""

    url: str
    page: Page
    refused: set[int] = field(default_factory=set)
    """Statuses of refusals that the test provokes: a browser complains of them."""
    _faults: list[str] = field(default_factory=list)

    def go(self, path: str) -> Page:
        """Opens a path of the page."""
        self.page.goto(self.url + path)
        return self.page

    def watch(self) -> Viewer:
        """Writes down what no page may do: errors, broken policies, foreign hosts."""
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self._faults.append(f"error: {error}"))
        self.page.on("request", self._asked)
        self.page.on("dialog", lambda dialog: self._faults.append(f"dialog: {dialog.message}"))
        return self

    def check(self) -> None:
        """Fails where a page did what it must not."""
        assert self._faults == []

    def check_accessible(self) -> None:
        """Fails where axe finds something serious on the page as it is now; of its dark look, in what can be read."""
        self._check_with_axe({})
        self.page.evaluate("document.documentElement.dataset.theme = 'dark'")
        self._check_with_axe({"runOnly": ["color-contrast"]})

    def check_narrow(self) -> None:
        """Fails where the page is wider than the screen."""
        wide, room = self.page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert wide <= room, f"{self.page.url} is {wide} wide, on a screen of {room}"

    def _check_with_axe(self, options: dict[str, Any]) -> None:
        found: list[dict[str, Any]] = Axe().run(self.page, options=options | VIOLATIONS).response["violations"]
        grave = [
            f"{one['id']}: {one['help']} at {', '.join(str(node['target'][0]) for node in one['nodes'][:3])}"
            for one in found
            if one["impact"] in GRAVE
        ]
        assert grave == [], f"{self.page.url}: {grave}"

    def _said(self, message: ConsoleMessage) -> None:
        provoked = any(f"status of {status}" in message.text for status in self.refused)
        if message.type in ("error", "warning") and not provoked:
            self._faults.append(f"{message.type}: {message.text}")

    def _asked(self, request: Request) -> None:
        if urlsplit(request.url).netloc != urlsplit(self.url).netloc:
            self._faults.append(f"asked for {request.url}")


@contextmanager
def viewing(
    browser: Browser,
    url: str,
    *,
    cookie: tuple[str, str] | None = None,
    theme: str = "light",
    size: ViewportSize = WIDE,
    zone: str = "UTC",
    script: bool = True,
) -> Iterator[Viewer]:
    """Somebody with a browser of his own, with the cookie of a session where one is given; checked at the end."""
    context = browser.new_context(
        color_scheme="dark" if theme == "dark" else "light",
        viewport=size,
        timezone_id=zone,
        locale="en-GB",
        java_script_enabled=script,
    )
    context.set_default_timeout(WAIT_MS)
    if cookie is not None:
        name, value = cookie
        context.add_cookies(
            [{"name": name, "value": value, "domain": "127.0.0.1", "path": "/ui", "sameSite": "Strict"}]
        )
    try:
        viewer = Viewer(url, context.new_page()).watch()
        yield viewer
        viewer.check()
    finally:
        context.close()


def _found() -> Path | None:
    if named := os.environ.get(NAMED):
        return Path(named)
    return next((Path(found) for name in NAMES if (found := shutil.which(name)) is not None), None)


def main() -> None:
    """``python -m tests.support.browser``: installs it before tests that run side by side want it."""
    if _found() is None:
        sys.stderr.write("The tests of the page need Chromium: installing Debian's package\n")
    try:
        program()
    except NoBrowser as missing:
        raise SystemExit(str(missing)) from None


if __name__ == "__main__":
    main()
