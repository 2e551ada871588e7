"""What items and rounds cost: a fan-out of very many that do nothing, and rounds beside as many steps."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

from bench.measures import post, seconds_of, session
from bench.processes import Served, worker
from bench.worker import workflow

FAN_OUT = "fan-out"
PAGE = 200
WAIT_SECONDS = 240


class FanOut(NamedTuple):
    """One fan-out. ``slowdown``: the time that the last thousand items took, over that of the first."""

    items_per_second: float
    slowdown: float


async def fan_out(served: Served, items: int, concurrency: int, folder: Path) -> FanOut:
    """One execution over so many items, done by one worker; by the journal's times, from the first end to the last.

    The tenth part of the items stands for a thousand where there are not ten thousand.
    """
    async with session() as client:
        await _register(client, served.url, FAN_OUT)
        with worker(served.url, FAN_OUT, concurrency, folder):
            execution = await _run(client, served.url, FAN_OUT, list(range(items)))
        ends = await _ends(client, served.url, execution)
    assert len(ends) == items, f"{len(ends)} of {items} items ended"
    part = items // 10
    first, last = ends[part] - ends[0], ends[-1] - ends[-1 - part]
    return FanOut((items - 1) / (ends[-1] - ends[0]), last / first)


async def rounds_per_second(served: Served, rounds: int, folder: Path) -> tuple[float, float]:
    """So many rounds of one step, and half as many steps one after the other: each in a second."""
    async with session() as client:
        found = []
        for name, count in (("rounds", rounds), (f"noop-{rounds // 2}", rounds // 2)):
            await _register(client, served.url, name)
            with worker(served.url, name, 8, folder):
                execution = await _run(client, served.url, name, rounds - 1)
            ends = await _ends(client, served.url, execution)
            found.append((count - 1) / (ends[count - 1] - ends[0]))
            assert all(one <= other for one, other in pairwise(ends))
    return found[0], found[1]


async def _register(client: aiohttp.ClientSession, url: str, name: str) -> None:
    async with client.put(f"{url}/v1/workflows/{name}", json=workflow(name).definition()) as answer:
        assert answer.status in (200, 201), await answer.text()


async def _run(client: aiohttp.ClientSession, url: str, name: str, input_: Any) -> str:
    """Starts an execution and waits for its end; answers its id."""
    execution = str((await post(client, f"{url}/v1/executions", {"workflow": name, "input": input_}))["id"])
    deadline, status = time.monotonic() + WAIT_SECONDS, "started"
    while time.monotonic() < deadline:
        async with client.get(f"{url}/v1/executions/{execution}?wait_seconds=30") as answer:
            status = (await answer.json())["status"]
        if status == "completed":
            return execution
    raise SystemExit(f"execution {execution} of {name} is still {status} after {WAIT_SECONDS} s")


async def _ends(client: aiohttp.ClientSession, url: str, execution: str) -> list[float]:
    """When the items, rounds or steps ended, in order."""
    ends: list[float] = []
    after: int | None = 0
    while after is not None:
        async with client.get(f"{url}/v1/executions/{execution}/events?after={after}&limit={PAGE}") as answer:
            page = await answer.json()
        ends += [
            seconds_of(event["at"])
            for event in page["items"]
            if event["type"] == "step.succeeded" and event["attempt"] is not None
        ]
        after = page["next"]
    return ends
