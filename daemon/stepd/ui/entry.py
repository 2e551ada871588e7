"""Signing in and out, and the files that every page needs."""

from __future__ import annotations

import asyncio
from functools import cache
from hashlib import sha256
from math import ceil
from pathlib import Path
from typing import Final

from stepd.http.call import Call
from stepd.http.handlers import Served
from stepd.service.base import Daemon, Reply
from stepd.ui.render import FOLDER
from stepd.ui.sessions import set_cookie, sign_in, sign_out
from stepd.ui.throttle import Throttle
from stepd.ui.web import SAFETY, SIGN_IN, Visit, foreign, form_of, html, inside, problem_page, see
from stepd_protocol.problems import Problem, make_problem

TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
throttle: Final = Throttle()


async def ask_key(served: Served, call: Call) -> Reply:
    """The form that asks for a key; open mode needs none."""
    if call.caller.may("admin"):
        return see("/ui")
    return html("sign_in.html", next=inside(dict(call.query).get("next", "/ui")), visitor=None)


async def take_key(served: Served, call: Call) -> Reply:
    """Signs in, and goes on to where one wanted."""
    if (fault := foreign(call)) is not None:
        return problem_page(fault, None)
    now, remote = asyncio.get_running_loop().time(), call.caller.remote
    if (seconds := throttle.wait_seconds(remote, now)) > 0:
        detail = f"too many keys from your network were wrong; try again in {ceil(seconds)} s"
        return problem_page(make_problem("too_busy", detail), None, ("Retry-After", str(ceil(seconds))))
    form = form_of(call)
    place = inside(form.get("next", "/ui"))
    cookie = await sign_in(served.daemon, form.get("key", "").strip(), remote)
    if cookie is None:
        throttle.failed(remote, now)
        return html("sign_in.html", 401, next=place, visitor=None, failed=True)
    return see(place, ("Set-Cookie", set_cookie(served.daemon, cookie, secure=_is_secure(served.daemon, call))))


async def front(visit: Visit) -> Reply:
    """The page's front, under its other name."""
    return see("/ui")


async def leave(visit: Visit) -> Reply:
    """Signs out."""
    await sign_out(visit.daemon, visit.call.header(b"cookie"))
    return see(SIGN_IN, ("Set-Cookie", set_cookie(visit.daemon, "", secure=_is_secure(visit.daemon, visit.call))))


async def static(served: Served, call: Call) -> Reply | Problem:
    """A file of the page's own."""
    found = _static().get(call.path[0])
    if found is None:
        return make_problem("not_found", f"there is nothing at {call.target[:120]}")
    type_, tag, content = found
    headers = (("Content-Type", type_), ("Cache-Control", "no-cache"), ("ETag", tag), *SAFETY)
    if call.header(b"if-none-match") == tag:
        return Reply(304, b"", headers)
    return Reply(200, content, headers)


def _is_secure(daemon: Daemon, call: Call) -> bool:
    forwarded = call.header(b"x-forwarded-proto") == "https" or (call.header(b"origin") or "").startswith("https:")
    return daemon.settings.tls_certificate is not None or forwarded


@cache
def _static() -> dict[str, tuple[str, str, bytes]]:
    files = {path: path.read_bytes() for path in Path(FOLDER / "static").iterdir() if path.suffix in TYPES}
    return {path.name: (TYPES[path.suffix], _tag(content), content) for path, content in files.items()}


def _tag(content: bytes) -> str:
    return f'"{sha256(content).hexdigest()[:16]}"'
