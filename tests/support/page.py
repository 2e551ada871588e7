"""The page over plain HTTP, as a browser sends it: sign-in, the session's cookie, forms with their token."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from html import unescape
from http.cookies import SimpleCookie
from typing import Final
from urllib.parse import urlencode

from tests.support.client import Answer, Http

FORM: Final = "application/x-www-form-urlencoded"
TOKEN: Final = re.compile(r'name="csrf" value="([^"]+)"')


@dataclass(frozen=True)
class PageHttp:
    """A browser without its looks: one session, or none."""

    url: str
    cookie: tuple[str, str] | None = None

    @property
    def http(self) -> Http:
        """A client without a key: all it shows is what is sent with it."""
        return Http(self.url)

    def get(self, path: str, **headers: str) -> Answer:
        return self.http.send("GET", path, headers=self._headers(headers))

    def post(self, path: str, fields: Mapping[str, str], **headers: str) -> Answer:
        """Sends a form as it is; a header's name has `_` for `-`."""
        sent = {"Content-Type": FORM, **self._headers(headers)}
        return self.http.send("POST", path, raw=urlencode(fields).encode(), headers=sent)

    def submit(self, path: str, **fields: str) -> Answer:
        """Sends a form with the token that the page has for it."""
        return self.post(path, {"csrf": self.csrf(), **fields}, Origin=self.url)

    def csrf(self, path: str = "/ui") -> str:
        """The token of this session's forms."""
        found = TOKEN.search(self.get(path).text)
        assert found is not None, f"no token on {path}"
        return unescape(found[1])

    def sign_in(self, secret: str, **headers: str) -> Answer:
        return self.post("/ui/sign-in", {"key": secret, "next": "/ui"}, **headers)

    def signed_in(self, secret: str) -> PageHttp:
        """The same browser with a session of that key."""
        answer = self.sign_in(secret)
        assert answer.status == 303, str(answer)
        return replace(self, cookie=cookie_of(answer))

    def _headers(self, more: Mapping[str, str]) -> dict[str, str]:
        own = {} if self.cookie is None else {"Cookie": "=".join(self.cookie)}
        return own | {name.replace("_", "-"): value for name, value in more.items()}


def cookie_of(answer: Answer) -> tuple[str, str]:
    """Name and value of the one cookie that an answer sets."""
    ((name, morsel),) = SimpleCookie(answer.headers["set-cookie"]).items()
    return name, morsel.value
