"""Workflows: registering a version, choosing the current one, and looking at what there is."""

from __future__ import annotations

import asyncio

from stepd.engine.definition import Compiled, compile_definition
from stepd.service.answers import no_workflow, out_of_reach, reply, seconds, too_large
from stepd.service.audit import note_refusal, row_of
from stepd.service.base import Answer, Caller, Daemon
from stepd.service.cursors import decode_cursor, encode_cursor
from stepd.service.decoding import NAME_RULE, BodyDecoder, invalid_request, shown, summary
from stepd.service.queries import Query, QueryReader, whole
from stepd.store.base import VersionRow, WorkflowRow
from stepd_protocol.definitions import CurrentRequest, ProtocolInfo, RegisteredWorkflow
from stepd_protocol.limits import PAGE_ITEMS, PAGE_ITEMS_MAX, WAIT_SECONDS_MAX
from stepd_protocol.names import PROTOCOL_VERSION, is_name
from stepd_protocol.problems import FieldFault, Problem, make_problem
from stepd_protocol.service import VersionView, WorkflowList, WorkflowView
from stepd_protocol.times import format_time

COMPILED_AT_ONCE_BYTES = 8_192
"""A larger definition is compiled on a thread, so that other calls are answered meanwhile."""

_CURRENT = BodyDecoder(CurrentRequest)


async def register(daemon: Daemon, caller: Caller, name: str, body: bytes) -> Answer:
    """Keeps a version: 201 for a new one, 200 for the same again, 422 where it stands with another digest."""
    if not is_name(name):
        return invalid_request(
            [FieldFault(path="", message=f"the workflow's name must be {NAME_RULE}, not {shown(name)}")]
        )
    limits = daemon.settings.limits
    if len(body) > limits.definition_bytes:
        return too_large("", "definition", len(body), limits.definition_bytes)
    if len(body) > COMPILED_AT_ONCE_BYTES:
        compiled = await asyncio.to_thread(compile_definition, name, body, limits)
    else:
        compiled = compile_definition(name, body, limits)
    if isinstance(compiled, list):
        return make_problem("invalid_definition", summary(compiled), errors=compiled)
    refusal = await _may_register(daemon, caller, compiled)
    if refusal is not None:
        return await note_refusal(daemon, caller, "workflow.register", name, None, refusal)
    audit = row_of(caller, await daemon.store.now(), "workflow.register", f"{name} {compiled.version}", None)
    row, is_new, current = await daemon.store.register(compiled, audit)
    if row.digest != compiled.digest:
        return _conflict(row.workflow, row.version)
    return reply(201 if is_new else 200, _registered(daemon, row, current))


async def make_current(daemon: Daemon, caller: Caller, name: str, body: bytes) -> Answer:
    """Makes a version the one that new executions get."""
    request = _CURRENT.decode(body)
    if isinstance(request, Problem):
        return request
    if caller.tenants is not None:
        refusal = out_of_reach("workflows are shared by all tenants; this needs a key for all of them")
        return await note_refusal(daemon, caller, "workflow.use", name, None, refusal)
    audit = row_of(caller, await daemon.store.now(), "workflow.use", f"{name} {request.version}", None)
    if not await daemon.store.make_current(name, request.version, audit):
        return no_workflow(name, request.version)
    return await one(daemon, caller, name)


async def list_all(daemon: Daemon, caller: Caller, query: Query) -> Answer:
    """Every workflow by name, a page at a time."""
    asked = QueryReader(query, single={"limit", "cursor"})
    limit = asked.one("limit", whole(1, PAGE_ITEMS_MAX)) or PAGE_ITEMS
    after = asked.one("cursor", lambda text: decode_cursor(text, str)) or ""
    if asked.problem is not None:
        return asked.problem
    await daemon.directory.refresh()
    rows = [row for row in await daemon.store.workflows(None, caller.sees()) if row.name > after]
    items = [_view(daemon, caller, row) for row in rows[:limit]]
    return reply(200, WorkflowList(items=items, next=encode_cursor(items[-1].name) if len(rows) > limit else None))


async def one(daemon: Daemon, caller: Caller, name: str) -> Answer:
    """One workflow with its versions."""
    await daemon.directory.refresh()
    rows = await daemon.store.workflows(name, caller.sees())
    return reply(200, _view(daemon, caller, rows[0])) if rows else no_workflow(name, None)


async def _may_register(daemon: Daemon, caller: Caller, compiled: Compiled) -> Problem | None:
    """Definitions are shared: a key of some tenants may say again what stands, and nothing new."""
    if caller.tenants is None:
        return None
    standing = await daemon.store.definition(compiled.name, compiled.version)
    if standing is None:
        return out_of_reach(
            "workflows are shared by all tenants; registering a new version needs a key for all of them"
        )
    return None


def _conflict(name: str, version: str) -> Problem:
    detail = f"version {version} of {name} stands with another definition; give the changed one a version of its own"
    return make_problem("definition_conflict", detail)


def _registered(daemon: Daemon, row: VersionRow, current: str) -> RegisteredWorkflow:
    engine = daemon.store.settings
    return RegisteredWorkflow(
        name=row.workflow,
        version=row.version,
        digest=row.digest,
        registered_at=format_time(row.registered_at),
        current=row.version == current,
        protocol=ProtocolInfo(
            version=PROTOCOL_VERSION,
            wait_seconds_max=WAIT_SECONDS_MAX,
            lease_seconds=seconds(engine.lease_ms),
            heartbeat_seconds=seconds(engine.heartbeat_ms),
            reclaim_seconds=seconds(engine.reclaim_ms),
            limits=daemon.settings.limits,
        ),
        service=daemon.service_id,
    )


def _view(daemon: Daemon, caller: Caller, row: WorkflowRow) -> WorkflowView:
    versions = [
        VersionView(
            version=version.version,
            digest=version.digest,
            registered_at=format_time(version.registered_at),
            open_executions=row.open_executions.get(version.version, 0),
            served=daemon.directory.is_version_served(row.name, version.version, caller.tenants),
        )
        for version in row.versions
    ]
    return WorkflowView(name=row.name, current=row.current, versions=versions)
