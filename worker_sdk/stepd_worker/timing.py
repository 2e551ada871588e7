"""Owns the times that a worker keeps by itself; the protocol's own come with each lease."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Seconds. The protocol's, unless a test is in a hurry."""

    wait: float = 30.0
    """How long a claim asks to be held."""
    read_margin: float = 5.0
    """How much longer than that its answer may take."""
    read: float = 10.0
    """How long the answer to any other call may take."""
    beat: float = 5.0
    """How long the answer to a heartbeat may take; less where a lease is in a hurry."""
    refused_key: float = 10.0
    """Between sends while the key is refused."""
    give_up_after_lost: float = 300.0
    """How long after a step may have been taken back an outcome is still sent with a refused key."""
    last_words: float = 2.0
    """For bodies that were told to stop at the end of a drain, and for what is said of them."""
    last_words_at_once: float = 0.5
    """The same at a second signal."""
    stuck: float = 30.0
    """After which a body that does not stop is reported; then after twice as long, and so on."""
    loop_still: float = 5.0
    """After which a body that holds up the event loop is reported."""
    empty_claim: float = 0.2
    """Before the next claim when one was answered empty without having been held."""


PROTOCOL: Final = Timing()
