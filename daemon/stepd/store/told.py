"""What is told after a commit: what it made true, what it wrote, and how it went."""

from __future__ import annotations

import msgspec

from stepd.engine.work import Changes


class Batch(msgspec.Struct, frozen=True):
    """How one commit went: how many units of work shared it, and how long it took (s)."""

    units: int
    seconds: float
    """From the beginning of the transaction to its end."""
    commit_seconds: float
    """Of that, until the commit was durable."""


class Tell(msgspec.Struct):
    """What a commit made true, for those who wait: told once after each commit."""

    ready: bool
    """Some step became claimable."""
    executions: dict[str, tuple[int, str]]
    """Executions with new events: id → (last seq, status)."""
    timer: int | None
    """The earliest new time (ms, store's clock) at which the sweeper has something to do."""
    keys: bool = False
    """Keys were added or revoked."""
    prices: bool = False
    """There is a new version of the table of prices."""
    errands: bool = False
    """Something is to be carried between an execution and its parent or its children."""
    everything: bool = False
    """Whatever was told of other daemons' commits may be incomplete: who waits looks for himself."""
    written: list[Changes] = []
    """What this daemon's decisions wrote, in order; nothing of what others did."""
    batch: Batch | None = None
    """Of a commit of this daemon's decisions."""
