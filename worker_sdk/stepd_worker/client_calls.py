"""Owns what the client's calls share: their paths and queries, and how long one goes on being sent."""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode

import msgspec

from stepd_worker import sse
from stepd_worker.errors import StepdError
from stepd_worker.retry import Backoff

Json: TypeAlias = dict[str, Any]
"""An answer of the daemon as it came."""


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
