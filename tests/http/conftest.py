"""The edge in its three forms: open to everybody on this machine, with keys, and for tests that make their own."""

from collections.abc import Iterator

import msgspec
import pytest

from stepd.keys import hash_secret
from stepd.store.records import KeyRow
from tests.http.edge import Edge
from tests.support.client import Http


@pytest.fixture
def edge() -> Iterator[Edge]:
    """An edge without keys."""
    edge = Edge().start()
    yield edge
    edge.close()


@pytest.fixture
def http(edge: Edge) -> Http:
    return Http(edge.url)


@pytest.fixture
def guarded() -> Iterator[Edge]:
    """An edge with one key for each scope; its secret is the scope's name."""
    edge = Edge(*(key(scope, scope) for scope in ("admin", "worker", "execute", "read", "write", "operate"))).start()
    yield edge
    edge.close()


def key(name: str, *scopes: str, tenants: tuple[str, ...] = ("*",), revoked_at: int | None = None) -> KeyRow:
    """A key whose secret is its name."""
    return KeyRow(
        id=f"id-of-{name}",
        name=name,
        secret_hash=hash_secret(name),
        scopes=msgspec.json.encode(scopes),
        tenants=msgspec.json.encode(tenants),
        source="settings",
        created_at=0,
        revoked_at=revoked_at,
    )
