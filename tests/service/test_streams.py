"""Streams of events: where they begin, what they send, and when they end."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from stepd.service.base import Reply
from stepd.service.streams import open_stream
from stepd_protocol.problems import Problem
from tests.service.conftest import ME, Service
from tests.service.waiting import until


async def opened(service: Service, id_: str, last: str | None = None, **query: str) -> AsyncIterator[bytes]:
    stream = await open_stream(service.daemon, ME, id_, list(query.items()), last)
    assert isinstance(stream, AsyncIterator)
    return stream


def events_in(chunks: list[bytes]) -> list[Any]:
    """The events of a stream, after checking each against its id."""
    found = []
    for block in b"".join(chunks).decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if lines:
            event = json.loads(lines["data"])
            assert str(event["seq"]) == lines["id"]
            found.append(event)
    return found


async def test_a_stream_follows_to_the_end_and_closes(service: Service) -> None:
    lease = await service.lease()
    chunks: list[bytes] = []

    async def follow() -> None:
        async for chunk in await opened(service, lease["execution"]["id"]):
            chunks.append(chunk)

    task = asyncio.create_task(follow())
    await until(lambda: len(chunks) >= 2)
    assert chunks[0].startswith(b":")
    await service.complete(lease, output="line\nbreak")
    await asyncio.wait_for(task, 2)
    events = events_in(chunks)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[-1]["type"] == "execution.completed"


async def test_a_stream_goes_on_after_the_last_event_seen(service: Service) -> None:
    lease = await service.lease()
    await service.complete(lease)
    id_ = lease["execution"]["id"]
    whole = events_in([chunk async for chunk in await opened(service, id_)])
    assert events_in([chunk async for chunk in await opened(service, id_, after="2")]) == whole[2:]
    assert events_in([chunk async for chunk in await opened(service, id_, "3", after="1")]) == whole[3:]
    last = str(whole[-1]["seq"])
    assert await open_stream(service.daemon, ME, id_, [], last) == Reply(204, b"")
    assert await open_stream(service.daemon, ME, id_, [("after", last)], None) == Reply(204, b"")


@pytest.mark.parametrize("last", ["x", "-1", "", "1.0", "999", "9" * 40])
async def test_a_last_event_id_that_is_no_event_is_400(service: Service, last: str) -> None:
    lease = await service.lease()
    answer = await open_stream(service.daemon, ME, lease["execution"]["id"], [("after", "1")], last)
    assert isinstance(answer, Problem)
    assert (answer.status, answer.code) == (400, "invalid_last_event_id")


async def test_an_unknown_execution_has_no_stream(service: Service) -> None:
    answer = await open_stream(service.daemon, ME, "nobody", [], None)
    assert isinstance(answer, Problem)
    assert answer.code == "not_found"


@pytest.mark.parametrize("end", ["stop", "revoke"])
async def test_a_stream_ends_with_the_daemon_and_with_its_key(service: Service, end: str) -> None:
    lease = await service.lease()
    stream = await opened(service, lease["execution"]["id"])

    async def follow() -> int:
        return len([chunk async for chunk in stream])

    task = asyncio.create_task(follow())
    await until(lambda: len(service.daemon.watch))
    if end == "stop":
        service.daemon.watch.stop()
    else:
        service.daemon.watch.drop(lambda caller: caller.principal == "me")
    assert await asyncio.wait_for(task, 2) >= 1
