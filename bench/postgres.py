"""``python -m bench.postgres``: the figures on PostgreSQL, with one and two daemons, beside bare single-row commits.

The server is a throw-away one that waits for the disk, unless ``--database`` names a database with stepd's schema.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from statistics import median
from typing import NamedTuple

import asyncpg

from bench import measures
from bench.processes import Served, daemon, worker
from bench.table import Row, latency_row, publish
from tests.support.postgres import Cluster, make_in, prepare

RESULTS = Path(__file__).parent / "results" / "postgres.md"
SETTING = """a PostgreSQL on
the same machine that waits for the disk, and worker processes of the SDK. The floor is bare: as many
connections as the worker's concurrency, each inserting one row a commit, right before and after each figure."""
FLOOR_SECONDS = 1.5
TABLE = "create table if not exists bench_floor (id bigint generated always as identity primary key, at bigint)"
COMMIT = "insert into bench_floor (at) values ($1)"


class Place(NamedTuple):
    """The database: for daemons, and for the floor, which needs a table of its own."""

    url: str
    owner_url: str


def main() -> None:
    """Runs the benchmark; ``--quick`` takes a fifth of the executions, to see that it works."""
    parser = argparse.ArgumentParser(prog="python -m bench.postgres", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fifth of the work, for a first look")
    parser.add_argument("--database", help="a database of one's own, named by a role that may make a table in it")
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the table goes")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        if arguments.database:
            place = Place(arguments.database, arguments.database)
        else:
            cluster = Cluster(durable=True)
            stack.callback(cluster.close)
            prepare(cluster)
            made = make_in(cluster, "stepd_bench")
            place = Place(made.daemon_url, made.url)
        rows = asyncio.run(run(place, scale=0.2 if arguments.quick else 1.0, rounds=1 if arguments.quick else 3))
    command = "python -m bench.postgres --quick" if arguments.quick else "make bench"
    publish(arguments.output, "Benchmark on PostgreSQL", command, SETTING, rows)


async def run(place: Place, scale: float, rounds: int) -> list[Row]:
    """All measurements, in the order of the table."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="stepd-bench-") as name:
        folder = Path(name)
        for concurrency in (1, 8, 32):
            rate = await commits_per_second(place, concurrency)
            rows.append(Row(f"bare single-row commits, {concurrency} at a time", f"{rate:,.0f} commits/s"))
        with daemon(folder, place.url) as first:
            for steps, count in ((1, 2000), (5, 600)):
                for concurrency in (8, 32):
                    drain = _drain(first, steps, concurrency, int(count * scale), folder)
                    rows.append(await _throughput(place, "one daemon", steps, concurrency, drain, rounds))
            rate, floor = await _beside(place, 32, lambda: measures.starts_per_second(first, int(2000 * scale)))
            rows.append(Row("starts, 32 at a time", f"{rate:,.0f}/s", _commits(floor), f"{rate / floor:.2f}"))
            rate, floor = await _beside(place, 8, lambda: measures.heartbeats_per_second(first, 8))
            rows.append(Row("heartbeats, 8 at a time", f"{rate:,.0f}/s", _commits(floor), f"{rate / floor:.2f}"))
            times = await measures.latencies(first, max(30, int(200 * scale)), folder)
            rows.append(latency_row(times))
            with daemon(folder, place.url) as second:

                async def both() -> float:
                    with worker(second.url, "noop-5", 16, folder):
                        return await measures.drain(first, 5, 16, int(600 * scale), folder)

                rows.append(await _throughput(place, "two daemons, a worker each", 5, 32, both, rounds))
    return rows


async def commits_per_second(place: Place, concurrency: int) -> float:
    """Single-row inserts, each a commit of its own, on as many connections as are at work at a time."""
    done = 0
    async with AsyncExitStack() as stack:
        connections = [await asyncpg.connect(place.owner_url) for _ in range(concurrency)]
        for connection in connections:
            stack.push_async_callback(connection.close)
        await connections[0].execute(TABLE)
        began = time.monotonic()

        async def one(connection: asyncpg.Connection[asyncpg.Record]) -> None:
            nonlocal done
            statement = await connection.prepare(COMMIT)
            while time.monotonic() < began + FLOOR_SECONDS:
                await statement.fetch(1)
                done += 1

        await asyncio.gather(*map(one, connections))
        return done / (time.monotonic() - began)


def _drain(served: Served, steps: int, concurrency: int, count: int, folder: Path) -> Callable[[], Awaitable[float]]:
    return lambda: measures.drain(served, steps, concurrency, count, folder)


async def _throughput(
    place: Place, who: str, steps: int, concurrency: int, measure: Callable[[], Awaitable[float]], rounds: int
) -> Row:
    found = [await _beside(place, concurrency, measure) for _ in range(rounds)]
    rate, floor = median(one for one, _ in found), median(one for _, one in found)
    what = f"executions of {steps} no-op step{'s' * (steps > 1)}, worker concurrency {concurrency}, {who}"
    figure = f"{rate:,.0f} executions/s = {rate * steps:,.0f} steps/s"
    return Row(what, figure, _commits(floor), f"{rate * steps / floor:.2f}")


async def _beside(place: Place, concurrency: int, measure: Callable[[], Awaitable[float]]) -> tuple[float, float]:
    """A measurement, and the floor as the mean of right before and right after it."""
    before = await commits_per_second(place, concurrency)
    found = await measure()
    after = await commits_per_second(place, concurrency)
    return found, (before + after) / 2


def _commits(rate: float) -> str:
    return f"{rate:,.0f} commits/s"


if __name__ == "__main__":
    main()
