"""Owns the running of the program as a person or a script runs it: a process, with a pipe or a terminal."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping
from dataclasses import dataclass

from tests.support.daemon import STEPD, clean_environment

SECONDS = 60.0
_TERMINAL = frozenset({"NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"})
"""Variables that speak of the terminal of whoever runs the tests; they would win over the size of a test's own."""

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True, slots=True)
class Result:
    """How a run ended, and what it printed."""

    code: int
    out: str
    err: str = ""

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def plain(self) -> str:
        """What was printed, without the terminal's own control sequences."""
        return _CONTROL.sub("", self.out)

    def expect(self, code: int) -> "Result":
        """Itself, after checking the exit code."""
        assert self.code == code, f"ended with {self.code}, not {code}:\n{self.out}\n{self.err}"
        return self


@dataclass(frozen=True, slots=True)
class Program:
    """`stepd`, with the daemon's address in its environment."""

    url: str
    key: str | None = None

    def __call__(self, *arguments: str, input: str = "", env: Mapping[str, str] | None = None) -> Result:
        """Runs it to its end, its output into pipes."""
        done = subprocess.run(
            [STEPD, *arguments],
            input=input.encode(),
            capture_output=True,
            env=self.environment(env),
            timeout=SECONDS,
            check=False,
        )
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    def launch(self, *arguments: str) -> "subprocess.Popen[str]":
        """Starts it, its output into a pipe, and doesn't wait."""
        return subprocess.Popen(
            [STEPD, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment({"PYTHONUNBUFFERED": "1"}),
        )

    def on_terminal(self, *arguments: str, columns: int = 120, rows: int = 40, until: str | None = None) -> Result:
        """Runs it to its end on a terminal of its own, or until it has shown something and is interrupted."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        env = self.environment({"TERM": "xterm-256color"})
        process = subprocess.Popen([STEPD, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=env)
        os.close(theirs)
        try:
            seen = b"" if until is None else _read_until(ours, until, process)
            seen += _read_to_end(ours)
            return Result(process.wait(SECONDS), seen.decode(errors="replace").replace("\r\n", "\n"))
        finally:
            process.kill()
            process.wait()
            os.close(ours)

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        own = {name: text for name, text in clean_environment().items() if name not in _TERMINAL}
        key = {} if self.key is None else {"STEPD_KEY": self.key}
        return own | {"STEPD_URL": self.url, "PYTHONUTF8": "1"} | key | dict(more or {})


def _read_until(terminal: int, text: str, process: "subprocess.Popen[bytes]") -> bytes:
    """What comes until the text has; then the program is interrupted, as by Ctrl-C."""
    deadline, seen = time.monotonic() + SECONDS, b""
    while text.encode() not in seen:
        assert time.monotonic() < deadline, f"never shown: {text!r}; so far: {seen[-2000:]!r}"
        if select.select([terminal], [], [], 0.5)[0]:
            seen += os.read(terminal, 65536)
    process.send_signal(signal.SIGINT)
    return seen


def _read_to_end(terminal: int) -> bytes:
    """All that comes until the last process has left the terminal."""
    deadline, seen = time.monotonic() + SECONDS, b""
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 0.5)[0]:
            continue
        try:
            part = os.read(terminal, 65536)
        except OSError:  # how Linux says that the other side is closed
            return seen
        if not part:
            return seen
        seen += part
    raise AssertionError(f"the program still runs after {SECONDS} s; so far: {seen[-2000:]!r}")
