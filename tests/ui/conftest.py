"""What tests of the page share: one daemon with keys and one Chromium a module, and somebody who looks."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest
from playwright.sync_api import Browser

from tests.support.browser import Viewer, chromium, viewing
from tests.support.client import Http
from tests.support.daemon import running
from tests.support.keys import Key, make_key
from tests.support.page import PageHttp

Look: TypeAlias = Callable[..., AbstractContextManager[Viewer]]


@dataclass(frozen=True)
class Scene:
    """A daemon with keys, and who administers it."""

    url: str
    secret: str
    admin: Http
    signed_in: PageHttp
    """The administrator's session."""

    def key(self, *scopes: str, **more: Any) -> Key:
        return make_key(self.admin, *scopes, **more)

    def session(self, *scopes: str, **more: Any) -> PageHttp:
        """The session of a new key."""
        return PageHttp(self.url).signed_in(self.key(*scopes, **more).secret)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    secret = secrets.token_urlsafe(32)
    file = tmp_path_factory.mktemp("ui") / "stepd.db"
    with running(file, env={"STEPD_ADMIN_KEYS": f"ops={secret}"}) as daemon:
        yield Scene(daemon.url, secret, Http(daemon.url, secret), PageHttp(daemon.url).signed_in(secret))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Ends with its module: it holds an event loop on the tests' thread."""
    with chromium() as browser:
        yield browser


@pytest.fixture
def look(scene: Scene, browser: Browser) -> Look:
    """Opens a browser that has the administrator's session, unless a cookie or None is given."""

    def open_(**how: Any) -> AbstractContextManager[Viewer]:
        return viewing(browser, scene.url, **{"cookie": scene.signed_in.cookie, **how})

    return open_
