"""Which payloads a view shows of the rows it has, the same for every store."""

from __future__ import annotations

from collections.abc import Iterable

from stepd.engine.model import Attempt, Step, input_name, output_name, progress_name, stale_name


def names_shown(steps: Iterable[Step], attempts: Iterable[Attempt]) -> list[str]:
    """The names of inputs and outputs of these steps, and of progress and late outcomes of these attempts."""
    names: list[str] = []
    for row in steps:
        input_ = input_name(row.ordinal, row.index) if row.own_input else "input"
        names += [input_, output_name(row.ordinal, row.index)]
    for attempt in attempts:
        names += [progress_name(attempt.id), stale_name(attempt.id)]
    return names
