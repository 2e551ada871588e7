"""The table of a benchmark: its lines, what stands above them, and the file that it is written to."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple


class Row(NamedTuple):
    """One line of the table."""

    what: str
    figure: str
    floor: str = ""
    ratio: str = ""


def publish(output: Path, title: str, command: str, setting: str, rows: Sequence[Row]) -> None:
    """Writes the table to a file and prints it; ``setting`` goes on from the machine that the figures were taken on."""
    now = datetime.now(UTC).strftime("%Y-%m-%d")
    lines = [
        f"# {title}",
        "",
        f"Taken on {now} by `{command}`: {os.cpu_count()} cores, Python {platform.python_version()}, {setting}",
        "",
        "| figure | stepd | floor | ratio |",
        "|---|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
    output.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def latency_row(times: list[float]) -> Row:
    """How long executions took that ran one at a time; sorted, in seconds."""
    return Row("start to done, one at a time", spread(times))


def spread(times: list[float]) -> str:
    """The middle and the slow end of times that are sorted, in seconds."""
    return f"p50 {times[len(times) // 2] * 1000:.1f} ms, p99 {times[int(len(times) * 0.99)] * 1000:.1f} ms"
