"""Starts the processes that are measured, waits until they serve, and reads what they cost."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
START_SECONDS = 20.0


class Served:
    """A server process and its URL."""

    def __init__(self, process: subprocess.Popen[bytes], url: str) -> None:
        self.process = process
        self.url = url

    def cpu_seconds(self) -> float:
        """CPU time used so far, user and system."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory_bytes(self) -> int:
        """Resident memory now."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * PAGE


def free_port() -> int:
    """A port of the loopback interface that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def daemon(folder: Path, database: str | None = None, collector: str | None = None) -> Iterator[Served]:
    """A stepd daemon on a fresh SQLite file in ``folder``, with full sync as always, or on the database of that URL.

    ``collector``: where it sends its traces; nowhere unless given, whatever the environment says.
    """
    port = free_port()
    program = str(Path(sys.executable).with_name("stepd"))
    place = database or f"sqlite:///{folder / 'bench.db'}"
    arguments = [program, "serve", "--bind", f"127.0.0.1:{port}", "--database", place]
    env = os.environ | {"OTEL_TRACES_EXPORTER": "none" if collector is None else "otlp"}
    env |= {} if collector is None else {"OTEL_EXPORTER_OTLP_ENDPOINT": collector}
    with _running(arguments, f"http://127.0.0.1:{port}", "/readyz", folder / f"daemon-{port}.log", env) as served:
        yield served


@contextmanager
def sink(folder: Path) -> Iterator[Served]:
    """Where traces can be sent: takes whatever comes, and looks at nothing of it."""
    port = free_port()
    with _running(
        [sys.executable, "-m", "bench.sink", str(port)], f"http://127.0.0.1:{port}", "/", folder / "sink.log"
    ) as it:
        yield it


@contextmanager
def floor(folder: Path) -> Iterator[Served]:
    """The bare server: one route that decodes and encodes a complete, under the same HTTP server and settings."""
    port = free_port()
    arguments = [sys.executable, "-m", "bench.floor", str(port)]
    with _running(arguments, f"http://127.0.0.1:{port}", "/", folder / "floor.log") as served:
        yield served


@contextmanager
def worker(url: str, workflow: str, concurrency: int, folder: Path) -> Iterator[None]:
    """One worker process of the SDK that serves one of the benchmark's workflows."""
    arguments = [sys.executable, "-m", "bench.worker", url, workflow, str(concurrency)]
    with (folder / "worker.log").open("ab") as log:
        process = subprocess.Popen(arguments, stdout=log, stderr=log)
    try:
        yield
    finally:
        _stop(process)


@contextmanager
def _running(
    arguments: Sequence[str], url: str, ready: str, log_path: Path, env: Mapping[str, str] | None = None
) -> Iterator[Served]:
    with log_path.open("ab") as log:
        process = subprocess.Popen(arguments, stdout=log, stderr=log, env=env)
    try:
        _wait_until_ready(process, url + ready, log_path)
        yield Served(process, url)
    finally:
        _stop(process)


def _wait_until_ready(process: subprocess.Popen[bytes], url: str, log_path: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SystemExit(
                f"{process.args!r} ended with {process.returncode}; see {log_path}:\n{log_path.read_text()}"
            )
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    raise SystemExit(f"{url} did not answer within {START_SECONDS} s; see {log_path}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
