"""Signals and events as the service takes them: what a fault in the middle leaves, and what more than enough gets."""

import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from stepd.service import signals
from stepd.service.base import Reply
from stepd_protocol.problems import Problem
from tests.service.conftest import ME, Service

READ = {"id": "a", "effect": "read_only"}
WAIT = {"id": "w", "kind": "wait", "event": "go"}


async def publish(service: Service, key: str | None = None, payload: Any = None) -> Any:
    body = json.dumps({"name": "go", "correlation": "order", "payload": payload}).encode()
    answer = await signals.publish(service.daemon, ME, body, key)
    assert isinstance(answer, Reply)
    return json.loads(answer.body)


async def test_an_event_that_broke_off_is_sent_again_and_reaches_nobody_twice(service: Service) -> None:
    await service.register(WAIT, WAIT | {"id": "second"})
    started = [(await service.start(correlation="order"))[1]["id"] for _ in range(5)]
    with closing(sqlite3.connect(service.file, isolation_level=None)) as beside:
        refuse = f"create trigger refuse before insert on signals when new.execution_id = '{started[2]}' "
        beside.execute(refuse + "begin select raise(abort, 'refused by the test'); end")
        with pytest.raises(sqlite3.IntegrityError):
            await publish(service, "key")
        beside.execute("drop trigger refuse")
    other = await signals.publish(service.daemon, ME, b'{"name":"go","correlation":"order","payload":5}', "key")
    assert isinstance(other, Problem)
    assert other.code == "idempotency_conflict"
    assert await publish(service, "key") == {"delivered": 5}
    assert await publish(service, "key") == {"delivered": 5}
    for id_ in started:
        _, view = await service.view(id_)
        assert [step["status"] for step in view["steps"]] == ["succeeded", "waiting"]


async def test_an_execution_that_an_event_brought_to_its_end_counts(service: Service) -> None:
    await service.register(WAIT)
    await service.start(correlation="order")
    assert await publish(service) == {"delivered": 1}
    assert await publish(service) == {"delivered": 0}


async def test_more_signals_than_are_kept_are_asked_to_come_later(service: Service) -> None:
    await service.register(READ, WAIT)
    _, view = await service.start(correlation="order")
    with closing(sqlite3.connect(service.file, isolation_level=None)) as beside:
        beside.execute("update executions set signals_kept = 1000")
    status, problem = await service.signal(view["id"], name="go")
    assert (status, problem.code) == (429, "too_busy")
    assert "1,000 signals" in problem.detail
    assert await publish(service) == {"delivered": 0}
    with closing(sqlite3.connect(service.file, isolation_level=None)) as beside:
        beside.execute("update executions set signals_kept = 999")
    assert (await service.signal(view["id"], name="go"))[0] == 202
