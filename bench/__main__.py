"""``python -m bench``: takes all figures in one run and writes ``bench/results/latest.md``."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from uuid import uuid4

from bench import measures
from bench.processes import daemon, floor

RESULTS = Path(__file__).parent / "results" / "latest.md"


def main() -> None:
    """Runs the benchmark; ``--quick`` takes a tenth of the executions, to see that it works."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, for a first look")
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the table goes")
    arguments = parser.parse_args()
    lines = asyncio.run(run(0.1 if arguments.quick else 1.0))
    text = "\n".join(lines) + "\n"
    arguments.output.write_text(text)
    print(text)


async def run(scale: float) -> list[str]:
    """All measurements, as lines of a Markdown page."""
    rows: list[tuple[str, str, str, str]] = []
    with tempfile.TemporaryDirectory(prefix="stepd-bench-") as name:
        folder = Path(name)
        with floor(folder) as bare, daemon(folder) as served:
            bare_rates = {}
            for concurrency in (8, 32):
                rate = await measures.requests_per_second(f"{bare.url}/complete", measures.COMPLETE, concurrency)
                bare_rates[concurrency] = rate
            found: list[tuple[float, float]] = []
            for steps, executions in ((1, 3000), (5, 1000)):
                for concurrency in (8, 32):
                    found = [
                        await measures.drain(served, steps, concurrency, int(executions * scale), folder)
                        for _ in range(3 if scale == 1.0 else 1)
                    ]
                    rate = median(one[1] for one in found)
                    floor_rate = bare_rates[concurrency]
                    what = f"executions of {steps} no-op step{'s' * (steps > 1)}, worker concurrency {concurrency}"
                    figure = f"{rate:,.0f} executions/s = {rate * steps:,.0f} steps/s"
                    rows.append((what, figure, f"{floor_rate:,.0f} requests/s", f"{rate * steps / floor_rate:.2f}"))
            starts = median(one[0] for one in found)
            rows.append(
                (
                    "starts, 32 at a time",
                    f"{starts:,.0f}/s",
                    f"{bare_rates[32]:,.0f} requests/s",
                    f"{starts / bare_rates[32]:.2f}",
                )
            )
            beats = await measures.heartbeats_per_second(served, 8)
            rows.append(
                (
                    "heartbeats, 8 at a time",
                    f"{beats:,.0f}/s",
                    f"{bare_rates[8]:,.0f} requests/s",
                    f"{beats / bare_rates[8]:.2f}",
                )
            )
            times = await measures.latencies(served, int(300 * scale) or 10, folder)
            p50, p99 = times[len(times) // 2] * 1000, times[int(len(times) * 0.99)] * 1000
            rows.append(("start to done, one at a time", f"p50 {p50:.1f} ms, p99 {p99:.1f} ms", "", ""))
            rows.append(("memory of the daemon after that", f"{served.memory_bytes() / 1e6:,.0f} MB", "", ""))
        rows.append(await _idle(folder, scale))
    return [*_head(), *(f"| {' | '.join(row)} |" for row in rows)]


def _beside(rate: float, floor_rate: float) -> tuple[str, str, str]:
    return f"{rate:,.0f}/s", f"{floor_rate:,.0f} requests/s", f"{rate / floor_rate:.2f}"


async def _idle(folder: Path, scale: float) -> tuple[str, str, str, str]:
    polls, seconds = int(2000 * scale), 20.0 * max(scale, 0.25)

    def claim(_number: int) -> dict[str, object]:
        return {"worker": "idle", "claim_id": str(uuid4()), "wait_seconds": 60, "serves": [{"workflow": "nothing"}]}

    with floor(folder) as bare:
        bare_cpu, bare_memory = await measures.idle(bare, "/wait", lambda _: {}, polls, seconds)
    with tempfile.TemporaryDirectory(prefix="stepd-bench-") as fresh, daemon(Path(fresh)) as served:
        cpu, memory = await measures.idle(served, "/v1/leases/claim", claim, polls, seconds)
    figure = f"{cpu * 100:.2f} % of a core, {memory / 1000:.1f} KB a poll"
    return f"{polls:,} idle long polls", figure, f"{bare_cpu * 100:.2f} %, {bare_memory / 1000:.1f} KB", ""


def _head() -> list[str]:
    now = datetime.now(UTC).strftime("%Y-%m-%d")
    return [
        "# Benchmark",
        "",
        f"Taken on {now} by `make bench`: {os.cpu_count()} cores, Python {platform.python_version()}, SQLite with full",
        "sync, one daemon and one worker process of the SDK. The floor is a bare route under the same HTTP server that",
        "decodes and encodes the same bytes, measured in the same run; other work on the machine moves both.",
        "",
        "| figure | stepd | floor | ratio |",
        "|---|---|---|---|",
    ]


if __name__ == "__main__":
    main()
