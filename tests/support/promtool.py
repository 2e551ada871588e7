"""promtool, which judges what is meant for Prometheus."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from typing import Final

from tests.support import debian

NAMED: Final = "STEPD_TEST_PROMTOOL"
"""Names the program, where it is not on the path."""


@cache
def program() -> Path | None:
    """The program: that of the machine, else of Debian's package; None where there is none."""
    return debian.program("prometheus", "usr/bin/promtool", named=NAMED)


def judge(*arguments: str, text: str = "") -> str:
    """What it says; fails where it does not say that all is well."""
    command = program()
    assert command is not None
    done = subprocess.run([command, *arguments], input=text, capture_output=True, text=True, timeout=60)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said
