"""Owns the display of an execution on a terminal, drawn anew as it goes: a line a step, spinner, attempt, elapsed."""

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

from rich.console import Group
from rich.live import Live as RichLive
from rich.spinner import Spinner
from rich.text import Text

from stepd.cli.contact import explain
from stepd.cli.printing import as_text, columns, console, line
from stepd.cli.rows import headline
from stepd.cli.steps import STEP_HEAD, StepHistory, step_cells
from stepd.cli.tree import Below
from stepd.wording.journal import step_name
from stepd.wording.shown import now_text
from stepd_worker import StepdError

# What stands around the steps: headline, head of the table, what is left out, trouble, the cursor's own line.
LINES_AROUND: Final = 6
_AT_WORK: Final = frozenset({"running", "leased"})
# What a person looks for first when not all steps fit.
_PROMINENCE: Final = ("failed", "uncertain", "running", "leased", "retry_wait", "waiting", "queued")


class Live:
    """Draws the execution while the block lasts; what is to be seen at its end stays, in full."""

    shows_children = True

    def __init__(self) -> None:
        self._view: Mapping[str, Any] = {}
        self._history = StepHistory()
        self._below = Below()
        self._fault: StepdError | None = None
        self._spinner = Spinner("dots" if console().encoding.startswith("utf") else "line", style="cyan")
        self._live = RichLive(console=console(), auto_refresh=False, transient=True, redirect_stderr=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        self._live.stop()
        for text in self._lines(self._view.get("steps", ())):
            console().print(text, soft_wrap=True)

    def view(self, view: Mapping[str, Any]) -> None:
        self._view = view

    def event(self, event: Mapping[str, Any]) -> None:
        self._history.take(event)
        self._below.take(event)

    def trouble(self, fault: StepdError | None) -> None:
        self._fault = fault

    def tick(self) -> None:
        if self._view:
            self._live.update(self._drawn(), refresh=True)

    def _drawn(self) -> Group:
        steps = self._view["steps"]
        room = max(console().height - LINES_AROUND, 1)
        kept = _most_telling(steps, room)
        drawn = self._lines(kept, room - len(kept))
        if len(kept) < len(steps):
            drawn.append(line(f"… and {len(steps) - len(kept)} more: {_counts(steps, kept)}", style="dim"))
        if self._fault is not None:
            drawn.append(as_text(f"no answer, trying again: {explain(self._fault)}", "yellow"))
        for text in drawn:
            text.no_wrap, text.overflow = True, "ellipsis"
        return Group(*drawn)

    def _lines(self, steps: Sequence[Mapping[str, Any]], room: int | None = None) -> list[Text]:
        """The steps with what is below them, as far as there is room for that; None: as much as there is."""
        if not self._view:
            return []
        now = now_text()
        rows = []
        for step in steps:
            rows.append(step_cells(step, self._history, now, self._mark(step)))
            below = list(self._below.rows(step, now))[:room]
            rows += below
            room = None if room is None else room - len(below)
        return [headline(self._view, now), *columns(STEP_HEAD, rows)]

    def _mark(self, step: Mapping[str, Any]) -> Text | None:
        if step["status"] not in _AT_WORK:
            return None
        frame = self._spinner.render(time.monotonic())
        return frame if isinstance(frame, Text) else None


def _most_telling(steps: Sequence[Mapping[str, Any]], room: int) -> list[Mapping[str, Any]]:
    """As many steps as there is room for, in their order: those at work, waiting or in trouble before the others."""
    if len(steps) <= room:
        return list(steps)
    rank = {status: place for place, status in enumerate(_PROMINENCE)}
    by_rank = sorted(range(len(steps)), key=lambda place: rank.get(steps[place]["status"], len(rank)))
    return [steps[place] for place in sorted(by_rank[:room])]


def _counts(steps: Sequence[Mapping[str, Any]], kept: Sequence[Mapping[str, Any]]) -> str:
    """How the steps that aren't shown stand."""
    seen = {step_name(step["id"], step["index"]) for step in kept}
    counts: dict[str, int] = {}
    for step in steps:
        if step_name(step["id"], step["index"]) not in seen:
            counts[step["status"]] = counts.get(step["status"], 0) + 1
    return ", ".join(f"{count} {status}" for status, count in counts.items())
