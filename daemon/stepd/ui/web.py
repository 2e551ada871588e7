"""The edge of the page: lets visitors in, keeps foreign pages from sending forms, and dresses every answer."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl, quote, urlsplit

import msgspec
from msgspec import Struct

from stepd.http.call import Call
from stepd.http.door import lacks_scope
from stepd.http.handlers import Served
from stepd.http.problems import RETRY_SECONDS, Refusal
from stepd.http.routes import ROUTES
from stepd.http.table import Handler, Stream
from stepd.service.audit import note_refusal
from stepd.service.base import Caller, Daemon, Reply
from stepd.ui.render import HTML, render
from stepd.ui.sessions import Visitor, cookie_in, visitor
from stepd_protocol.problems import Problem, make_problem

SIGN_IN: Final = "/ui/sign-in"
FORM_FIELDS_MAX: Final = 1_000
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
SAFETY: Final = (
    ("Content-Security-Policy", POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
)
"""What a browser is told with every page."""
OPEN_CSRF: Final = secrets.token_urlsafe(32)
"""In open mode nobody has a session: forms bear this process's own token, and the door looks at their origin."""


class Visit(Struct, frozen=True):
    """One request for a page, by somebody who was let in."""

    daemon: Daemon
    call: Call
    visitor: Visitor
    form: Mapping[str, str]
    """What was sent with it; empty unless it was a form."""

    @property
    def caller(self) -> Caller:
        """Whose rights count."""
        return self.visitor.caller

    def page(self, template: str, status: int = 200, **values: Any) -> Reply:
        """A page of this template; each knows who looks at it."""
        return html(template, status, visitor=self.visitor, place=self.call.target.partition("?")[0], **values)


_OPERATIONS: Final = {route.name: route for route in ROUTES}

Answered: TypeAlias = Reply | Problem | Stream
View: TypeAlias = Callable[[Visit], Awaitable[Answered]]


def html(template: str, status: int = 200, **values: Any) -> Reply:
    """A page that is kept nowhere."""
    return Reply(status, render(template, **values), (("Content-Type", HTML), ("Cache-Control", "no-store"), *SAFETY))


def see(place: str, *headers: tuple[str, str]) -> Reply:
    """Sends the browser on, to a path of the page."""
    return Reply(303, b"", (("Location", place), ("Cache-Control", "no-store"), *SAFETY, *headers))


def opened(view: View, like: str | None = None) -> Handler:
    """The view for visitors only; everybody else is sent to sign in, and back.

    ``like``: the operation of the API that it stands for, whose scopes it asks for, and whose refusals it writes down.
    """
    call_for = None if like is None else _OPERATIONS[like]

    async def handle(served: Served, call: Call) -> Answered:
        who = await _who(served.daemon, call)
        if who is None:
            return _turned_away(served.daemon, call)
        form = form_of(call)
        if call.method == "POST" and (fault := foreign(call) or _without_token(form, who)) is not None:
            return problem_page(fault, who)
        if call_for is not None and (lacking := lacks_scope(who.caller, call_for)) is not None:
            if call_for.action is not None:
                target = call.path[0] if call.path else ""
                await note_refusal(served.daemon, who.caller, call_for.action, target, None, lacking.problem)
            return problem_page(lacking.problem, who)
        try:
            answer = await view(Visit(served.daemon, call, who, form))
        except Refusal as refusal:
            answer = refusal.problem
        return problem_page(answer, who) if isinstance(answer, Problem) else answer

    return handle


def problem_page(problem: Problem, who: Visitor | None, *headers: tuple[str, str]) -> Reply:
    """A problem as a page, with its own status."""
    page = html("problem.html", problem.status, problem=msgspec.to_builtins(problem), visitor=who, place="")
    return Reply(page.status, page.body, (*page.headers, *headers))


def refusal_page(refusal: Refusal) -> Reply:
    """What was refused before it reached a page, in the look of one."""
    headers = [(name.decode(), value.decode("latin-1")) for name, value in refusal.headers]
    if refusal.problem.status == 503 and not headers:
        headers = [("Retry-After", str(RETRY_SECONDS))]
    return problem_page(refusal.problem, None, *headers)


async def stays(visit: Visit) -> bool:
    """Whether the visitor, let in long ago perhaps, is one still. Raises StoreUnavailable."""
    return await _who(visit.daemon, visit.call) is not None


def form_of(call: Call) -> dict[str, str]:
    """The fields of a form; of a repeated one the last. A body that is no form has none."""
    try:
        text = call.body.decode()
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=FORM_FIELDS_MAX, errors="strict"))
    except ValueError:
        return {}


def foreign(call: Call) -> Problem | None:
    """What is wrong with a form that another site has sent, as far as the browser tells; None for one of ours."""
    site = call.header(b"sec-fetch-site")
    origin, host = call.header(b"origin"), call.header(b"host")
    if site is not None:
        is_ours = site in ("same-origin", "none")
    else:
        is_ours = origin is None or urlsplit(origin).netloc.lower() == (host or "").lower()
    return None if is_ours else make_problem("forbidden", "this form was sent by another site; open the page itself")


def inside(place: str) -> str:
    """The path of the page that somebody wanted; its front where it leads elsewhere."""
    parts = urlsplit(place)
    is_own = not parts.scheme and not parts.netloc and (parts.path == "/ui" or parts.path.startswith("/ui/"))
    return place if is_own and place.isprintable() and "\\" not in place else "/ui"


def _turned_away(daemon: Daemon, call: Call) -> Reply:
    """Who is no visitor gets to where one signs in; whose session has ended is told so."""
    is_look = call.method in ("GET", "HEAD")
    if cookie_in(daemon, call.header(b"cookie")) is not None:
        return html("sign_in.html", 401, next=call.target if is_look else "/ui", visitor=None, over=True)
    if is_look and call.header(b"sec-fetch-site") == "cross-site":
        # On the way from another site's link a browser leaves the cookie out: it shall come once more, from here.
        return html("again.html", target=call.target)
    return see(f"{SIGN_IN}?next={quote(call.target, safe='')}" if is_look else SIGN_IN)


async def _who(daemon: Daemon, call: Call) -> Visitor | None:
    """In open mode everybody on this machine, else whoever signed in."""
    if call.caller.may("admin"):
        return Visitor(call.caller, OPEN_CSRF, False)
    return await visitor(daemon, call.header(b"cookie"), call.caller.remote)


def _without_token(form: Mapping[str, str], who: Visitor) -> Problem | None:
    if secrets.compare_digest(form.get("csrf", "").encode(), who.csrf.encode()):
        return None
    return make_problem(
        "forbidden", "this form is not of this session any more; go back, reload the page, and try again"
    )
