"""Signing in and out, and the files that every page needs."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Final

from stepd.http.call import Call
from stepd.http.handlers import Served
from stepd.service.base import Daemon, Reply
from stepd.ui.render import FOLDER
from stepd.ui.sessions import Throttle, set_cookie, sign_in, sign_out
from stepd.ui.web import SAFETY, SIGN_IN, Visit, foreign, form_of, html, inside, problem_page, see
from stepd_protocol.problems import Problem, make_problem

TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
throttle: Final = Throttle()


async def ask_key(served: Served, call: Call) -> Reply:
    """The form that asks for a key."""
    return html("sign_in.html", next=inside(dict(call.query).get("next", "/ui")), visitor=None)


async def take_key(served: Served, call: Call) -> Reply:
    """Signs in, and goes on to where one wanted."""
    if (fault := foreign(call)) is not None:
        return problem_page(fault, None)
    now = time.monotonic_ns() // 1_000_000
    if throttle.is_closed(now):
        return problem_page(make_problem("too_busy", "too many keys were wrong; try again in a minute"), None)
    form = form_of(call)
    place = inside(form.get("next", "/ui"))
    cookie = await sign_in(served.daemon, form.get("key", "").strip(), call.caller.remote)
    if cookie is None:
        throttle.failed(now)
        return html("sign_in.html", 401, next=place, visitor=None, failed=True)
    return see(place, ("Set-Cookie", set_cookie(cookie, secure=_is_secure(served.daemon, call))))


async def leave(visit: Visit) -> Reply:
    """Signs out."""
    await sign_out(visit.daemon, visit.call.header(b"cookie"))
    return see(SIGN_IN, ("Set-Cookie", set_cookie("", secure=_is_secure(visit.daemon, visit.call))))


async def static(served: Served, call: Call) -> Reply | Problem:
    """A file of the page's own."""
    found = _static().get(call.path[0])
    if found is None:
        return make_problem("not_found", f"there is nothing at {call.target[:120]}")
    type_, content = found
    return Reply(200, content, (("Content-Type", type_), ("Cache-Control", "no-cache"), *SAFETY))


def _is_secure(daemon: Daemon, call: Call) -> bool:
    return daemon.settings.tls_certificate is not None or call.header(b"x-forwarded-proto") == "https"


@cache
def _static() -> dict[str, tuple[str, bytes]]:
    files = [path for path in Path(FOLDER / "static").iterdir() if path.suffix in TYPES]
    return {path.name: (TYPES[path.suffix], path.read_bytes()) for path in files}
