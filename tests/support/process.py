"""A program beside a test, started from the project's root and gone when the test is over."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.daemon import clean_environment

ROOT = Path(__file__).resolve().parents[2]
STOP_SECONDS = 20.0


@contextmanager
def running_program(*command: str, **environment: str) -> Iterator["subprocess.Popen[str]"]:
    """The program with what it says, errors too, in one pipe; it is stopped at the end of the `with` block."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=clean_environment() | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=STOP_SECONDS)
        finally:
            process.kill()
            process.wait()
