"""The pages of workflows: their versions side by side, their graphs, and which one new executions get."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, urlencode

import msgspec

from stepd.service import workflows
from stepd.ui.answers import content
from stepd.ui.graph import draw
from stepd.ui.payloads import SHOWN_MAX, payload_of
from stepd.ui.web import Answered, Visit, see
from stepd_protocol.problems import Problem

SHOWN: Final = "200"


async def show_all(visit: Visit) -> Answered:
    """Every workflow."""
    cursor = dict(visit.call.query).get("cursor")
    asked = [("limit", SHOWN), *([("cursor", cursor)] if cursor else [])]
    answer = await workflows.list_all(visit.daemon, visit.caller, asked)
    if isinstance(answer, Problem):
        return answer
    page = content(answer)
    return visit.page("workflows.html", workflows=page["items"], following=page["next"])


async def show(visit: Visit) -> Answered:
    """One workflow: its versions, and the graph and the definition of one of them."""
    return await _show(visit, None)


async def use(visit: Visit) -> Answered:
    """Makes a version the one that new executions get."""
    name = visit.call.path[0]
    body = msgspec.json.encode({"version": visit.form.get("version", "")})
    answer = await workflows.make_current(visit.daemon, visit.caller, name, body)
    if isinstance(answer, Problem):
        return answer if answer.status == 404 else await _show(visit, answer)
    version = content(answer)["current"]
    return see(f"/ui/workflows/{quote(name, safe='')}?{urlencode({'version': version, 'did': 'use'})}")


async def _show(visit: Visit, problem: Problem | None) -> Answered:
    name = visit.call.path[0]
    answer = await workflows.one(visit.daemon, visit.caller, name)
    if isinstance(answer, Problem):
        return answer
    workflow = content(answer)
    asked = dict(visit.call.query)
    version = asked.get("version") or workflow["current"]
    definition = await visit.daemon.store.definition(name, version)
    shown = None if definition is None else payload_of("definition", definition.raw, SHOWN_MAX)
    return visit.page(
        "workflow.html",
        200 if problem is None else problem.status,
        workflow=workflow,
        version=version,
        drawing=None if definition is None else draw(definition.steps),
        steps=() if definition is None else definition.steps,
        definition=shown,
        may_use=visit.caller.may("operate") and visit.caller.tenants is None,
        csrf=visit.visitor.csrf,
        problem=None if problem is None else msgspec.to_builtins(problem),
        asks_for=asked.get("use"),
        did=asked.get("did"),
    )
