"""Owns what figures are made of: a registry that knows what it declares, and label values that can't grow in number."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final, Literal

from msgspec import Struct
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

# When a counter began is of no use here, and would double the number of lines.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the library gives it no types

OTHER: Final = "other"


class Declared(Struct, frozen=True):
    """One figure, for the page that lists them."""

    name: str
    """As it is scraped; of a histogram without its suffixes."""
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    about: str


class Figures:
    """A registry of its own, with what the process itself uses."""

    def __init__(self) -> None:
        self.declared: list[Declared] = []
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)

    def counter(self, name: str, about: str, *labels: str) -> Counter:
        """Declares one that only grows; ``name`` ends in ``_total``."""
        self.declared.append(Declared(name, "counter", labels, about))
        return Counter(name, about, labels, registry=self._registry)

    def gauge(self, name: str, about: str, *labels: str) -> Gauge:
        """Declares one that may fall."""
        self.declared.append(Declared(name, "gauge", labels, about))
        return Gauge(name, about, labels, registry=self._registry)

    def histogram(self, name: str, about: str, *labels: str, buckets: Iterable[float]) -> "Histogram":
        """Declares one that counts by size."""
        self.declared.append(Declared(name, "histogram", labels, about))
        made = Histogram(name, about, labels, tuple(buckets))
        self._registry.register(made)
        return made

    def written(self) -> bytes:
        """All figures in Prometheus' text format."""
        return generate_latest(self._registry)


class Sizes:
    """How many values were how large. Only for the event loop's thread: that makes it cost a tenth of the library's."""

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Counts one."""
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value


class Histogram(Collector):
    """Sizes by label; without labels it is ``labels()``."""

    def __init__(self, name: str, about: str, labels: Sequence[str], bounds: Sequence[float]) -> None:
        self._name, self._about, self._labels, self._bounds = name, about, labels, bounds
        self._children: dict[tuple[str, ...], Sizes] = {}
        if not labels:
            self.labels()

    def labels(self, *values: str) -> Sizes:
        """What is counted under these values, one for each label."""
        child = self._children.get(values)
        if child is None:
            child = self._children[values] = Sizes(self._bounds)
        return child

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """As the registry wants it."""
        family = HistogramMetricFamily(self._name, self._about, labels=self._labels)
        ends = [floatToGoString(bound) for bound in (*self._bounds, float("inf"))]  # type: ignore[no-untyped-call]  # the library gives it no types
        for values, child in self._children.items():
            family.add_metric(values, list(zip(ends, accumulate(child.counts), strict=True)), child.total)
        yield family


class Bounded:
    """The values of a label: the first so many that come, each for good, and ``other`` for all the rest."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._admitted: dict[str, None] = {}
        self._overflown = False

    def admit(self, value: str) -> str:
        """The value itself where it is among the first ones."""
        if value in self._admitted:
            return value
        if len(self._admitted) < self._limit and value != OTHER:
            self._admitted[value] = None
            return value
        self._overflown = True
        return OTHER

    def values(self) -> list[str]:
        """All that were given out so far."""
        return [*self._admitted, *([OTHER] if self._overflown else [])]
