"""Owns how `stepd top` reads: lines for a picture, and the screen on which one takes the place of the other."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from rich.console import Group
from rich.live import Live as RichLive
from rich.text import Text

from stepd.cli.contact import explain
from stepd.cli.printing import STATUS_STYLES, Cell, as_text, columns, console, line
from stepd.cli.state import Json
from stepd.wording.shown import duration_text, now_text, seconds_between, shown
from stepd_worker import StepdError

QUEUE_HEAD: Final = ("workflow", "queued", "oldest", "without a worker")
WORKERS_HEAD: Final = ("worker", "instance", "leases", "seen", "serves")
SERVES_SHOWN: Final = 4
SHARE_OF_QUEUE: Final = 0.4
"""Of the lines that are free, so many are the queue's at most while there are more workers than fit."""
INSTANCE_LENGTH: Final = 12


def lines(found: Json, height: int | None = None) -> list[Text]:
    """All of it, or what fits into so many lines: the queues that have waited longest, the workers that have most."""
    top = [_headline(found), *_totals(found), Text()]
    queue = [] if found["queue"] is None else [_queue_cells(one) for one in found["queue"]]
    workers = [_worker_cells(one) for one in found["workers"]]
    if height is None:
        return [*top, *_table(QUEUE_HEAD, queue, len(queue)), Text(), *_table(WORKERS_HEAD, workers, len(workers))]
    free = max(2, height - len(top) - 5)
    for_queue = min(len(queue), max(int(free * SHARE_OF_QUEUE), free - len(workers), 1))
    shown_queue = _table(QUEUE_HEAD, queue, for_queue)
    return [*top, *shown_queue, Text(), *_table(WORKERS_HEAD, workers, max(1, free - for_queue))]


class Screen:
    """The terminal as long as the block lasts; what was on it before comes back afterwards."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._found: Json | None = None
        self._live = RichLive(console=console(), auto_refresh=False, screen=True, redirect_stderr=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        self._live.stop()

    def show(self, found: Json | None, fault: StepdError | None) -> None:
        """Shows what was found; while the daemon doesn't answer, what was found last, and why."""
        self._found = found or self._found
        drawn = [] if self._found is None else lines(self._found, console().height - 2)
        if fault is not None:
            drawn.append(as_text(f"no answer, trying again: {explain(fault)}".replace("\n", " "), "yellow"))
        for text in drawn:
            text.no_wrap, text.overflow = True, "ellipsis"
        self._live.update(Group(*drawn), refresh=True)


def _headline(found: Json) -> Text:
    service = found["service"]
    state: dict[bool | None, Cell] = {
        True: as_text("in step with its store", "green"),
        False: as_text("its store is away", "red"),
        None: as_text("/metrics is kept from here: no queues, no rates", "yellow"),
    }
    head = line(as_text(service["name"], "bold"), f" {service['version']}  ", state[found["store_in_step"]])
    return line(head, as_text(f"  {now_text()[11:19]}Z", "dim"))


def _totals(found: Json) -> list[Text]:
    rows: list[tuple[Cell, Cell]] = []
    if found["executions"] is not None:
        standing = [
            as_text(f"{count:,} {status}", STATUS_STYLES.get(status, ""))
            for status, count in found["executions"].items()
            if count
        ]
        rows.append(("executions", _joined(standing) if standing else "none"))
    if found["leases"] is not None:
        rows.append(("leases", _joined([f"{count:,} {_words(name)}" for name, count in found["leases"].items()])))
    if found["rates"] is not None:
        rows.append(("a second", _joined([f"{rate:,.1f} {_words(name)}" for name, rate in found["rates"].items()])))
    return columns(("", ""), rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[Cell]], room: int) -> list[Text]:
    """So many rows under their head, and how many more there are."""
    if not rows:
        return [as_text("nothing is queued" if head is QUEUE_HEAD else "no workers", "dim")]
    drawn = columns(head, rows[:room])
    return [*drawn, as_text(f"… and {len(rows) - room} more", "dim")] if len(rows) > room else drawn


def _queue_cells(one: Json) -> list[Cell]:
    blocked: Cell = as_text(f"{one['blocked']:,}", "red") if one["blocked"] else "-"
    return [one["workflow"], f"{one['queued']:,}", duration_text(one["oldest_seconds"]), blocked]


def _worker_cells(one: Json) -> list[Cell]:
    ago = duration_text(seconds_between(one["last_seen_at"], now_text()))
    style = "" if one["live"] else "dim"
    serves = [_serves(entry) for entry in one["serves"][:SERVES_SHOWN]]
    if len(one["serves"]) > SERVES_SHOWN:
        serves.append(f"… {len(one['serves']) - SERVES_SHOWN} more")
    instance = (
        one["instance"] if len(one["instance"]) <= INSTANCE_LENGTH else one["instance"][: INSTANCE_LENGTH - 1] + "…"
    )
    seen = ago if one["live"] else f"{ago}, gone"
    return [as_text(cell, style) for cell in (one["name"], instance, str(one["leases"]), seen, ", ".join(serves))]


def _serves(entry: Json) -> str:
    version = f" {entry['version']}" if entry.get("version") else ""
    steps = f" ({len(entry['steps'])} steps)" if entry.get("steps") else ""
    return f"{entry['workflow']}{version}{steps}"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _joined(parts: Sequence[Cell]) -> Text:
    return Text("  ").join([as_text(shown(part) if isinstance(part, str) else part) for part in parts])
