"""Owns the thin hands between routes and service: each takes what it needs from the call and asks for one thing."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Protocol

from msgspec import Struct

from stepd.http.asgi import ClientGone
from stepd.http.call import Call
from stepd.http.departure import Departure
from stepd.http.otlp import otlp_form
from stepd.http.table import Stream
from stepd.service import (
    auditing,
    executions,
    items,
    keys,
    landing,
    prices,
    reads,
    resolutions,
    signals,
    simulations,
    streams,
    tracelist,
    usage,
    workers,
    workflows,
)
from stepd.service.base import Answer, Daemon, Reply
from stepd.service.decoding import BodyDecoder
from stepd_protocol.fields import Request
from stepd_protocol.problems import Problem


class Document(Protocol):
    """The OpenAPI document of the daemon, written out."""

    def as_yaml(self) -> bytes:
        """As YAML."""

    def as_json(self) -> bytes:
        """As JSON."""


class Served(Struct):
    """What the handlers serve from: the daemon, and what is known of its state."""

    daemon: Daemon
    not_ready: Callable[[], str | None]
    """Why the daemon is not ready; None when it is."""
    measure: Callable[[], Awaitable[bytes]]
    """The metrics, in Prometheus' text format."""
    document: Document


class NoFields(Request, frozen=True):
    """A body without anything in it."""


_NO_FIELDS = BodyDecoder(NoFields)


# -- the five calls of workers ----------------------------------------------------------------------------------------


async def register(served: Served, call: Call) -> Answer:
    return await workflows.register(served.daemon, call.caller, call.path[0], call.body)


async def claim(served: Served, call: Call) -> Answer:
    return await workers.claim(served.daemon, call.caller, call.body, call.gone)


async def heartbeat(served: Served, call: Call) -> Answer:
    return await workers.heartbeat(served.daemon, call.caller, call.path[0], call.body)


async def complete(served: Served, call: Call) -> Answer:
    return await workers.complete(served.daemon, call.caller, call.path[0], call.body)


async def fail(served: Served, call: Call) -> Answer:
    return await workers.fail(served.daemon, call.caller, call.path[0], call.body)


# -- executions -------------------------------------------------------------------------------------------------------


async def start(served: Served, call: Call) -> Answer:
    key, trace = call.header(b"idempotency-key"), call.header(b"traceparent")
    return await executions.start(served.daemon, call.caller, call.body, key, trace)


async def list_executions(served: Served, call: Call) -> Answer:
    return await reads.list_executions(served.daemon, call.caller, call.query)


async def view(served: Served, call: Call) -> Answer:
    query = call.query
    reading = reads.view(served.daemon, call.caller, call.path[0], query)
    waits = any(name == "wait_seconds" for name, _ in query)
    return await _unless_gone(reading, call.gone) if waits else await reading


async def events(served: Served, call: Call) -> Reply | Problem | Stream:
    query = call.query
    if call.method == "HEAD" or not call.prefers("text/event-stream", "application/json"):
        return await reads.events(served.daemon, call.caller, call.path[0], query)
    last = call.header(b"last-event-id")
    opened = await streams.open_stream(served.daemon, call.caller, call.path[0], query, last)
    return Stream(opened) if isinstance(opened, AsyncIterator) else opened


async def list_items(served: Served, call: Call) -> Answer:
    execution_id, step = call.path
    return await items.items(served.daemon, call.caller, execution_id, step, call.query)


async def take_traces(served: Served, call: Call) -> Answer:
    media_type, encoding = otlp_form(call)
    return await landing.take_traces(served.daemon, call.caller, call.body, media_type, encoding)


async def spans(served: Served, call: Call) -> Answer:
    return await tracelist.spans(served.daemon, call.caller, call.path[0], call.query)


async def cancel(served: Served, call: Call) -> Answer:
    return await executions.cancel(served.daemon, call.caller, call.path[0], call.body)


async def signal(served: Served, call: Call) -> Answer:
    key = call.header(b"idempotency-key")
    return await signals.signal(served.daemon, call.caller, call.path[0], call.body, key)


async def publish(served: Served, call: Call) -> Answer:
    return await signals.publish(served.daemon, call.caller, call.body, call.header(b"idempotency-key"))


async def pause(served: Served, call: Call) -> Answer:
    return _surplus(call) or await executions.pause(served.daemon, call.caller, call.path[0])


async def resume(served: Served, call: Call) -> Answer:
    return await executions.resume(served.daemon, call.caller, call.path[0], call.body)


# -- workflows, workers, the service ----------------------------------------------------------------------------------


async def simulate(served: Served, call: Call) -> Answer:
    return await simulations.simulate(served.daemon, call.caller, call.path[0], call.body)


async def list_workflows(served: Served, call: Call) -> Answer:
    return await workflows.list_all(served.daemon, call.caller, call.query)


async def workflow(served: Served, call: Call) -> Answer:
    return await workflows.one(served.daemon, call.caller, call.path[0])


async def make_current(served: Served, call: Call) -> Answer:
    return await workflows.make_current(served.daemon, call.caller, call.path[0], call.body)


async def list_workers(served: Served, call: Call) -> Answer:
    return await reads.workers(served.daemon, call.caller)


async def service(served: Served, call: Call) -> Answer:
    return await reads.service(served.daemon)


async def usage_sums(served: Served, call: Call) -> Answer:
    return await usage.sums(served.daemon, call.caller, call.query)


# -- administration ---------------------------------------------------------------------------------------------------


async def resolve(served: Served, call: Call) -> Answer:
    key = call.header(b"idempotency-key")
    return await resolutions.resolve(served.daemon, call.caller, call.path[0], call.body, key)


async def create_key(served: Served, call: Call) -> Answer:
    return await keys.create(served.daemon, call.caller, call.body)


async def list_keys(served: Served, call: Call) -> Answer:
    return await keys.list_all(served.daemon, call.caller, call.query)


async def revoke_key(served: Served, call: Call) -> Answer:
    return await keys.revoke(served.daemon, call.caller, call.path[0])


async def list_audit(served: Served, call: Call) -> Answer:
    return await auditing.list_all(served.daemon, call.caller, call.query)


async def view_prices(served: Served, call: Call) -> Answer:
    return await prices.show(served.daemon, call.query)


async def put_prices(served: Served, call: Call) -> Answer:
    return await prices.put(served.daemon, call.caller, call.body)


def _surplus(call: Call) -> Problem | None:
    """What is wrong with a body that should say nothing."""
    decoded = _NO_FIELDS.decode(call.body)
    return decoded if isinstance(decoded, Problem) else None


async def _unless_gone(reading: Coroutine[Any, Any, Answer], gone: Departure) -> Answer:
    """What is read, unless the client leaves before. Raises ClientGone."""
    task = asyncio.create_task(reading)
    leaving = asyncio.create_task(gone.wait())
    try:
        await asyncio.wait({task, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientGone
    finally:
        task.cancel()
        leaving.cancel()
