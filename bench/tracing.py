"""What the export of traces costs: the same work with a collector to send to and without, turn about."""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median

from bench import measures
from bench.processes import daemon, sink

STEPS = 5
CONCURRENCY = 32


async def on_and_off(executions: int, rounds: int) -> tuple[float, float]:
    """Steps in a second with the export and without it, the median of the rounds of each."""
    on: list[float] = []
    off: list[float] = []
    with tempfile.TemporaryDirectory(prefix="stepd-bench-") as name, sink(Path(name)) as collector:
        for _ in range(rounds):
            for found, url in ((off, None), (on, collector.url)):
                with (
                    tempfile.TemporaryDirectory(prefix="stepd-bench-") as fresh,
                    daemon(Path(fresh), collector=url) as served,
                ):
                    await measures.drain(served, STEPS, CONCURRENCY, 50, Path(fresh))
                    found.append(STEPS * await measures.drain(served, STEPS, CONCURRENCY, executions, Path(fresh)))
        async with measures.session() as client, client.get(collector.url) as answer:
            assert int(await answer.text()) > 0, "no trace has come"
    return median(on), median(off)
