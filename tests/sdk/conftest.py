"""Owns the fixtures of the SDK's tests."""

from collections.abc import Iterator

import pytest

from tests.sdk.peer import Peer, running_peer


@pytest.fixture
def peer() -> Iterator[Peer]:
    """A scripted daemon on a port of its own."""
    with running_peer() as running:
        yield running
