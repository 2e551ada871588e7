"""The edge alone, for its tests: the real server and application on a real socket, in front of a handful of routes."""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from stepd.http.app import App
from stepd.http.body import Bounds
from stepd.http.call import Call
from stepd.http.door import Door
from stepd.http.phase import Phase
from stepd.http.server import log_unawaited, run_server
from stepd.http.sockets import Listening, listen
from stepd.http.table import Parameter, Route, Stream, Success
from stepd.service.base import Answer, Caller, Reply
from stepd.service.keyring import Keyring
from stepd.store.base import StoreUnavailable
from stepd.store.records import KeyRow
from stepd_protocol.problems import Problem, make_problem

T = TypeVar("T")
REQUEST_BYTES = 100_000
ARRIVAL_SECONDS = 0.5
QUERY = (Parameter(name="a", type=str, about="anything"),)
SHOWN = (Success(status=200, type=None, about="what came"),)


class KeyStore:
    """The one thing that the edge asks a store for: its keys."""

    def __init__(self, rows: list[KeyRow]) -> None:
        self.rows = rows

    async def keys(self) -> list[KeyRow]:
        return self.rows


class Edge:
    """A server on a thread of its own. What its handlers saw is kept for the tests."""

    def __init__(self, *keys: KeyRow) -> None:
        self.store: Any = KeyStore(list(keys))
        self.parked = 0
        self.left = 0
        self.streams_closed = 0
        self.given_back: list[str] = []
        self.refusals: list[tuple[str, str, tuple[str, ...]]] = []
        self.away = False
        self.listening: Listening = listen("127.0.0.1:0")
        self._answered: list[tuple[str, int]] = []
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="edge")
        self._phase: Phase
        self._keyring: Keyring
        self._door_opens: asyncio.Event

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listening.port}"

    def start(self) -> "Edge":
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def statuses(self, route: str) -> list[int]:
        """The statuses that a route has answered so far; 0 for an answer that nobody waited for."""
        return [status for name, status in self._answered if name == route]

    def tasks(self) -> int:
        """How many tasks the server has, the one that counts left out."""

        async def count() -> int:
            return len(asyncio.all_tasks()) - 1

        return self._ask(count())

    def refresh_keys(self) -> None:
        self._ask(self._keyring.refresh())

    def release(self) -> None:
        """Lets the calls of `/held` have their answer."""
        self._loop.call_soon_threadsafe(self._door_opens.set)

    def drain(self) -> None:
        self._loop.call_soon_threadsafe(self._phase.drain)

    def end(self, seconds: float) -> None:
        """Ends the server and waits until it is gone; connections that it gave up may still be there."""
        if not self._ended.is_set():
            self._loop.call_soon_threadsafe(self._phase.close)
        assert self._ended.wait(seconds), f"the server still runs {seconds} s after it was asked to end"

    def close(self, seconds: float = 10) -> None:
        """Ends the server and all that is left of it."""
        self.end(seconds)
        self._thread.join(10)
        assert not self._thread.is_alive(), "the server's loop still runs"

    def _ask(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: log_unawaited(context))
        self._phase = Phase()
        self._door_opens = asyncio.Event()
        self._keyring = Keyring(self.store)
        await self._keyring.refresh()
        app = App(
            self._routes(),
            None,
            door=Door(self._keyring, loopback=True),
            phase=self._phase,
            bounds=Bounds(REQUEST_BYTES, ARRIVAL_SECONDS),
            hooks=self,
        )
        self._ready.set()
        await run_server(app, self.listening, self._phase, None, None)
        self._ended.set()
        if left := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(left, timeout=5)

    def answered(self, route: str, status: int, seconds: float) -> None:
        assert seconds >= 0
        self._answered.append((route, status))

    async def undelivered(self, leases: tuple[str, ...]) -> None:
        self.given_back += leases

    async def before(self) -> None:
        if self.away:
            raise StoreUnavailable("the disk is full", 7)

    async def refused(self, caller: Caller, action: str, path: tuple[str, ...], problem: Problem) -> None:
        assert problem.status == 403
        self.refusals.append((caller.principal, action, path))

    def _routes(self) -> list[Route]:
        return [
            _route("GET", "/public", self._public, scopes=None),
            _route("GET", "/any", self._public, scopes=()),
            _route("GET", "/things/{id}", self._thing, scopes=("read", "execute"), parameters=QUERY),
            _route("GET", "/broken", self._broken, scopes=("read",)),
            _route("POST", "/echo", self._echo, scopes=("execute",), body=dict),
            _route("POST", "/echo/optional", self._echo, scopes=("execute",), body=dict, body_required=False),
            _route("POST", "/start", self._echo, scopes=("execute",), body=dict, new_work=True, action="start"),
            _route("POST", "/poll", self._poll, scopes=("worker",), body=dict),
            _route("POST", "/held", self._held, scopes=("worker",), body=dict),
            _route("POST", "/leases/{id}/beat", self._beat, scopes=("worker",), body=dict, for_holders=True),
            _route("GET", "/big", self._big, scopes=("read",)),
            _route("GET", "/stream", self._stream, scopes=("read",)),
            _route("GET", "/quiet", self._quiet, scopes=("read",)),
        ]

    async def _public(self, call: Call) -> Reply:
        return Reply(200, f'"{call.caller.principal}"'.encode())

    async def _thing(self, call: Call) -> Reply:
        return Reply(200, repr((call.path, call.query)).encode(), (("Content-Type", "text/plain"),))

    async def _broken(self, call: Call) -> Reply:
        raise RuntimeError("a secret of the inside")

    async def _big(self, call: Call) -> Reply:
        self.parked += 1
        return Reply(200, b'"' + b"x" * 8_000_000 + b'"')

    async def _echo(self, call: Call) -> Reply:
        return Reply(200, call.body)

    async def _poll(self, call: Call) -> Reply:
        """Waits until the client has left or the daemon drains."""
        self.parked += 1
        ends = [asyncio.create_task(call.gone.wait()), asyncio.create_task(self._phase.draining.wait())]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        self.parked -= 1
        self.left += call.gone.is_set()
        for end in ends:
            end.cancel()
        return Reply(200, b'{"leases":[]}')

    async def _held(self, call: Call) -> Reply:
        """Holds a lease back without looking at the client."""
        self.parked += 1
        await self._door_opens.wait()
        self.parked -= 1
        return Reply(200, b'{"leases":["l1"]}', leases=("l1",))

    async def _beat(self, call: Call) -> Answer:
        return Reply(200, b"{}") if call.path == ("mine",) else make_problem("not_found", "no such lease")

    async def _stream(self, call: Call) -> Stream:
        return Stream(self._ticks())

    async def _quiet(self, call: Call) -> Stream:
        return Stream(self._nothing())

    async def _nothing(self) -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    async def _ticks(self) -> AsyncIterator[bytes]:
        self.parked += 1
        try:
            yield b"id: 1\ndata: {}\n\n"
            await asyncio.Event().wait()
        finally:
            self.parked -= 1
            self.streams_closed += 1


def _route(method: str, path: str, handler: Any, **fields: Any) -> Route:
    name = path.strip("/").replace("/", "_")
    return Route(
        method=method,
        path=path,
        name=name,
        summary="",
        handler=lambda _, call: handler(call),
        part=None,
        successes=SHOWN,
        **fields,
    )
