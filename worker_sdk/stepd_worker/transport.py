"""Owns the HTTP of client and worker: a keep-alive session an event loop, answers as values, one exception for none."""

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import aiohttp
import msgspec
from yarl import URL

from stepd_worker.errors import ApiError
from stepd_worker.resolving import Resolver

DEFAULT_URL: Final = "http://127.0.0.1:7117"
READ_SECONDS: Final = 10.0
CONNECT_SECONDS: Final = 5.0
# Below the daemon's 75 s, so that it is never the daemon that closes a connection just as a call is sent on it.
KEEP_ALIVE_SECONDS: Final = 60.0
TRUST_IT: Final = "if it is meant to be, name its issuer's file in SSL_CERT_FILE"


class NoAnswer(Exception):
    """A call got no answer: refused, cut or timed out. Whether the daemon took it is not known."""


class Answer(NamedTuple):
    """What the daemon answered: HTTP status, body, and the Retry-After header where there was one."""

    status: int
    body: bytes
    retry_after: str | None = None


class Endpoint:
    """Where the daemon is, and the key to show it.

    `url` and `key` left out come from STEPD_URL and STEPD_KEY. Raises ValueError for a URL that is no http(s) address.
    """

    def __init__(self, url: str | None = None, key: str | None = None) -> None:
        self.url = (url or os.environ.get("STEPD_URL") or DEFAULT_URL).rstrip("/")
        self.key = key or os.environ.get("STEPD_KEY") or None
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"The daemon's address must look like {DEFAULT_URL}, not {self.url!r} (see STEPD_URL)")

    def headers(self) -> dict[str, str]:
        """The headers of every call."""
        headers = {"Content-Type": "application/json", "User-Agent": "stepd-worker"}
        if self.key is not None:
            headers["Authorization"] = f"Bearer {self.key}"
        return headers

    def __repr__(self) -> str:
        return f"Endpoint({self.url!r})"


class Transport:
    """Calls over keep-alive connections. May be used from several event loops: each has a session of its own."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, aiohttp.ClientSession] = WeakKeyDictionary()

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        read_seconds: float = READ_SECONDS,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Sends one call once. `path` begins with a slash and is already quoted. Raises NoAnswer."""
        try:
            response = await self._session().request(
                method,
                self._url(path),
                data=body,
                headers=headers,
                timeout=_timeout(read_seconds),
                allow_redirects=False,
            )
            # Reading it whole gives the connection back; whatever interrupts that closes it.
            return Answer(response.status, await response.read(), response.headers.get("Retry-After"))
        except (aiohttp.ClientError, TimeoutError, OSError) as fault:
            raise NoAnswer(self._explain(fault)) from fault

    @asynccontextmanager
    async def stream(
        self, path: str, *, headers: Mapping[str, str], read_seconds: float
    ) -> AsyncIterator[tuple[Answer, aiohttp.StreamReader | None]]:
        """Opens a GET whose body is read as it comes; no reader beside an answer that isn't 200. Raises NoAnswer."""
        timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_read=read_seconds)
        try:
            async with self._session().get(
                self._url(path), headers=headers, timeout=timeout, allow_redirects=False
            ) as response:
                retry_after = response.headers.get("Retry-After")
                if response.status == 200:
                    yield Answer(200, b"", retry_after), response.content
                else:
                    yield Answer(response.status, await response.read(), retry_after), None
        except (aiohttp.ClientError, TimeoutError, OSError) as fault:
            raise NoAnswer(self._explain(fault)) from fault

    async def close(self) -> None:
        """Closes the connections of the running loop."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()

    def _session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None or session.closed:
            session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_SECONDS, resolver=Resolver()),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=self.endpoint.headers(),
                auto_decompress=False,
                skip_auto_headers=("Accept", "Accept-Encoding"),
            )
            self._sessions[loop] = session
        return session

    def _url(self, path: str) -> URL:
        return URL(self.endpoint.url + path, encoded=True)

    def _explain(self, fault: Exception) -> str:
        if isinstance(fault, aiohttp.ClientConnectorCertificateError):
            why = getattr(fault.certificate_error, "verify_message", "") or fault.certificate_error
            return f"The certificate of {self.endpoint.url} is not trusted: {why} ({TRUST_IT})"
        if isinstance(fault, aiohttp.ClientConnectorError):
            error = fault.os_error
            if isinstance(error, ssl.SSLError):
                return f"No TLS with {self.endpoint.url}: {error.reason or error} (does the daemon speak TLS there?)"
            # A name that leads nowhere has numbers of its own.
            why = error.strerror if isinstance(error, socket.gaierror) else error.errno and os.strerror(error.errno)
            return f"Nothing answers at {self.endpoint.url}: {why or error}"
        text = str(fault) or type(fault).__name__
        return f"No answer from {self.endpoint.url}: {text}"


@lru_cache
def _timeout(read_seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=read_seconds, connect=CONNECT_SECONDS)


def problem_of(answer: Answer) -> dict[str, Any]:
    """The answer's problem as it came; one made of the status where something else, like a proxy, answered."""
    try:
        problem = msgspec.json.decode(answer.body)
    except msgspec.DecodeError:
        problem = None
    if isinstance(problem, dict) and "code" in problem:
        return {"status": answer.status, **problem}
    text = answer.body[:200].decode(errors="replace").strip()
    detail = f"The answer was no problem of a stepd daemon: {text!r}" if text else "The answer had no body"
    return {"status": answer.status, "code": "unknown", "detail": detail}


def api_error(answer: Answer) -> ApiError:
    """The exception for an answer that is no success."""
    return ApiError(problem_of(answer))
