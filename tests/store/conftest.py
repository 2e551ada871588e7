"""A store of every kind, opened on nothing, with a clock that a test can set."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stepd.engine.work import Settings
from tests.store.backends import BACKENDS, Backend
from tests.store.shop import Shop


@pytest.fixture(params=list(BACKENDS))
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    return BACKENDS[request.param](tmp_path)


@pytest.fixture
async def shop(backend: Backend) -> AsyncIterator[Shop]:
    """An open store with what a test does to it; closed afterwards."""
    shop = Shop(backend, Settings())
    await shop.open()
    try:
        yield shop
    finally:
        await shop.close()
