"""How often keys may be tried, by network and minute."""

from __future__ import annotations

import pytest

from stepd.ui.throttle import MINUTE_SECONDS, NETWORKS_MAX, TRIES, Throttle


def tried(throttle: Throttle, address: str | None, times: int, at: float = 100.0) -> None:
    for _ in range(times):
        throttle.failed(address, at)


def test_some_wrong_keys_are_forgiven_and_then_one_waits_for_a_minute() -> None:
    throttle = Throttle()
    tried(throttle, "192.0.2.1", TRIES - 1)
    assert throttle.wait_seconds("192.0.2.1", 101) == 0
    tried(throttle, "192.0.2.1", 1)
    assert throttle.wait_seconds("192.0.2.1", 101) == MINUTE_SECONDS - 1
    assert throttle.wait_seconds("192.0.2.1", 100 + MINUTE_SECONDS) == 0


def test_others_wait_for_nobody() -> None:
    throttle = Throttle()
    tried(throttle, "192.0.2.1", TRIES)
    assert throttle.wait_seconds("192.0.2.2", 101) == 0
    assert throttle.wait_seconds(None, 101) == 0


@pytest.mark.parametrize("same", ["2001:db8::2", "2001:db8:0:0:ffff::1", "2001:db8::3%eth0"])
def test_a_household_of_ipv6_is_one_network(same: str) -> None:
    throttle = Throttle()
    tried(throttle, "2001:db8::1", TRIES)
    assert throttle.wait_seconds(same, 101) > 0
    assert throttle.wait_seconds("2001:db8:0:1::1", 101) == 0


def test_what_is_remembered_is_bounded() -> None:
    throttle = Throttle()
    tried(throttle, "192.0.2.1", TRIES)
    for number in range(NETWORKS_MAX):
        throttle.failed(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", 101)
    assert throttle.wait_seconds("192.0.2.1", 102) == 0
