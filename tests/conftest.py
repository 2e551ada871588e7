"""What holds for every test: its report can be told from one process to another, whatever it logged."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest


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
