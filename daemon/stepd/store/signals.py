"""What all stores hold to when they show the signals that no wait took."""

from __future__ import annotations

from typing import Final

from stepd.engine.model import Execution

SIGNAL_HEADS: Final = "execution_id, number, name, source, received_at, taken_by, fits"
"""The columns of a signal but its payload, which stands last: reading these does not read that."""
PAYLOADS_BYTES: Final = 1_048_576
"""A view shows so much of their payloads, the first ones whole; the rest come without theirs."""


def has_untaken(execution: Execution) -> bool:
    """Whether the execution has ended with signals that no wait took."""
    return execution.ended_at is not None and execution.signals_kept > 0
