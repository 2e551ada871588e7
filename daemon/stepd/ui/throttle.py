"""Owns how often somebody may try keys: a few wrong ones a minute from one network, each at the same small cost."""

from __future__ import annotations

from collections import OrderedDict
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

TRIES: Final = 10
MINUTE_SECONDS: Final = 60.0
NETWORKS_MAX: Final = 10_000
"""Networks remembered; beyond, those that failed longest ago are forgotten."""
IPV6_PREFIX: Final = 64
"""What one household gets has many addresses."""


class Throttle:
    """Counts failures by network. Times are seconds of a clock that only grows."""

    def __init__(self) -> None:
        self._failures: OrderedDict[str, list[float]] = OrderedDict()

    def wait_seconds(self, address: str | None, now: float) -> float:
        """How long that network has to wait before its next try; 0 where it may try now."""
        recent = self._recent(_network(address), now)
        return recent[-TRIES] + MINUTE_SECONDS - now if len(recent) >= TRIES else 0.0

    def failed(self, address: str | None, now: float) -> None:
        """A wrong key came from there."""
        network = _network(address)
        self._failures[network] = [*self._recent(network, now), now][-TRIES:]
        self._failures.move_to_end(network)
        while len(self._failures) > NETWORKS_MAX:
            self._failures.popitem(last=False)

    def _recent(self, network: str, now: float) -> list[float]:
        return [at for at in self._failures.get(network, ()) if at > now - MINUTE_SECONDS]


def _network(address: str | None) -> str:
    try:
        ip = ip_address((address or "").partition("%")[0])
    except ValueError:
        return "unknown"
    return str(ip_network(f"{ip}/{IPV6_PREFIX}", strict=False)) if isinstance(ip, IPv6Address) else str(ip)
