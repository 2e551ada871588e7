"""What a person does to one execution by the page: each form becomes the call that the API has for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, assert_never, get_args

import msgspec
from msgspec import Raw

from stepd.service import executions, resolutions, signals
from stepd.service.base import Answer, Caller, Daemon
from stepd_protocol.problems import FieldFault, Problem, make_problem

Form: TypeAlias = Mapping[str, str]
Action: TypeAlias = Literal["signal", "cancel", "pause", "resume", "resolve"]

ACTIONS: Final[tuple[Action, ...]] = get_args(Action)
CLOSES: Final = "close"
"""The value of a resolution's field ``action`` that ends the execution."""
STEP_PREFIX: Final = "step:"
"""Of the fields of a resolution that belong to one uncertain step: ``step:0:outcome``."""


async def act(daemon: Daemon, caller: Caller, execution_id: str, action: Action, form: Form) -> Answer:
    """Does what the form says; answers what the API's call answers. Raises StoreUnavailable.

    ``key`` in the form makes a second sending of it the same call.
    """
    match action:
        case "signal":
            body = _signal(form)
            if isinstance(body, Problem):
                return body
            return await signals.signal(daemon, caller, execution_id, body, form.get("key"))
        case "cancel":
            fields = {"reason": form.get("reason", "").strip() or None, "force": "force" in form}
            return await executions.cancel(daemon, caller, execution_id, msgspec.json.encode(fields))
        case "pause":
            return await executions.pause(daemon, caller, execution_id)
        case "resume":
            body = _resumption(form)
            if isinstance(body, Problem):
                return body
            return await executions.resume(daemon, caller, execution_id, body)
        case "resolve":
            body = _resolution(form)
            if isinstance(body, Problem):
                return body
            return await resolutions.resolve(daemon, caller, execution_id, body, form.get("key"))
        case _:
            assert_never(action)


def _signal(form: Form) -> bytes | Problem:
    payload = form.get("payload", "").strip()
    fields: dict[str, Any] = {"name": form.get("name", "")}
    if payload:
        raw = _json(payload)
        if raw is None:
            return _not_json("/payload", "the payload")
        fields["payload"] = raw
    return msgspec.json.encode(fields)


def _resumption(form: Form) -> bytes | Problem:
    """The body of a resume: a bound that the form has nothing for stays as it is."""
    budget: dict[str, Raw] = {}
    for field in ("cost", "tokens"):
        if text := form.get(f"budget_{field}", "").strip().replace(",", ""):
            raw = _json(text)
            if raw is None:
                return _not_json(f"/budget/{field}", f"the budget's {field}, {text[:50]!r},")
            budget[field] = raw
    return msgspec.json.encode({"budget": budget} if budget else {})


def _resolution(form: Form) -> bytes | Problem:
    """The body of a resolution: steps that nothing was said of are left out, and refused by the rules."""
    evidence = {"reference": form.get("reference", ""), "reason": form.get("reason", "")}
    command: dict[str, Any] = {"evidence": evidence}
    if (revision := form.get("revision", "")).isdecimal():
        command["expected_revision"] = int(revision)
    if form.get("action") == CLOSES:
        return msgspec.json.encode(command | {"action": CLOSES, "verification": form.get("verification", "")})
    results = []
    for number in range(sum(name.startswith(STEP_PREFIX) and name.endswith(":step") for name in form)):
        result = _result(form, f"{STEP_PREFIX}{number}:")
        if isinstance(result, Problem):
            return result
        if result is not None:
            results.append(result)
    return msgspec.json.encode(command | {"action": "resume", "results": results})


def _result(form: Form, prefix: str) -> dict[str, Any] | Problem | None:
    """What is said of one step; None where nothing is."""
    outcome, step = form.get(f"{prefix}outcome", ""), form.get(f"{prefix}step", "")
    if not outcome:
        return None
    result: dict[str, Any] = {"step": step, "outcome": outcome}
    if index := form.get(f"{prefix}index", ""):
        result["index"] = int(index) if index.isdecimal() else index
    if outcome == "succeeded":
        for field in ("output", "state"):
            text = form.get(f"{prefix}{field}", "").strip()
            if not text:
                continue
            if (raw := _json(text)) is None:
                return _not_json(f"/{field}", f"the {field} of {step}")
            result[field] = raw
    return result


def _json(text: str) -> Raw | None:
    """JSON as it was written; None where it is none."""
    try:
        return msgspec.json.decode(text, type=Raw)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        return None


def _not_json(path: str, what: str) -> Problem:
    message = f'{what} is no JSON: a number is written like 2.5, text like "yes"'
    return make_problem("invalid_request", message, errors=[FieldFault(path=path, message=message)])
