"""What a daemon says of itself in /metrics, and what its operating system says of its process."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.client import Http

LINE = re.compile(r"(?P<name>\w+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Line:
    """One figure."""

    name: str
    labels: dict[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Figures:
    """All of /metrics at one moment."""

    all: tuple[Line, ...]

    def lines(self, name: str) -> Iterator[Line]:
        return (line for line in self.all if line.name == name)

    def value(self, name: str, **labels: str) -> float:
        """The sum over the figures of this name and these labels; there must be one at least."""
        found = [line.value for line in self.lines(name) if labels.items() <= line.labels.items()]
        assert found, f"no figure {name} {labels}"
        return sum(found)


def figures(http: Http) -> Figures:
    return read_figures(http.get("/metrics").text)


def read_figures(text: str) -> Figures:
    """What stands in Prometheus' text format."""
    return Figures(tuple(_line(line) for line in text.splitlines() if line and not line.startswith("#")))


def _line(text: str) -> Line:
    match = LINE.fullmatch(text)
    assert match is not None, f"no figure: {text!r}"
    return Line(match["name"], dict(LABEL.findall(match["labels"] or "")), float(match["value"]))


def resident_bytes(pid: int) -> int:
    """The memory that a process has in use, as the operating system counts it."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS:"))


def open_sockets(pid: int) -> int:
    """How many sockets a process has open."""
    return sum(_target(link).startswith("socket:") for link in Path(f"/proc/{pid}/fd").iterdir())


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except FileNotFoundError:  # closed meanwhile
        return ""
