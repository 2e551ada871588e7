"""What holds for every test: SIGINT reaches what it starts, and its report can be sent between processes."""

from __future__ import annotations

import signal
from collections.abc import Generator
from typing import Any

import pytest


def pytest_configure() -> None:
    """A shell that starts the tests in the background lets them ignore SIGINT, and what they start inherits that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A lone surrogate in what was captured (some tests log one) could not be sent to the process that prints it."""
    report = yield
    report.sections = [(name, _sendable(text)) for name, text in report.sections]
    if isinstance(report.longrepr, str):
        report.longrepr = _sendable(report.longrepr)
    return report


def _sendable(text: Any) -> str:
    return str(text).encode("utf-8", "backslashreplace").decode()
