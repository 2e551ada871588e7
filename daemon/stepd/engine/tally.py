"""How far the items or rounds of a step are, counted on its own row: no decision has to look at all of them."""

from __future__ import annotations

import msgspec

from stepd.engine.model import Step

OPEN = ("running", "leased", "queued", "retry_wait", "waiting", "pending")
"""Statuses in which an item has not ended; the first of them that any item has is the step's."""
UNDER_WAY = frozenset(OPEN) - {"pending"}


class Tally(msgspec.Struct):
    """The items of one step. Those of a ``foreach`` that have no row yet count as ``pending``."""

    total: int
    """Items of the list; rounds so far."""
    made: int = 0
    """Items that have a row: the first so many."""
    begun: int = 0
    """Items that have had their turn to be queued: the first so many."""
    bytes: int = 0
    """What the outputs of those that succeeded weigh together."""
    since: int = 0
    """Rounds that its last fresh budget does not count."""
    caught: int = 0
    """How many of those that succeeded did so because their failure was caught."""
    counts: dict[str, int] = {}
    """How many have which status."""

    def move(self, before: str, after: str) -> None:
        """One item goes from a status to another."""
        self.counts[before] = self.counts.get(before, 0) - 1
        if self.counts[before] == 0:
            del self.counts[before]
        self.counts[after] = self.counts.get(after, 0) + 1

    def count(self, *statuses: str) -> int:
        """How many have one of these statuses."""
        return sum(self.counts.get(status, 0) for status in statuses)

    @property
    def left(self) -> int:
        """How many have not ended."""
        return self.count(*OPEN)

    @property
    def under_way(self) -> int:
        """How many have begun and not ended."""
        return self.count(*UNDER_WAY)

    @property
    def status(self) -> str:
        """What an open step's items make of it; ``queued`` where they wait for the daemon itself."""
        return next((status for status in OPEN[:-1] if status in self.counts), "queued")

    def cancel_left(self) -> int:
        """All that have not ended are ``cancelled``; answers how many."""
        left = self.left
        for status in OPEN:
            self.counts.pop(status, None)
        if left:
            self.counts["cancelled"] = self.counts.get("cancelled", 0) + left
        return left


_decode = msgspec.json.Decoder(Tally).decode
_encode = msgspec.json.Encoder().encode


def tally_of(row: Step) -> Tally:
    """The tally of a step's own row; an empty one where it failed before it had items."""
    return Tally(0) if row.items is None else _decode(row.items)


def keep_tally(row: Step, tally: Tally) -> None:
    """Writes it back."""
    row.items = _encode(tally)
