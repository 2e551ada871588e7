"""The pages of one execution: itself, a step of it, a payload, its older journal, and what may be done with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from msgspec import Raw

from stepd.ids import new_id
from stepd.service import items, reads
from stepd.service.answers import no_execution, no_step
from stepd.ui.acting import Action, act
from stepd.ui.answers import content
from stepd.ui.execution import PAYLOADS, last_lines, load, older_than, see_one
from stepd.ui.payloads import CUT_AT, SHOWN_MAX, Payload, payload_of
from stepd.ui.web import Answered, View, Visit, see
from stepd_protocol.problems import Problem, make_problem

ITEMS_SHOWN: Final = 20
"""Items on one page; each comes with its attempts and payloads."""
DOUBTS_MAX: Final = 50
"""Uncertain items that one form asks about."""


async def show(visit: Visit) -> Answered:
    """The whole page."""
    return await _page(visit, "execution/page.html")


async def part(visit: Visit) -> Answered:
    """What changes of it."""
    return await _page(visit, "execution/body.html")


async def journal(visit: Visit) -> Answered:
    """A page of the journal, the events before one."""
    execution_id = visit.call.path[0]
    before = dict(visit.call.query).get("before", "")
    standing = await visit.daemon.store.standing(execution_id, visit.caller.sees())
    if standing is None or not visit.caller.may("read"):
        return no_execution(execution_id)
    upto = min(int(before) - 1, standing.seq) if before.isdecimal() and len(before) < 16 else standing.seq
    lines = await last_lines(visit.daemon, execution_id, upto)
    older = older_than(lines)
    return visit.page(
        "execution/older.html", lines=lines, older=older, execution_id=execution_id, workflow=standing.workflow
    )


async def payload(visit: Visit) -> Answered:
    """One of the execution's payloads, whole."""
    execution_id, name = visit.call.path
    answer = await reads.view(visit.daemon, visit.caller, execution_id, [])
    if isinstance(answer, Problem):
        return answer
    raw = msgspec.json.decode(answer.body, type=dict[str, Raw]).get(name) if name in PAYLOADS else None
    shown = None if raw is None else payload_of(name, bytes(raw), SHOWN_MAX)
    if shown is None:
        return make_problem("not_found", f"execution {execution_id} has no {name}")
    return visit.page("execution/payload.html", view=content(answer), shown=shown)


async def step(visit: Visit) -> Answered:
    """One step with its attempts and payloads; of one that repeats a page of its items."""
    execution_id, step_id = visit.call.path
    include = [("include", "attempts,payloads")] if visit.caller.may("read") else []
    answer = await reads.view(visit.daemon, visit.caller, execution_id, include)
    if isinstance(answer, Problem):
        return answer
    steps = msgspec.json.decode(answer.body, type=_Steps).steps
    own = [one for one in steps if msgspec.json.decode(one["id"]) == step_id]
    if not own:
        return no_step(execution_id, step_id)
    following = None
    if "items" in own[0]:
        cursor = dict(visit.call.query).get("cursor")
        asked = [*include, ("limit", str(ITEMS_SHOWN)), *([("cursor", cursor)] if cursor else [])]
        paged = await items.items(visit.daemon, visit.caller, execution_id, step_id, asked)
        if isinstance(paged, Problem):
            return paged
        page = msgspec.json.decode(paged.body, type=_Items)
        own, following = page.items, page.next
    view = content(answer)
    whole = next(one for one in view["steps"] if one["id"] == step_id)
    return visit.page("execution/step.html", view=view, step=whole, shown=[_shown(one) for one in own], next=following)


def asking(action: Action) -> View:
    """The page that asks before it acts."""

    async def ask(visit: Visit) -> Answered:
        return await _ask(visit, action, {"key": new_id()}, None)

    return ask


def acting(action: Action) -> View:
    """What the form asked for; where it is refused, the form again, with why."""

    async def do(visit: Visit) -> Answered:
        execution_id = visit.call.path[0]
        answer = await act(visit.daemon, visit.caller, execution_id, action, visit.form)
        if isinstance(answer, Problem):
            if answer.status == 404:
                return answer
            return await _ask(visit, action, visit.form, answer)
        status = content(answer)["status"]
        return see(f"/ui/executions/{execution_id}?{urlencode({'did': action, 'status': status})}")

    return do


_DONE: Final = {
    "signal": "The signal was received.",
    "cancel": "It was asked to cancel.",
    "pause": "It is paused.",
    "resume": "It goes on.",
    "resolve": "The resolution is in the ledger.",
}


class _Steps(msgspec.Struct):
    """The steps of a view, their members as they came."""

    steps: list[dict[str, Raw]]


class _Items(msgspec.Struct):
    """A page of items, their members as they came."""

    items: list[dict[str, Raw]]
    next: str | None


async def _page(visit: Visit, template: str) -> Answered:
    page = await load(visit.daemon, visit.caller, visit.call.path[0])
    if isinstance(page, Problem):
        return page
    asked = dict(visit.call.query)
    said = _DONE.get(asked.get("did", ""))
    return visit.page(template, page=page, said=said)


async def _ask(visit: Visit, action: str, form: Mapping[str, str], problem: Problem | None) -> Answered:
    execution_id = visit.call.path[0]
    seen = await see_one(visit.daemon, visit.caller, execution_id)
    if isinstance(seen, Problem):
        return seen
    view = content(seen.answer)
    if action not in seen.actions and problem is None:
        detail = f"the execution is {view['status']}, or this key may not {action} it"
        return make_problem("forbidden", detail)
    doubts, more = await _doubts(visit, execution_id) if action == "resolve" else ([], 0)
    return visit.page(
        "execution/act.html",
        200 if problem is None else problem.status,
        action=action,
        view=view,
        waits=seen.waits,
        form=form,
        csrf=visit.visitor.csrf,
        problem=None if problem is None else msgspec.to_builtins(problem),
        uncertain=doubts,
        more_uncertain=more,
    )


async def _doubts(visit: Visit, execution_id: str) -> tuple[list[dict[str, Any]], int]:
    """Each uncertain step or item with its evidence, and how many more there are."""
    answer = await reads.view(visit.daemon, visit.caller, execution_id, [("include", "attempts,payloads")])
    if isinstance(answer, Problem):
        return [], 0
    found: list[dict[str, Any]] = []
    more = 0
    for raw in msgspec.json.decode(answer.body, type=_Steps).steps:
        count = _value(raw.get("items", Raw(b"{}"))).get("uncertain", 0)
        if count:
            kept = await _uncertain_items(visit, execution_id, _value(raw["id"]), DOUBTS_MAX - len(found))
            found += kept
            more += count - len(kept)
        elif _value(raw["status"]) == "uncertain":
            found.append(_evidence(raw))
    return found[:DOUBTS_MAX], more + max(len(found) - DOUBTS_MAX, 0)


async def _uncertain_items(visit: Visit, execution_id: str, step_id: str, room: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while len(found) < room:
        asked = [("include", "attempts,payloads"), ("limit", "100"), *([("cursor", cursor)] if cursor else [])]
        answer = await items.items(visit.daemon, visit.caller, execution_id, step_id, asked)
        if isinstance(answer, Problem):
            break
        page = msgspec.json.decode(answer.body, type=_Items)
        found += [_evidence(item) for item in page.items if _value(item["status"]) == "uncertain"]
        cursor = page.next
        if cursor is None:
            break
    return found[:room]


def _evidence(raw: dict[str, Raw]) -> dict[str, Any]:
    """An uncertain step with all that helps to find out."""
    step: dict[str, Any] = {name: _value(value) for name, value in raw.items() if name not in ("input", "output")}
    step["shown_input"] = _text(raw.get("input"))
    for attempt in step.get("attempts") or []:
        if attempt["progress"] is not None:
            attempt["shown_progress"] = _text(Raw(msgspec.json.encode(attempt["progress"])))
        if (attempt["stale_outcome"] or {}).get("output") is not None:
            attempt["shown_late"] = _text(Raw(msgspec.json.encode(attempt["stale_outcome"]["output"])))
    step["has_late"] = any(attempt["stale_outcome"] for attempt in step.get("attempts") or [])
    return step


def _shown(raw: dict[str, Raw]) -> dict[str, Any]:
    """A step or an item with its payloads as text."""
    step: dict[str, Any] = {name: _value(value) for name, value in raw.items() if name not in ("input", "output")}
    found = [payload_of(name, bytes(raw[name]), CUT_AT * 5) for name in ("input", "output") if name in raw]
    payloads: list[Payload] = [one for one in found if one is not None]
    return step | {"payloads": payloads}


def _text(raw: Raw | None) -> str | None:
    shown = None if raw is None else payload_of("payload", bytes(raw))
    return None if shown is None else shown.text


def _value(raw: Raw) -> Any:
    return msgspec.json.decode(raw)
