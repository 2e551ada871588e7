"""A service without its edges: capabilities on a real store in a temporary file, called as functions."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stepd.engine.work import Settings as EngineSettings
from stepd.service import executions, reads, signals, workers, workflows
from stepd.service.base import Caller, Daemon, Reply
from stepd.service.directory import Directory
from stepd.service.dispatcher import Dispatcher
from stepd.service.keyring import Keyring
from stepd.service.prices import Prices
from stepd.service.watch import Watch
from stepd.settings import Settings
from stepd.store.base import Tell
from stepd.store.sqlite.store import SqliteStore
from stepd_protocol.problems import Problem

ME = Caller("me", None, frozenset({"admin"}), None)


class Service:
    """Capabilities as a caller meets them: JSON in, ``(status, JSON)`` out."""

    def __init__(self, daemon: Daemon, file: Path) -> None:
        self.daemon = daemon
        self.file = file

    def audited(self) -> list[tuple[str, str, str]]:
        """The audit log: who did what, and how it went."""
        with closing(sqlite3.connect(self.file)) as connection:
            return list(connection.execute("select principal, action, outcome from audit order by at, id"))

    async def register(self, *steps: Any, name: str = "w", caller: Caller = ME, **fields: Any) -> tuple[int, Any]:
        body = _bytes({"version": "1", "steps": list(steps), **fields})
        return _read(await workflows.register(self.daemon, caller, name, body))

    async def start(
        self, *, name: str = "w", key: str | None = None, caller: Caller = ME, trace: str | None = None, **fields: Any
    ) -> tuple[int, Any]:
        return _read(await executions.start(self.daemon, caller, _bytes({"workflow": name, **fields}), key, trace))

    async def claim(self, claim_id: str = "c", *, caller: Caller = ME, **fields: Any) -> tuple[int, Any]:
        body = {"worker": "billing-1", "claim_id": claim_id, "wait_seconds": 0, "serves": [{"workflow": "w"}], **fields}
        return _read(await workers.claim(self.daemon, caller, _bytes(body), asyncio.Event()))

    async def heartbeat(self, lease: Any, *, caller: Caller = ME, **fields: Any) -> tuple[int, Any]:
        body = _bytes({"fence": lease["fence"], **fields})
        return _read(await workers.heartbeat(self.daemon, caller, lease["id"], body))

    async def complete(self, lease: Any, *, caller: Caller = ME, **fields: Any) -> tuple[int, Any]:
        body = _bytes({"fence": lease["fence"], **fields})
        return _read(await workers.complete(self.daemon, caller, lease["id"], body))

    async def fail(self, lease: Any, class_: str, *, caller: Caller = ME, **fields: Any) -> tuple[int, Any]:
        body = _bytes({"fence": lease["fence"], "class": class_, **fields})
        return _read(await workers.fail(self.daemon, caller, lease["id"], body))

    async def signal(self, id: str, *, key: str | None = None, caller: Caller = ME, **fields: Any) -> tuple[int, Any]:
        return _read(await signals.signal(self.daemon, caller, id, _bytes(fields), key))

    async def view(self, id: str, *, caller: Caller = ME, **query: str) -> tuple[int, Any]:
        return _read(await reads.view(self.daemon, caller, id, list(query.items())))

    async def list(self, *query: tuple[str, str], caller: Caller = ME) -> tuple[int, Any]:
        return _read(await reads.list_executions(self.daemon, caller, query))

    async def lease(self, *, effect: str = "read_only", **fields: Any) -> Any:
        """A lease of a fresh execution's only step."""
        await self.register({"id": "a", "effect": effect, **fields})
        await self.start()
        _, answer = await self.claim()
        return answer["leases"][0]


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    file = tmp_path / "stepd.db"
    store = SqliteStore(file, EngineSettings())
    await store.open()
    keyring = Keyring(store)
    daemon = Daemon(
        Settings(), store, Dispatcher(store), Watch(), Directory(store), "service-1", "stepd", keyring, Prices(store)
    )

    def tell(tell: Tell) -> None:
        daemon.watch.tell(tell)
        if tell.ready:
            daemon.dispatcher.wake()

    store.on_commit(tell)
    yield Service(daemon, file)
    daemon.watch.stop()
    daemon.dispatcher.stop()
    await daemon.directory.close()
    await store.close()


def _bytes(body: Any) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def _read(answer: Any) -> tuple[int, Any]:
    if isinstance(answer, Problem):
        return answer.status, answer
    assert isinstance(answer, Reply)
    return answer.status, json.loads(answer.body) if answer.body else None
