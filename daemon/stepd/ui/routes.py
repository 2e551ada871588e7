"""The table of the page's routes."""

from __future__ import annotations

from typing import Final

from stepd.http.table import Handler, Route, Success
from stepd.settings import Settings
from stepd.ui import auditing, entry, executions, keys, listing, live, operating, spending, workflows
from stepd.ui.acting import ACTIONS, Action
from stepd.ui.web import opened

ONE: Final = "/ui/executions/{id}"


def _page(method: str, path: str, name: str, handler: Handler) -> Route:
    """A page is told by its name in the metrics; nothing else of it is documented: it is for people."""
    return Route(
        method=method,
        path=path,
        name=f"ui_{name}",
        summary="",
        handler=handler,
        part="ui",
        scopes=None,
        body=dict if method == "POST" else None,
        successes=(Success(status=200, type=str, about="a page", media_type="text/html"),),
        is_page=True,
    )


ACTION_CALLS: Final[dict[Action, str]] = {
    "signal": "signal_execution",
    "cancel": "cancel_execution",
    "pause": "pause_execution",
    "resume": "resume_execution",
    "resolve": "resolve_execution",
}
"""What the API calls each action."""

PAGES: Final = (
    _page("GET", "/ui/sign-in", "sign_in", entry.ask_key),
    _page("POST", "/ui/sign-in", "take_key", entry.take_key),
    _page("POST", "/ui/sign-out", "leave", opened(entry.leave)),
    _page("GET", "/ui/static/{name}", "static", entry.static),
    _page("GET", "/ui/", "front", opened(entry.front)),
    _page("GET", "/ui", "executions", opened(listing.show, "list_executions")),
    _page("GET", "/ui/part", "executions_part", opened(listing.part, "list_executions")),
    _page("GET", "/ui/live", "executions_live", opened(live.of_all, "list_executions")),
    _page("GET", ONE, "execution", opened(executions.show, "view_execution")),
    _page("GET", f"{ONE}/part", "execution_part", opened(executions.part, "view_execution")),
    _page("GET", f"{ONE}/live", "execution_live", opened(live.of_execution, "view_execution")),
    _page("GET", f"{ONE}/journal", "journal", opened(executions.journal, "list_events")),
    _page("GET", f"{ONE}/payloads/{{name}}", "payload", opened(executions.payload, "view_execution")),
    _page("GET", f"{ONE}/steps/{{step}}", "step", opened(executions.step, "view_execution")),
    *(
        _page("GET", f"{ONE}/{action}", f"ask_{action}", opened(executions.asking(action), ACTION_CALLS[action]))
        for action in ACTIONS
    ),
    *(
        _page("POST", f"{ONE}/{action}", action, opened(executions.acting(action), ACTION_CALLS[action]))
        for action in ACTIONS
    ),
    _page("GET", "/ui/queue", "queue", opened(operating.queue, "list_executions")),
    _page("GET", "/ui/queue/part", "queue_part", opened(operating.queue_part, "list_executions")),
    _page("GET", "/ui/workers", "workers", opened(operating.workers, "list_workers")),
    _page("GET", "/ui/workers/part", "workers_part", opened(operating.workers_part, "list_workers")),
    _page("GET", "/ui/workflows", "workflows", opened(workflows.show_all, "list_workflows")),
    _page("GET", "/ui/workflows/{name}", "workflow", opened(workflows.show, "view_workflow")),
    _page("POST", "/ui/workflows/{name}", "use_version", opened(workflows.use, "use_version")),
    _page("GET", "/ui/usage", "usage", opened(spending.show, "sum_usage")),
    _page("GET", "/ui/keys", "keys", opened(keys.show, "list_keys")),
    _page("POST", "/ui/keys", "create_key", opened(keys.create, "create_key")),
    _page("GET", "/ui/keys/{id}/revoke", "ask_revoke", opened(keys.ask_revoke, "revoke_key")),
    _page("POST", "/ui/keys/{id}/revoke", "revoke_key", opened(keys.revoke, "revoke_key")),
    _page("GET", "/ui/audit", "audit", opened(auditing.show, "list_audit")),
)


def pages_of(settings: Settings) -> tuple[Route, ...]:
    """The page, where it is on."""
    return PAGES if settings.parts()["ui"] else ()
