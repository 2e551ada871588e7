"""Owns how the client's calls are made: the same bytes again while no answer comes, and what refusals become."""

import asyncio
import time
import uuid
import weakref
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final, Self, TypeAlias
from urllib.parse import quote, urlencode

import msgspec

from stepd_worker import sse
from stepd_worker.both_worlds import LoopThread
from stepd_worker.errors import StepdError, Unreachable
from stepd_worker.retry import Backoff, is_no_answer
from stepd_worker.transport import READ_SECONDS, Endpoint, NoAnswer, Transport, api_error

Json: TypeAlias = dict[str, Any]
"""An answer of the daemon as it came."""
Strings: TypeAlias = Sequence[str]

RETRY_SECONDS: Final = 30.0
"""How long a call is sent again while no answer comes, unless the client is told otherwise."""


class Calls:
    """Calls to one daemon, and their connections."""

    def __init__(self, url: str | None = None, key: str | None = None, *, retry_seconds: float = RETRY_SECONDS) -> None:
        self.endpoint = Endpoint(url, key)
        self.loop_thread = LoopThread()
        self.retry_seconds = retry_seconds
        self._transport = Transport(self.endpoint)
        # A script that never closes its client ends quietly all the same.
        weakref.finalize(self, self.loop_thread.stop, self._transport.close)

    # --- Its own end

    def close(self) -> None:
        """Closes the connections of the blocking calls. Later calls open new ones."""
        self.loop_thread.stop(self._transport.close)

    async def aclose(self) -> None:
        """Closes the running loop's connections."""
        await self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    # --- How a call is made

    async def _tell(self, path: str, body: Json, idempotency_key: str | None) -> Json:
        return await self._ask("POST", path, body, headers={"Idempotency-Key": idempotency_key or str(uuid.uuid4())})

    async def _ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        read_seconds: float = READ_SECONDS,
        once: bool = False,
    ) -> Json:
        """Sends a call, the same bytes again while no answer comes, and returns what the daemon said.

        `once`: the call can't be told from another one like it, so that it isn't sent again after it got no answer.
        """
        answer = await self._ask_for_bytes(
            method, path, body, query=query, headers=headers, read_seconds=read_seconds, once=once
        )
        return msgspec.json.decode(answer, type=Json) if answer else {}

    async def _ask_for_bytes(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        read_seconds: float = READ_SECONDS,
        once: bool = False,
    ) -> bytes:
        """The same for an answer that is no JSON."""
        content = None if body is None else msgspec.json.encode(body)
        target = path + query_text(query or {})
        patience = Patience(self.retry_seconds)
        while True:
            retry_after = None
            try:
                answer = await self._transport.send(method, target, content, headers=headers, read_seconds=read_seconds)
            except NoAnswer as fault:
                trouble: StepdError = Unreachable(str(fault))
                if once:
                    raise trouble from None
            else:
                if 200 <= answer.status < 300:
                    return answer.body
                trouble, retry_after = api_error(answer), answer.retry_after
                if not is_no_answer(answer.status):
                    raise trouble
            await patience.wait(trouble, retry_after)


class Patience:
    """How long one call goes on being sent."""

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self._backoff = Backoff()

    async def wait(self, trouble: StepdError, retry_after: str | None = None) -> None:
        """Waits before the next send; raises `trouble` where that would be past the deadline."""
        delay = self._backoff.delay_seconds(retry_after)
        if time.monotonic() + delay > self._deadline:
            raise trouble
        await asyncio.sleep(delay)


async def decoded_events(content: Any) -> AsyncGenerator[Json, None]:
    """The events of a stream."""
    async for event in sse.read_events(content):
        yield msgspec.json.decode(event.data)


def only_given(fields: Mapping[str, Any]) -> Json:
    """The fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def query_text(query: Mapping[str, Any]) -> str:
    """A query as it stands behind the path; empty for none."""
    given = {name: str(value).lower() if isinstance(value, bool) else value for name, value in query.items()}
    text = urlencode(only_given(given), doseq=True)
    return f"?{text}" if text else ""


def execution_path(execution_id: str, rest: str = "") -> str:
    """The path of an execution, or of what hangs below it."""
    return f"/v1/executions/{quote(execution_id, safe='')}{rest}"


def workflow_path(workflow: str, rest: str = "") -> str:
    """The path of a workflow, or of what hangs below it."""
    return f"/v1/workflows/{quote(workflow, safe='')}{rest}"
