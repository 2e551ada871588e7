"""The table of the page's routes."""

from __future__ import annotations

from typing import Final

from stepd.http.table import Handler, Route, Success
from stepd.settings import Settings
from stepd.ui import entry, executions, listing, live
from stepd.ui.acting import ACTIONS
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


PAGES: Final = (
    _page("GET", "/ui/sign-in", "sign_in", entry.ask_key),
    _page("POST", "/ui/sign-in", "take_key", entry.take_key),
    _page("POST", "/ui/sign-out", "leave", opened(entry.leave)),
    _page("GET", "/ui/static/{name}", "static", entry.static),
    _page("GET", "/ui", "executions", opened(listing.show)),
    _page("GET", "/ui/part", "executions_part", opened(listing.part)),
    _page("GET", "/ui/live", "executions_live", opened(live.of_all)),
    _page("GET", ONE, "execution", opened(executions.show)),
    _page("GET", f"{ONE}/part", "execution_part", opened(executions.part)),
    _page("GET", f"{ONE}/live", "execution_live", opened(live.of_execution)),
    _page("GET", f"{ONE}/journal", "journal", opened(executions.journal)),
    _page("GET", f"{ONE}/payloads/{{name}}", "payload", opened(executions.payload)),
    _page("GET", f"{ONE}/steps/{{step}}", "step", opened(executions.step)),
    *(_page("GET", f"{ONE}/{action}", f"ask_{action}", opened(executions.asking(action))) for action in ACTIONS),
    *(_page("POST", f"{ONE}/{action}", action, opened(executions.acting(action))) for action in ACTIONS),
)


def pages_of(settings: Settings) -> tuple[Route, ...]:
    """The page, where it is on."""
    return PAGES if settings.parts()["ui"] else ()
