"""Owns the path of a request: route, door, body, handler, answer; every way out of it is a whole answer or none."""

import logging
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Protocol

from stepd.http.answering import Writer
from stepd.http.asgi import ClientGone, Receive, Scope, Send
from stepd.http.body import Bounds, check_body, check_form, discard_body, is_announced, may_have_body, read_body
from stepd.http.call import Call
from stepd.http.connections import has_client_left
from stepd.http.departure import Departure
from stepd.http.door import Door, lacks_scope
from stepd.http.phase import Phase
from stepd.http.problems import Refusal, invalid_request, stopping, unavailable
from stepd.http.router import Router
from stepd.http.table import Route, Stream
from stepd.service.base import Answer, Caller, Reply
from stepd.store.base import StoreUnavailable
from stepd_protocol.problems import Problem, make_problem

_log = logging.getLogger(__name__)


class Hooks(Protocol):
    """What the application asks and tells those around it."""

    async def before(self) -> None:
        """Awaited before a call reaches the service: holds it back while the daemon is out of step with its store.

        Raises StoreUnavailable.
        """

    async def refused(self, caller: Caller, action: str, path: tuple[str, ...], problem: Problem) -> None:
        """A change was refused for want of a scope. Raises StoreUnavailable."""

    async def undelivered(self, leases: tuple[str, ...]) -> None:
        """The answer that handed these leases over reached nobody."""

    def answered(self, route: str, status: int, seconds: float) -> None:
        """`route` is the operation's name, `none` where no route was found; status 0: the client left without one."""


class App:
    """The ASGI application. `served` is what the handlers serve from.

    `refusal_page`: how a refusal looks to who asked for a page; None where there are none.
    """

    def __init__(
        self,
        routes: Iterable[Route],
        served: object,
        *,
        door: Door,
        phase: Phase,
        bounds: Bounds,
        hooks: Hooks,
        refusal_page: Callable[[Refusal], Reply] | None = None,
    ) -> None:
        self._router = Router(routes)
        self._served = served
        self._door = door
        self._phase = phase
        self._bounds = bounds
        self._hooks = hooks
        self._refusal_page = refusal_page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._answer(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close"})
        else:
            # The daemon is opened and closed by main: the server's own lifespan events come too late for that.
            await _acknowledge(receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = perf_counter()
        request = _Request(scope, receive)
        writer = Writer(send)
        try:
            answer = await self._reach(request)
            await self._deliver(answer, request, writer)
        except Refusal as refusal:
            await self._refuse(refusal, request, writer)
        except StoreUnavailable as fault:
            await self._refuse(unavailable("the store is away; nothing was done", fault.retry_seconds), request, writer)
        except ClientGone:
            pass
        except Exception:  # noqa: BLE001 — whatever failed, the client gets a whole answer and the daemon goes on
            _log.exception("%s failed", request.name)
            await self._refuse(_failed(), request, writer)
        finally:
            self._hooks.answered(request.name, writer.status, perf_counter() - began)

    async def _reach(self, request: "_Request") -> "Answer | Stream":
        """The service's answer. Raises Refusal, StoreUnavailable, ClientGone."""
        scope = request.scope
        request.route, path = self._router.find(scope["method"], scope["raw_path"])
        route = request.route
        caller = self._door.admit(scope, route)
        lacking = lacks_scope(caller, route)
        if lacking is not None and not route.for_holders:
            if route.action is not None:
                await self._hooks.refused(caller, route.action, path, lacking.problem)
            raise lacking
        body = await self._body(request, route)
        if route.scopes is not None or route.is_page:
            await self._may_go_on(scope, route, caller)
        answer = await route.handler(self._served, Call(scope, caller, path, body, request.gone))
        if lacking is not None and isinstance(answer, Problem) and answer.status == 404:
            raise lacking
        return answer

    async def _may_go_on(self, scope: Scope, route: Route, caller: Caller) -> None:
        """Raises Refusal, StoreUnavailable."""
        if route.new_work and self._phase.draining.is_set():
            raise stopping()
        if scope["query_string"] and not route.takes_query:
            raise invalid_request("", "this path takes no query parameters")
        await self._hooks.before()
        if route.scopes is not None:
            self._door.confirm(caller)

    async def _body(self, request: "_Request", route: Route) -> bytes:
        receive, scope = request.receive, request.scope
        if route.body is None:
            if may_have_body(scope):
                request.body_read = await discard_body(receive, self._phase)
            return b""
        body = await read_body(scope["headers"], receive, self._phase, self._bounds)
        request.body_read = True
        if not (body or route.body_required or is_announced(scope["headers"])):
            return b"{}"
        if route.is_page:
            check_form(scope["headers"])
        elif not route.body_media_types:
            check_body(scope["headers"], body)
        return body

    async def _deliver(self, answer: "Answer | Stream", request: "_Request", writer: Writer) -> None:
        writer.closing = self._closes(request)
        match answer:
            case Problem():
                await writer.problem(answer)
            case Stream(chunks):
                await writer.stream(chunks, request.gone, self._phase.draining)
            case Reply():
                await writer.reply_head(answer)
                if answer.leases and (request.gone.check() or has_client_left()):
                    await self._hooks.undelivered(answer.leases)
                await writer.last(answer.body)

    async def _refuse(self, refusal: Refusal, request: "_Request", writer: Writer) -> None:
        if writer.status:
            return
        too_slow = refusal.problem.code == "request_timeout"
        if not request.body_read and not too_slow and may_have_body(request.scope):
            request.body_read = await discard_body(request.receive, self._phase)
        writer.closing = self._closes(request)
        if self._refusal_page is not None and _is_of_page(request.scope):
            await writer.reply(self._refusal_page(refusal))
        else:
            await writer.problem(refusal.problem, *refusal.headers)

    def _closes(self, request: "_Request") -> bool:
        """Whether the connection ends with this answer, and it has to be said: HTTP/2 has other words for that."""
        if request.scope["http_version"] == "2":
            return False
        return self._phase.draining.is_set() or not (request.body_read or not may_have_body(request.scope))


class _Request:
    """One request on its way, as far as it is known."""

    __slots__ = ("body_read", "gone", "receive", "route", "scope")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self.receive = receive
        self.gone = Departure(receive)
        self.route: Route | None = None
        self.body_read = False

    @property
    def name(self) -> str:
        return "none" if self.route is None else self.route.name


def _is_of_page(scope: Scope) -> bool:
    path: bytes = scope["raw_path"]
    return path == b"/ui" or path.startswith(b"/ui/")


def _failed() -> Refusal:
    return Refusal(make_problem("internal_error", "the daemon failed on this request; its log says where"))


async def _acknowledge(receive: Receive, send: Send) -> None:
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return
