"""What a decision asks a store for, and the rows it has been given."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from stepd.engine.model import NO_INDEX, Attempt, Execution, Ledger, Signal, Step

StepKey: TypeAlias = tuple[int, int]


class Need(NamedTuple):
    """Something a decision must see that the store has not loaded yet."""

    kind: Literal[
        "step",
        "attempt",
        "payload",
        "unsettled",
        "rows",
        "own_rows",
        "items",
        "kept",
        "signal",
        "source",
        "attempts",
        "ledger",
        "success",
    ]
    """``kept`` are the signals of that ``name`` that no wait has taken, in the order they came, without their payloads;
    ``signal`` is the one whose number is ``ordinal``, whole; ``source`` is whether a signal of the event ``name`` has
    been received. ``attempts`` are all of the execution; ``ledger`` is the resolution under the key ``name``;
    ``success`` the step row with the highest ``standing_seq`` below ``item``, of the steps whose ordinals ``name``
    lists as JSON. ``rows`` are all step rows, ``own_rows`` those of steps without their items, ``items`` all of the
    step ``ordinal`` with their outputs."""
    name: str = ""
    ordinal: int = 0
    item: int = NO_INDEX


class Missing(Exception):
    """Raised by a decision that needs more rows: the store loads them and runs the decision again from the start."""

    def __init__(self, *needs: Need) -> None:
        super().__init__(needs)
        self.needs = needs


class Loaded:
    """The rows a store has loaded for one decision; never changed by it."""

    __slots__ = (
        "all_attempts",
        "attempts",
        "execution",
        "items",
        "kept",
        "ledger",
        "own_rows",
        "payloads",
        "rows",
        "signals",
        "sources",
        "steps",
        "successes",
        "unsettled",
    )

    def __init__(self, execution: Execution) -> None:
        self.execution = execution
        self.steps: dict[StepKey, Step | None] = {}
        self.attempts: dict[str, Attempt | None] = {}
        self.payloads: dict[str, bytes | None] = {}
        self.kept: dict[str, list[Signal]] = {}
        """By name the signals that no wait has taken, without payloads."""
        self.signals: dict[int, Signal] = {}
        """Whole ones by their number."""
        self.sources: dict[str, bool] = {}
        self.unsettled: list[StepKey] | None = None
        """Rows with an attempt in flight, or open with an effect that isn't ``none``."""
        self.rows: list[StepKey] | None = None
        """Every step row of the execution, also those of items."""
        self.own_rows: list[StepKey] | None = None
        """Every step's own row."""
        self.items: set[int] = set()
        """Steps of which the rows and outputs of all items are among the rows above."""
        self.all_attempts: list[str] | None = None
        """Every attempt of the execution, by id."""
        self.ledger: dict[str, Ledger | None] = {}
        """Resolutions by the key of their call."""
        self.successes: dict[Need, StepKey | None] = {}
