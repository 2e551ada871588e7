"""What very many executions that sleep or wait cost the others, and how one of them is found and woken."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import aiohttp

from bench import measures
from bench.processes import Served

SLEEP = {"id": "nap", "kind": "sleep", "until": {"$cel": "input"}}
WAIT = {"id": "ask", "kind": "wait", "event": "go"}
AHEAD_SECONDS = 5.0
EVENTS = 200
CLAIM_PAUSE_SECONDS = 0.005


class Standing(NamedTuple):
    """Times in seconds, each list sorted."""

    quiet: list[float]
    """From a start to its completed view, while nothing else stands in the file."""
    beside: list[float]
    """The same beside all that sleep and wait."""
    cpu: float
    """Share of a core, while nothing happens."""
    bytes_each: float
    events: list[float]
    """From sending an event to its answer, when it resumed the one execution of its correlation."""


class Woken(NamedTuple):
    """Times in seconds, the list sorted."""

    over: float
    """From when the sleeps ended until the last of their executions was completed."""
    claims: list[float]
    """From sending a claim to the lease it got, meanwhile."""


async def standing(served: Served, count: int, runs: int, folder: Path) -> Standing:
    """``count`` executions that sleep for a day and as many that wait, and what they cost."""
    async with measures.session() as client:
        quiet = await measures.latencies(served, runs, folder)
        before = served.memory_bytes()
        tomorrow = _time(86_400)
        await _register(client, served.url, "naps", SLEEP)
        await _register(client, served.url, "asks", WAIT)
        await _start_many(client, served.url, [{"workflow": "naps", "input": tomorrow}] * count)
        marker = str(uuid4())
        await _start_many(
            client, served.url, [{"workflow": "asks", "correlation": f"{marker} {number}"} for number in range(count)]
        )
        bytes_each = (served.memory_bytes() - before) / (2 * count)
        cpu, began = served.cpu_seconds(), time.monotonic()
        await asyncio.sleep(AHEAD_SECONDS)
        share = (served.cpu_seconds() - cpu) / (time.monotonic() - began)
        beside = await measures.latencies(served, runs, folder)
        step = max(1, count // EVENTS)
        events = [await _event(client, served.url, f"{marker} {number}") for number in range(0, count, step)]
    return Standing(quiet, beside, share, bytes_each, sorted(events))


async def woken(served: Served, count: int) -> Woken:
    """``count`` sleeps that end at one time, with one claim after the other beside them."""
    async with measures.session() as client:
        await _register(client, served.url, "alarms", SLEEP)
        await measures.register(client, served.url, 1)
        await _start_many(client, served.url, [{"workflow": "noop-1", "input": measures.INPUT}] * max(200, count // 4))
        ends = datetime.now(UTC) + timedelta(seconds=AHEAD_SECONDS + count / 400)
        await _start_many(client, served.url, [{"workflow": "alarms", "input": ends.isoformat()}] * count)
        await asyncio.sleep(max(0.0, (ends - datetime.now(UTC)).total_seconds()))
        began, claims = time.monotonic(), list[float]()
        everybody_up = asyncio.create_task(_until_completed(client, served.url))
        while not everybody_up.done():
            claims.append(await _claim(client, served.url))
            await asyncio.sleep(CLAIM_PAUSE_SECONDS)
        await everybody_up
        return Woken(time.monotonic() - began, sorted(claims))


async def _register(client: aiohttp.ClientSession, url: str, name: str, step: dict[str, Any]) -> None:
    async with client.put(f"{url}/v1/workflows/{name}", json={"version": "1", "steps": [step]}) as answer:
        assert answer.status in (200, 201), await answer.text()


async def _start_many(client: aiohttp.ClientSession, url: str, bodies: list[dict[str, Any]]) -> None:
    left = iter(bodies)

    async def some() -> None:
        for body in left:
            await measures.post(client, f"{url}/v1/executions", body)

    await asyncio.gather(*(some() for _ in range(32)))


async def _event(client: aiohttp.ClientSession, url: str, correlation: str) -> float:
    began = time.perf_counter()
    answer = await measures.post(client, f"{url}/v1/events", {"name": "go", "correlation": correlation})
    assert answer == {"delivered": 1}, answer
    return time.perf_counter() - began


async def _claim(client: aiohttp.ClientSession, url: str) -> float:
    body = {"worker": "bench", "claim_id": str(uuid4()), "wait_seconds": 5, "serves": [{"workflow": "noop-1"}]}
    began = time.perf_counter()
    answer = await measures.post(client, f"{url}/v1/leases/claim", body)
    assert answer["leases"], "there were too few to claim"
    return time.perf_counter() - began


async def _until_completed(client: aiohttp.ClientSession, url: str) -> None:
    while True:
        async with client.get(f"{url}/v1/executions?workflow=alarms&status=queued&limit=1") as answer:
            if not (await answer.json())["items"]:
                return
        await asyncio.sleep(0.2)


def _time(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
