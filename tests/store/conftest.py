"""A store of every kind, opened on nothing, with a clock that a test can set."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from stepd.engine.work import Settings
from tests.store.backends import BACKENDS, Backend
from tests.store.shop import Shop


@pytest.fixture(params=list(BACKENDS))
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    backend = BACKENDS[request.param](tmp_path)
    yield backend
    backend.close()


@pytest.fixture
def settings() -> Settings:
    """The defaults; a module of tests may have others."""
    return Settings()


@pytest.fixture
async def shop(backend: Backend, settings: Settings) -> AsyncIterator[Shop]:
    """An open store with what a test does to it; closed afterwards."""
    shop = Shop(backend, settings)
    await shop.open()
    try:
        yield shop
    finally:
        await shop.close()
