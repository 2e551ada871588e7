"""A daemon as a process of its own: started on a free port and a file, waited for, stopped, killed."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.client import Http
from tests.support.wait import moment

START_SECONDS = 30.0
STEPD = Path(sys.executable).with_name("stepd")


class Daemon:
    """One `stepd serve` at a time on a fixed port and database; it can be started again after it ended.

    The database is the SQLite file, unless the URL of another one is given; its log stands beside the file in any case.
    A file that isn't there yet gets its schema by a copy: bringing that up costs as much as all the rest of a start.
    """

    def __init__(
        self,
        file: Path,
        *flags: str,
        env: Mapping[str, str] | None = None,
        port: int | None = None,
        database: str | None = None,
    ) -> None:
        self.file = file
        self.database = database or f"sqlite:///{file}"
        self.port = port or free_port()
        self.flags = flags
        self.env = dict(env or {})
        self.log = file.with_name(f"{file.name}.{self.port}.log")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self._running().pid

    def command(self) -> Sequence[str]:
        return (
            str(STEPD),
            "serve",
            "--bind",
            f"127.0.0.1:{self.port}",
            "--database",
            self.database,
            *self.flags,
        )

    def start(self) -> "Daemon":
        """Starts the process and returns once /readyz is 200; fails with its log when it ends or takes too long."""
        self.launch()
        deadline = time.monotonic() + START_SECONDS
        while not self.is_ready():
            assert self._running().poll() is None, f"the daemon ended:\n{self.output()}"
            assert time.monotonic() < deadline, f"no /readyz within {START_SECONDS} s:\n{self.output()}"
            moment(0.02)
        return self

    def launch(self) -> "Daemon":
        """Starts the process and doesn't wait for anything."""
        if self._process is None and self.database == f"sqlite:///{self.file}" and not self.file.exists():
            self.file.write_bytes(_empty_database())
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=clean_environment() | _roles() | self.env,
            )
        return self

    def signal(self, number: signal.Signals) -> None:
        self._running().send_signal(number)

    def kill(self) -> None:
        """Ends the process as a power cut would."""
        process = self._running()
        process.kill()
        process.wait(10)

    def stop(self, seconds: float = 30) -> int:
        """Asks the process to stop; its exit status."""
        self.signal(signal.SIGTERM)
        return self.ended(seconds)

    def ended(self, seconds: float) -> int:
        """The exit status of the process, which must end by itself within `seconds`."""
        try:
            return self._running().wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the daemon still runs after {seconds} s:\n{self.output()}") from None

    def has_ended(self) -> bool:
        return self._running().poll() is not None

    def close(self) -> None:
        """Makes sure that no process is left, whatever the test did."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait(10)

    def output(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def is_ready(self) -> bool:
        try:
            return Http(self.url).send("GET", "/readyz", timeout=2).status == 200
        except OSError:
            return False

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the daemon was never started"
        return self._process


@cache
def _empty_database() -> bytes:
    """A file as `stepd migrate` makes it, with the newest schema and nothing in it."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "empty.db"
        command = (STEPD, "migrate", "--database", f"sqlite:///{file}")
        subprocess.run(command, check=True, capture_output=True, env=clean_environment(), timeout=START_SECONDS)
        return file.read_bytes()


@contextmanager
def running(
    file: Path, *flags: str, env: Mapping[str, str] | None = None, database: str | None = None
) -> Iterator[Daemon]:
    """A daemon that serves, for the length of a `with` block."""
    daemon = Daemon(file, *flags, env=env, database=database)
    try:
        yield daemon.start()
    finally:
        daemon.close()


def free_port() -> int:
    """A port of the loopback interface that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _roles() -> dict[str, str]:
    """On a server of one's own, daemons serve as its only role."""
    return {"STEPD_ALLOW_OWNER_ROLE": "true"} if os.environ.get("STEPD_TEST_POSTGRES") else {}


def clean_environment() -> dict[str, str]:
    """The environment without settings of stepd, so that a test's daemon has what the test gives it only."""
    return {name: value for name, value in os.environ.items() if not name.startswith("STEPD_")}
