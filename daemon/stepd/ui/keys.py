"""The page of keys: who has one, a new one, and taking one back."""

from __future__ import annotations

from typing import Any

import msgspec

from stepd.service import keys
from stepd.service.base import Reply
from stepd.ui.answers import content
from stepd.ui.web import Answered, Visit, see
from stepd_protocol.names import SCOPES
from stepd_protocol.problems import Problem, make_problem


async def show(visit: Visit) -> Answered:
    """The keys, and the form for a new one."""
    return await _show(visit)


async def create(visit: Visit) -> Answered:
    """Makes a key; its secret is shown on the page that answers, and never again."""
    form = visit.form
    tenants = [tenant.strip() for tenant in form.get("tenants", "*").split(",") if tenant.strip()]
    request = {"name": form.get("name", "").strip(), "scopes": _scopes(form), "tenants": tenants}
    answer = await keys.create(visit.daemon, visit.caller, msgspec.json.encode(request))
    if isinstance(answer, Problem):
        return await _show(visit, answer.status, problem=msgspec.to_builtins(answer))
    if not visit.visitor.is_signed_in:
        # The first key ends open mode: nobody is let in without one from here on.
        return visit.page("first_key.html", made=content(answer))
    return await _show(visit, made=content(answer))


async def ask_revoke(visit: Visit) -> Answered:
    """Asks before a key is taken back."""
    key_id = visit.call.path[0]
    key = next((one for one in await _all(visit) if one["id"] == key_id), None)
    if key is None:
        return make_problem("not_found", f"there is no key with the id {key_id}")
    return visit.page("revoke.html", key=key, csrf=visit.visitor.csrf, is_own=key_id == visit.caller.key_id)


async def revoke(visit: Visit) -> Answered:
    """Takes a key back, at once."""
    answer = await keys.revoke(visit.daemon, visit.caller, visit.call.path[0])
    return answer if isinstance(answer, Problem) else see("/ui/keys")


async def _show(visit: Visit, status: int = 200, **more: Any) -> Reply:
    return visit.page(
        "keys.html", status, keys=await _all(visit), scopes=SCOPES, csrf=visit.visitor.csrf, form=visit.form, **more
    )


async def _all(visit: Visit) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        asked = [("limit", "200"), *([("cursor", cursor)] if cursor else [])]
        page = content(await keys.list_all(visit.daemon, visit.caller, asked))
        found += page["items"]
        cursor = page["next"]
        if cursor is None:
            return found


def _scopes(form: Any) -> list[str]:
    return [scope for scope in SCOPES if f"scope:{scope}" in form]
