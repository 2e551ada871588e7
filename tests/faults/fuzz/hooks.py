"""What the fuzzer is taught of this API: which ids and fences there are, what makes it wait, what locks it out.

Schemathesis loads this module by its name (`SCHEMATHESIS_HOOKS`). Half of the requests that name an execution, a lease
or a workflow get a real one, so that they reach what lies behind the first refusal.
"""

import os
from random import Random
from typing import Any, TypeAlias
from urllib.parse import quote

import schemathesis
from schemathesis import Case, HookContext, Response

AnyCase: TypeAlias = "Case[Any]"
SHORT_WAIT = 0.02
KEPT = 40
"""How many ids of a kind are remembered."""
OWN_KEY = os.environ.get("STEPD_FUZZ_KEY_ID", "")
CLAIM = "/v1/leases/claim"

_random = Random(20)
_executions: list[str] = []
_leases: list[tuple[str, int]] = []
_workflows: list[str] = ["fuzzed-1", "fuzzed-2"]
_cursors: dict[str, str] = {}
"""The last cursor of each list."""


@schemathesis.hook
def before_call(context: HookContext, case: AnyCase, kwargs: dict[str, Any]) -> None:
    _shorten_waits(case)
    if case.path_parameters.get("id") == OWN_KEY:
        case.path_parameters["id"] = "someone-elses"
    if _random.random() < 0.5:
        _make_real(case)


@schemathesis.hook
def after_call(context: HookContext, case: AnyCase, response: Response) -> None:
    if response.status_code not in (200, 201, 202) or not response.headers.get("content-type", [""])[0].endswith(
        "json"
    ):
        return
    answer = response.json()
    if not isinstance(answer, dict):
        return
    if "/complete" in case.path or "/fail" in case.path:
        _leases[:] = [lease for lease in _leases if lease[0] != case.path_parameters["id"]]
    if isinstance(answer.get("next"), str):
        _cursors[case.path] = answer["next"]
    if case.path == "/v1/executions" and case.method == "POST":
        _remember(_executions, answer["id"])
    if case.path == "/v1/workflows/{name}" and case.method == "PUT":
        _remember(_workflows, answer["name"])
    for lease in answer.get("leases") or ():
        _remember(_leases, (lease["id"], lease["fence"]))


def _shorten_waits(case: AnyCase) -> None:
    """Waits that are valid become short ones; what is no valid wait stays as it is."""
    for place in (case.body, case.query, _next_of(case.body)):
        if not isinstance(place, dict):
            continue
        wait = place.get("wait_seconds", SHORT_WAIT if case.path == CLAIM else None)
        if _is_long(wait) or (place is case.body and case.path == CLAIM and "wait_seconds" not in place):
            place["wait_seconds"] = SHORT_WAIT


def _next_of(body: object) -> object:
    return body.get("next") if isinstance(body, dict) else None


def _is_long(wait: object) -> bool:
    try:
        return not isinstance(wait, bool) and SHORT_WAIT < float(str(wait)) <= 60
    except ValueError:
        return False


def _make_real(case: AnyCase) -> None:
    """Puts an id that exists where there is room for one."""
    body = case.body if isinstance(case.body, dict) else {}
    parameters = case.path_parameters
    if "/executions/{id}" in case.path and _executions:
        parameters["id"] = _random.choice(_executions)
    if "cursor" in (case.query or {}) and case.path in _cursors:
        case.query = {"cursor": _cursors[case.path]}
    if "/leases/{id}" in case.path and _leases:
        parameters["id"], fence = _random.choice(_leases)
        if isinstance(body.get("fence"), int):
            body["fence"] = fence
    if "/workflows/{name}" in case.path and case.method != "PUT" and _workflows:
        parameters["name"] = quote(_random.choice(_workflows), safe="")
    if isinstance(body.get("workflow"), str) and _workflows:
        body["workflow"] = _random.choice(_workflows)
        body.pop("version", None)
    if case.path == CLAIM and isinstance(body.get("serves"), list) and _workflows:
        body["serves"] = [{"workflow": name} for name in _workflows]


def _remember(known: list[Any], new: Any) -> None:
    known.append(new)
    if len(known) > KEPT:
        del known[_random.randrange(KEPT)]
