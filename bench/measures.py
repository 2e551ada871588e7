"""The measurements themselves; each answers plain numbers."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import msgspec

from bench.processes import Served, worker
from bench.worker import workflow

INPUT = {"order": 1, "pad": "x" * 250}
COMPLETE = msgspec.json.encode({"fence": 1, "output": {"ok": True, "pad": "y" * 250}, "state": {}})
START = msgspec.json.encode({"workflow": "noop-1", "input": INPUT})
WAIT_SECONDS = 60


def session() -> aiohttp.ClientSession:
    """A client without a limit of connections."""
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))


async def requests_per_second(url: str, body: bytes, concurrency: int, seconds: float = 3.0) -> float:
    """POSTs of the same body, ``concurrency`` at a time, answered with 200 in a second."""
    done = 0
    until = time.monotonic() + seconds

    async def one(client: aiohttp.ClientSession) -> None:
        nonlocal done
        while time.monotonic() < until:
            async with client.post(url, data=body, headers={"content-type": "application/json"}) as answer:
                await answer.read()
                assert answer.status == 200, await answer.text()
            done += 1

    async with session() as client:
        began = time.monotonic()
        await asyncio.gather(*(one(client) for _ in range(concurrency)))
        return done / (time.monotonic() - began)


async def drain(served: Served, steps: int, concurrency: int, executions: int, folder: Path) -> float:
    """Starts executions of sequential no-op steps, then lets one worker do them: executions in a second.

    Counted from the first lease to the last end, by the daemon's own times.
    """
    async with session() as client:
        await register(client, served.url, steps)
        marker = str(uuid4())
        body = msgspec.json.encode({"workflow": f"noop-{steps}", "input": INPUT, "correlation": marker})
        ids = await _start(client, served.url, body, executions)
        with worker(served.url, f"noop-{steps}", concurrency, folder):
            for execution in ids[-50:]:
                await view(client, served.url, execution)
            rows = await _all_ended(client, served.url, marker, executions)
    first = min(seconds_of(row["started_at"]) for row in rows)
    last = max(seconds_of(row["ended_at"]) for row in rows)
    return executions / (last - first)


async def starts_per_second(served: Served, executions: int) -> float:
    """Starts with an idempotency key, 32 at a time, each durable before its answer, of a workflow nobody serves."""
    body = msgspec.json.encode({"workflow": "noop-2", "input": INPUT})
    async with session() as client:
        await register(client, served.url, 2)
        began = time.monotonic()
        await _start(client, served.url, body, executions)
        return executions / (time.monotonic() - began)


async def memory_under_load(served: Served, minutes: float, folder: Path) -> list[int]:
    """Resident bytes of the daemon, ten times over the given minutes of executions that come and go."""
    found = [served.memory_bytes()]
    began = time.monotonic()
    while (passed := time.monotonic() - began) < minutes * 60:
        await drain(served, 5, 32, 200, folder)
        if passed >= len(found) * minutes * 6:
            found.append(served.memory_bytes())
    return [*found, served.memory_bytes()]


async def latencies(served: Served, count: int, folder: Path) -> list[float]:
    """Seconds from sending the start to reading the completed view, one execution of one step at a time, sorted."""
    found = []
    async with session() as client:
        await register(client, served.url, 1)
        with worker(served.url, "noop-1", 8, folder):
            for number in range(count + 20):
                began = time.perf_counter()
                execution = (await _start(client, served.url, START, 1))[0]
                status = (await view(client, served.url, execution))["status"]
                assert status == "completed", status
                if number >= 20:
                    found.append(time.perf_counter() - began)
    return sorted(found)


async def heartbeats_per_second(served: Served, concurrency: int) -> float:
    """Heartbeats of one lease that stays alive, answered in a second."""
    async with session() as client:
        await register(client, served.url, 1)
        await _start(client, served.url, START, 1)
        claim = {"worker": "bench", "claim_id": str(uuid4()), "wait_seconds": 5, "serves": [{"workflow": "noop-1"}]}
        lease = (await post(client, f"{served.url}/v1/leases/claim", claim))["leases"][0]
        beat = msgspec.json.encode({"fence": lease["fence"]})
        rate = await requests_per_second(f"{served.url}/v1/leases/{lease['id']}/heartbeat", beat, concurrency)
        await post(client, f"{served.url}/v1/leases/{lease['id']}/complete", {"fence": lease["fence"], "output": None})
    return rate


async def idle(served: Served, path: str, body: Any, polls: int, seconds: float) -> tuple[float, float]:
    """What parked long polls cost: ``(share of a core, bytes a poll)``. ``body(n)`` makes the n-th request's body."""
    before = served.memory_bytes()
    parked = [await _park(served.url, path, msgspec.json.encode(body(number))) for number in range(polls)]
    await asyncio.sleep(3.0)
    memory = (served.memory_bytes() - before) / polls
    cpu, began = served.cpu_seconds(), time.monotonic()
    await asyncio.sleep(seconds)
    share = (served.cpu_seconds() - cpu) / (time.monotonic() - began)
    for writer in parked:
        writer.close()
    return share, memory


async def _park(url: str, path: str, body: bytes) -> asyncio.StreamWriter:
    host, port = url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    await writer.drain()
    return writer


async def register(client: aiohttp.ClientSession, url: str, steps: int) -> None:
    """Registers the benchmark's workflow."""
    async with client.put(f"{url}/v1/workflows/noop-{steps}", json=workflow(f"noop-{steps}").definition()) as answer:
        assert answer.status in (200, 201), await answer.text()


async def view(client: aiohttp.ClientSession, url: str, execution: str) -> dict[str, Any]:
    """The execution's view once it has ended."""
    async with client.get(f"{url}/v1/executions/{execution}?wait_seconds=30") as answer:
        assert answer.status == 200, await answer.text()
        found: dict[str, Any] = await answer.json()
        return found


async def post(client: aiohttp.ClientSession, url: str, body: Any) -> dict[str, Any]:
    """Posts JSON and answers JSON; fails on anything but 2xx."""
    async with client.post(url, json=body) as answer:
        assert answer.status < 300, await answer.text()
        found: dict[str, Any] = await answer.json()
        return found


async def _start(client: aiohttp.ClientSession, url: str, body: bytes, count: int) -> list[str]:
    numbers = iter(range(count))
    ids: list[str] = []

    async def some() -> None:
        for _ in numbers:
            headers = {"content-type": "application/json", "idempotency-key": str(uuid4())}
            async with client.post(f"{url}/v1/executions", data=body, headers=headers) as answer:
                assert answer.status == 202, await answer.text()
                ids.append((await answer.json())["id"])

    await asyncio.gather(*(some() for _ in range(min(32, count))))
    return ids


async def _all_ended(client: aiohttp.ClientSession, url: str, marker: str, expected: int) -> list[dict[str, Any]]:
    deadline = time.monotonic() + WAIT_SECONDS
    rows: list[dict[str, Any]] = []
    while time.monotonic() < deadline:
        rows = await _list(client, f"{url}/v1/executions?limit=200&status=completed&correlation={marker}")
        if len(rows) == expected:
            return rows
        await asyncio.sleep(0.5)
    raise SystemExit(f"only {len(rows)} of {expected} executions ended within {WAIT_SECONDS} s")


async def _list(client: aiohttp.ClientSession, url: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    page: str | None = url
    base = url.split("?")[0]
    while page is not None:
        async with client.get(page) as answer:
            assert answer.status == 200, await answer.text()
            found = await answer.json()
        rows += found["items"]
        page = f"{base}?limit=200&cursor={found['next']}" if found["next"] else None
    return rows


def seconds_of(text: str) -> float:
    """A time as seconds since the epoch."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
