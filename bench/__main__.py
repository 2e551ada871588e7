"""``python -m bench``: takes all figures in one run and writes ``bench/results/latest.md``."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple
from uuid import uuid4

from bench import items, measures, page, standing, tracing
from bench.fill import fill
from bench.processes import Served, daemon, floor
from bench.table import Row, latency_row, publish, spread

RESULTS = Path(__file__).parent / "results" / "latest.md"
SETTING = """SQLite with full
sync, one daemon and one worker process of the SDK. The floor is a bare route under the same HTTP server that
decodes and encodes the same bytes, measured right before and after each figure; other work moves both."""


class Plan(NamedTuple):
    """How much is done: a whole run, or a quick look."""

    scale: float
    rounds: int
    ended: int
    soak_minutes: float


def main() -> None:
    """Runs the benchmark; ``--quick`` takes a fifth of the executions, to see that it works."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fifth of the work, for a first look")
    parser.add_argument(
        "--ended", type=int, default=300_000, help="ended executions for the comparison; 0 leaves it out"
    )
    parser.add_argument("--soak-minutes", type=float, default=0, help="minutes of load in which memory is watched")
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the table goes")
    arguments = parser.parse_args()
    quick = arguments.quick
    plan = Plan(
        0.1 if quick else 1.0, 1 if quick else 3, arguments.ended // (10 if quick else 1), arguments.soak_minutes
    )
    publish(
        arguments.output,
        "Benchmark",
        "python -m bench --quick" if quick else "make bench",
        SETTING,
        asyncio.run(run(plan)),
    )


async def run(plan: Plan) -> list[Row]:
    """All measurements, in the order of the table."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="stepd-bench-") as name:
        folder = Path(name)
        with floor(folder) as bare, daemon(folder) as served:
            for steps, executions in ((1, 3000), (5, 1000)):
                for concurrency in (8, 32):
                    rows.append(await _throughput(bare, served, steps, concurrency, int(executions * plan.scale), plan))
            rows.append(await _starts(bare, served, plan))
            rows.append(await _heartbeats(bare, served))
            rows.append(await _latency(served, folder, plan))
            rows.append(await _fan_out(bare, served, folder, plan))
            rows.append(await _rounds(served, folder, plan))
            rows.append(Row("memory of the daemon after that", f"{served.memory_bytes() / 1e6:,.0f} MB"))
            if plan.soak_minutes:
                rows.append(await _soak(served, folder, plan))
        rows.append(await _idle(folder, plan))
    rows.append(await _traced(plan))
    rows += await _standing(plan)
    if plan.ended:
        rows.append(await _with_ended(plan))
    return rows + await _page(plan)


async def _throughput(bare: Served, served: Served, steps: int, concurrency: int, count: int, plan: Plan) -> Row:
    with tempfile.TemporaryDirectory(prefix="stepd-bench-") as name:
        found = [
            await _beside(bare, concurrency, lambda: measures.drain(served, steps, concurrency, count, Path(name)))
            for _ in range(plan.rounds)
        ]
    rate, floor_rate = median(one for one, _ in found), median(one for _, one in found)
    ratio = median(one * steps / beside for one, beside in found)
    what = f"executions of {steps} no-op step{'s' * (steps > 1)}, worker concurrency {concurrency}"
    figure = f"{rate:,.0f} executions/s = {rate * steps:,.0f} steps/s"
    return Row(what, figure, f"{floor_rate:,.0f} requests/s", f"{ratio:.2f}")


async def _beside(bare: Served, concurrency: int, measure: Callable[[], Awaitable[float]]) -> tuple[float, float]:
    """A measurement, and the floor as the mean of right before and right after it."""
    url = f"{bare.url}/complete"
    before = await measures.requests_per_second(url, measures.COMPLETE, concurrency, 1.5)
    found = await measure()
    after = await measures.requests_per_second(url, measures.COMPLETE, concurrency, 1.5)
    return found, (before + after) / 2


async def _starts(bare: Served, served: Served, plan: Plan) -> Row:
    count = int(3000 * plan.scale)
    rate, floor_rate = await _beside(bare, 32, lambda: measures.starts_per_second(served, count))
    return Row("starts, 32 at a time", f"{rate:,.0f}/s", f"{floor_rate:,.0f} requests/s", f"{rate / floor_rate:.2f}")


async def _heartbeats(bare: Served, served: Served) -> Row:
    rate, floor_rate = await _beside(bare, 8, lambda: measures.heartbeats_per_second(served, 8))
    return Row("heartbeats, 8 at a time", f"{rate:,.0f}/s", f"{floor_rate:,.0f} requests/s", f"{rate / floor_rate:.2f}")


async def _latency(served: Served, folder: Path, plan: Plan) -> Row:
    times = await measures.latencies(served, max(30, int(300 * plan.scale)), folder)
    return latency_row(times)


async def _fan_out(bare: Served, served: Served, folder: Path, plan: Plan) -> Row:
    count = int(10_000 * plan.scale)
    found: list[items.FanOut] = []

    async def once() -> float:
        found.append(await items.fan_out(served, count, 32, folder))
        return found[-1].items_per_second

    rate, floor_rate = await _beside(bare, 32, once)
    figure = f"{rate:,.0f} items/s; the last tenth took {found[-1].slowdown:.2f} times what the first took"
    return Row(
        f"one execution over {count:,} no-op items", figure, f"{floor_rate:,.0f} requests/s", f"{rate / floor_rate:.2f}"
    )


async def _rounds(served: Served, folder: Path, plan: Plan) -> Row:
    count = int(1000 * plan.scale)
    rounds, steps = await items.rounds_per_second(served, count, folder)
    what = f"{count:,} rounds of a no-op step (floor: {count // 2:,} steps one after the other)"
    return Row(what, f"{rounds:,.0f} rounds/s", f"{steps:,.0f} steps/s", f"{rounds / steps:.2f}")


async def _traced(plan: Plan) -> Row:
    on, off = await tracing.on_and_off(int(1000 * plan.scale), plan.rounds)
    what = f"tracing on against off: five steps, concurrency {tracing.CONCURRENCY}, exported by OTLP (floor: without)"
    return Row(what, f"{on:,.0f} steps/s", f"{off:,.0f} steps/s", f"{on / off:.2f}")


async def _soak(served: Served, folder: Path, plan: Plan) -> Row:
    found = await measures.memory_under_load(served, plan.soak_minutes, folder)
    told = " → ".join(f"{size / 1e6:,.0f}" for size in found)
    return Row(f"memory over {plan.soak_minutes:g} minutes of load, MB", told)


async def _idle(folder: Path, plan: Plan) -> Row:
    polls, seconds = int(2000 * plan.scale), 20.0 * max(plan.scale, 0.25)

    def claim(_number: int) -> dict[str, object]:
        return {"worker": "idle", "claim_id": str(uuid4()), "wait_seconds": 60, "serves": [{"workflow": "nothing"}]}

    with floor(folder) as bare:
        bare_cpu, bare_memory = await measures.idle(bare, "/wait", lambda _: {}, polls, seconds)
    with tempfile.TemporaryDirectory(prefix="stepd-bench-") as fresh, daemon(Path(fresh)) as served:
        cpu, memory = await measures.idle(served, "/v1/leases/claim", claim, polls, seconds)
    figure = f"{cpu * 100:.2f} % of a core, {memory / 1000:.1f} KB a poll"
    return Row(f"{polls:,} idle long polls", figure, f"{bare_cpu * 100:.2f} %, {bare_memory / 1000:.1f} KB")


async def _standing(plan: Plan) -> list[Row]:
    """Executions that sleep or wait, in a file of their own."""
    count, runs = int(10_000 * plan.scale), max(30, int(200 * plan.scale))
    with tempfile.TemporaryDirectory(prefix="stepd-bench-") as name, daemon(Path(name)) as served:
        stand = await standing.standing(served, count, runs, Path(name))
        up = await standing.woken(served, count)
    many = f"{count:,} sleeping and {count:,} waiting executions"
    return [
        Row(f"{many}, idle", f"{stand.cpu * 100:.2f} % of a core, {stand.bytes_each / 1000:.1f} KB each"),
        Row(f"start to done beside {many} (floor: without)", spread(stand.beside), spread(stand.quiet)),
        Row(f"an event to its own of {count:,} that wait for its name", spread(stand.events)),
        Row(f"{count:,} sleeps that end at once", f"all over in {up.over:.1f} s; claims meanwhile {spread(up.claims)}"),
    ]


async def _page(plan: Plan) -> list[Row]:
    """Loads of the page from a file with very many executions."""
    executions, wide = int(100_000 * max(plan.scale, 0.1)), int(10_000 * plan.scale)
    with tempfile.TemporaryDirectory(prefix="stepd-bench-") as name:
        found = await page.loads(Path(name), executions, wide, max(50, int(300 * plan.scale)))
    among = f"of {executions:,} executions"
    return [
        Row(f"the page: the list {among}, from its top", spread(found.first)),
        Row(f"the page: the list {among}, of one workflow and status", spread(found.filtered)),
        Row(f"the page: the list {among}, page after page", spread(found.deep)),
        Row(f"the page: one execution over {wide:,} items", spread(found.wide)),
    ]


async def _with_ended(plan: Plan) -> Row:
    """The same throughput on a file with a thousand ended executions, and with very many, turn about."""
    few: list[float] = []
    many: list[float] = []
    count = int(600 * plan.scale)
    with (
        tempfile.TemporaryDirectory(prefix="stepd-bench-") as one,
        tempfile.TemporaryDirectory(prefix="stepd-bench-") as two,
    ):
        for name in (one, two):
            with daemon(Path(name)) as served:
                await measures.drain(served, 5, 32, 200, Path(name))
        fill(Path(one) / "bench.db", 1_000)
        fill(Path(two) / "bench.db", plan.ended)
        for _ in range(plan.rounds):
            for name, found in ((one, few), (two, many)):
                with daemon(Path(name)) as served:
                    found.append(await measures.drain(served, 5, 32, count, Path(name)) * 5)
    what = f"five steps, concurrency 32, with {plan.ended:,} ended executions in the file (floor: with 1,000)"
    ratio = median(many) / median(few)
    return Row(what, f"{median(many):,.0f} steps/s", f"{median(few):,.0f} steps/s", f"{ratio:.2f}")


if __name__ == "__main__":
    main()
