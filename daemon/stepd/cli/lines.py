"""Owns the display of an execution as plain lines, one an event: for pipes, logs and terminals that can't redraw."""

from collections.abc import Mapping
from typing import Any, Final

from rich.text import Text

from stepd.cli.contact import explain
from stepd.cli.printing import as_text, say
from stepd.cli.rows import blocked_text
from stepd.wording.journal import tell
from stepd.wording.shown import duration_text, seconds_between
from stepd_worker import StepdError

TIME_WIDTH: Final = 11


class Lines:
    """Prints what happens, each line with the time since the execution was created."""

    shows_children = False

    def __init__(self) -> None:
        self._created_at: str | None = None
        self._width = len("execution")
        self._is_away = False
        self._blocked = ""

    def view(self, view: Mapping[str, Any]) -> None:
        self._created_at = view["created_at"]
        self._width = max([self._width, *(len(step["id"]) for step in view["steps"])])
        blocked = blocked_text(view["blocked"]) if view["blocked"] else ""
        if blocked and blocked != self._blocked:
            self._say("", "execution", as_text(f"blocked: {blocked}", "yellow"))
        self._blocked = blocked

    def event(self, event: Mapping[str, Any]) -> None:
        told = tell(event)
        since = duration_text(seconds_between(self._created_at, event["at"]))
        self._say(since, told.subject, as_text(told.text, told.style))

    def trouble(self, fault: StepdError | None) -> None:
        if fault is not None and not self._is_away:
            self._say("", "daemon", as_text(f"no answer, trying again: {explain(fault)}", "yellow"))
        self._is_away = fault is not None

    def tick(self) -> None:
        """Lines wait for nothing."""

    def _say(self, since: str, subject: str, text: Text) -> None:
        say(f"{since:>{TIME_WIDTH}}  {subject:<{self._width}}  ", text)


class Silent:
    """Shows nothing: the caller wants the end only."""

    shows_children = False

    def view(self, view: Mapping[str, Any]) -> None: ...

    def event(self, event: Mapping[str, Any]) -> None: ...

    def trouble(self, fault: StepdError | None) -> None: ...

    def tick(self) -> None: ...
