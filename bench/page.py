"""How fast the page is: its list with many executions in the store, and the page of one with many items."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from typing import NamedTuple

import aiohttp

from bench import items, measures
from bench.fill import fill
from bench.processes import Served, daemon

OLDER = re.compile(r'href="(/ui\?[^"]+)">Older<')
ID = re.compile(r"/ui/executions/([0-9a-f-]{36})")


class Loads(NamedTuple):
    """Times of page loads, sorted, in seconds."""

    first: list[float]
    """The list, from its top."""
    filtered: list[float]
    """The list of one workflow and status."""
    deep: list[float]
    """The list, page after page."""
    wide: list[float]
    """The page of an execution with many items."""


async def loads(folder: Path, executions: int, wide_items: int, runs: int) -> Loads:
    """Loads pages one after the other from a daemon on a file with so many ended executions."""
    with daemon(folder) as served:
        await measures.drain(served, 5, 32, 200, folder)
        await items.fan_out(served, wide_items, 32, folder)
    fill(folder / "bench.db", executions)
    with daemon(folder) as served:
        async with measures.session() as client:
            wide = await _wide(client, served)
            return Loads(
                first=sorted([await _load(client, served, "/ui") for _ in range(runs)]),
                filtered=sorted(
                    [await _load(client, served, "/ui?workflow=noop-5&status=completed") for _ in range(runs)]
                ),
                deep=sorted(await _pages(client, served, runs)),
                wide=sorted([await _load(client, served, wide) for _ in range(max(runs // 10, 5))]),
            )


async def _wide(client: aiohttp.ClientSession, served: Served) -> str:
    """The page of the execution with the most items."""
    async with client.get(f"{served.url}/ui?workflow={items.FAN_OUT}") as answer:
        found = ID.search(await answer.text())
    assert found is not None, "the execution with items is not in the list"
    return f"/ui/executions/{found[1]}"


async def _pages(client: aiohttp.ClientSession, served: Served, runs: int) -> list[float]:
    times: list[float] = []
    place = "/ui"
    while len(times) < runs:
        began = time.monotonic()
        async with client.get(f"{served.url}{place}") as answer:
            text = await answer.text()
        times.append(time.monotonic() - began)
        following = OLDER.search(text)
        place = "/ui" if following is None else following[1].replace("&amp;", "&")
        await asyncio.sleep(0)
    return times


async def _load(client: aiohttp.ClientSession, served: Served, place: str) -> float:
    began = time.monotonic()
    async with client.get(f"{served.url}{place}") as answer:
        await answer.read()
        assert answer.status == 200, await answer.text()
    return time.monotonic() - began
