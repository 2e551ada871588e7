"""Owns what the daemon tells of itself to whoever watches it: alive, ready, measured, documented."""

import asyncio
from typing import Final

import msgspec

from stepd.http.call import Call
from stepd.http.handlers import Served
from stepd.service.base import Answer, Reply
from stepd_protocol import fields
from stepd_protocol.problems import make_problem

METRICS_TYPE: Final = "text/plain"
YAML_TYPE: Final = "application/yaml"


class Alive(fields.Answer, frozen=True, kw_only=True):
    """The process answers."""

    alive: bool = True


class Ready(fields.Answer, frozen=True, kw_only=True):
    """The daemon is in step with its store and takes new work; `parts` says which of its parts are on."""

    ready: bool = True
    parts: dict[str, bool]


async def alive(served: Served, call: Call) -> Answer:
    return Reply(200, msgspec.json.encode(Alive()))


async def ready(served: Served, call: Call) -> Answer:
    reason = served.not_ready()
    if reason is not None:
        return make_problem("unavailable", reason)
    return Reply(200, msgspec.json.encode(Ready(parts=served.daemon.settings.parts())))


async def metrics(served: Served, call: Call) -> Answer:
    return Reply(200, await served.measure(), (("Content-Type", f"{METRICS_TYPE}; version=0.0.4; charset=utf-8"),))


async def document_yaml(served: Served, call: Call) -> Answer:
    return Reply(200, await asyncio.to_thread(served.document.as_yaml), (("Content-Type", YAML_TYPE),))


async def document_json(served: Served, call: Call) -> Answer:
    return Reply(200, await asyncio.to_thread(served.document.as_json))
