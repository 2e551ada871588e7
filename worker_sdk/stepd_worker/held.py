"""Owns a lease in hand: until when it lasts by this process's clock, why its body must stop, what its heartbeats tell.

The loop, the body and the heartbeat thread all touch it, so that every change happens under its lock. What an answer
changes is this lease alone, whatever runs by then on the thread that once had its body.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Final, Literal, TypeAlias

from stepd_protocol.leases import Lease, Usage
from stepd_worker.errors import Cancelled, CancelReason
from stepd_worker.retry import Backoff
from stepd_worker.spans import SpanLog

Over: TypeAlias = Literal["lease_lost", "execution_ended", "already_settled"]
"""How a lease ended without its holder's word: nobody waits for an ordinary outcome any more."""

# A stronger reason takes the place of a weaker one, never the other way round.
_STRENGTH: Final[dict[CancelReason, int]] = {
    "cancel_requested": 1,
    "shutting_down": 2,
    "execution_ended": 3,
    "lease_lost": 3,
}
BEAT_AFTER_TIMEOUT_SECONDS: Final = 1.0
_NEVER: Final = float("inf")


class Cancellation:
    """An event that tells a body to stop, and why. Reading it is safe from every thread."""

    def __init__(self) -> None:
        self.reason: CancelReason | None = None
        self._lock = threading.Lock()
        self._event: threading.Event | None = None

    def is_set(self) -> bool:
        """Whether the body is asked to stop."""
        return self.reason is not None

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until the body is asked to stop, or so many seconds; blocks, so it is for plain functions."""
        with self._lock:
            if self.reason is not None:
                return True
            # Made only for who waits: most bodies never do.
            event = self._event = self._event or threading.Event()
        return event.wait(seconds)

    def set(self, reason: CancelReason) -> bool:
        """Asks to stop; False where the same or a stronger reason stands already."""
        with self._lock:
            if self.reason is not None and _STRENGTH[self.reason] >= _STRENGTH[reason]:
                return False
            self.reason = reason
            if self._event is not None:
                self._event.set()
            return True


class Held:
    """One lease in hand. `sent_at` is when the call that dealt it was sent, `held_seconds` how long it was held.

    Times are seconds of the monotonic clock.
    """

    def __init__(self, lease: Lease, sent_at: float, held_seconds: float = 0) -> None:
        begins = sent_at + max(held_seconds, 0)
        self.lease = lease
        self.id = lease.id
        self.cancellation = Cancellation()
        self.spans = SpanLog(lease.traceparent)
        self.started = not lease.start_required
        """Whether something may have happened outside, as far as the daemon knows."""
        self.over: Over | None = None
        self.lapses_at = begins + lease.lease_seconds
        self.lost_at = self.lapses_at + lease.reclaim_seconds
        self.times_out_at = None if lease.timeout_seconds is None else begins + lease.timeout_seconds
        self.beat_at = begins + lease.heartbeat_seconds
        self.beats = True
        """Whether heartbeats are of use: until the lease ended, or lapsed by the daemon's word."""
        self.beats_plainly = False
        """Whether beats go without telemetry, since one with it was refused."""
        self.backoff: Backoff | None = None
        self.timed_out = False
        self.progress: bytes | None = None
        self.usage: dict[str, Usage] = {}
        self.running = False
        """Whether the body runs: it keeps its slot for so long."""
        self.told_at = _NEVER
        self.report_at = _NEVER
        """When a body that does not stop is reported next."""
        self.stop_body: Callable[[], None] = nothing
        """Reaches the body where an event doesn't; called from any thread, once for each stronger reason."""
        self.when_over: Callable[[], None] = nothing
        self.announce: Callable[[], None] = nothing
        """Has a heartbeat with `started` sent at once."""
        self._lock = threading.Lock()
        self._start: Future[None] | None = None

    @property
    def is_write(self) -> bool:
        return self.lease.effect != "read_only"

    @property
    def start_wanted(self) -> bool:
        """Whether a body waits for its start to be known to the daemon."""
        return self._start is not None and not self._start.done() and not self.started

    # --- What the daemon says

    def renewed(self, sent_at: float, lease_seconds: float, *, started: bool) -> None:
        """A heartbeat sent then got 200."""
        with self._lock:
            self.lapses_at = max(self.lapses_at, sent_at + lease_seconds)
            self.lost_at = self.lapses_at + self.lease.reclaim_seconds
            self.beat_at = sent_at + self._beat_seconds()
            self.started = self.started or started
            ticket = self._start if self.started else None
        if ticket is not None:
            _settle(ticket, None)

    def asked_to_stop(self) -> None:
        """A heartbeat's answer wishes the body to stop; its true outcome is still wanted."""
        self.cancel("cancel_requested")

    def expired(self, sent_at: float, reclaim_seconds: float) -> None:
        """`lease_expired`: nobody has the step yet. The body may go on for what is left, without heartbeats."""
        with self._lock:
            self.beats = False
            self.lost_at = min(self.lost_at, sent_at + reclaim_seconds)
        if self.start_wanted:
            self.cancel("lease_lost")

    def ended(self, how: Over) -> None:
        """The daemon ended the attempt, or its holder had settled it. The body stops, heartbeats too."""
        with self._lock:
            if self.over is not None:
                return
            self.over = how
            self.beats = False
        self.cancel("execution_ended" if how == "execution_ended" else "lease_lost")
        self.when_over()

    # --- What the clock says

    def check_clock(self, now: float) -> None:
        """Acts on what has passed by this process's own clock, so that no answer is needed to stop in time.

        After `lease_seconds` without a 200 the lease may have lapsed, and the step may be taken back `reclaim_seconds`
        later: until then the body may finish, at that moment it is stopped.
        """
        if self.over is None and now >= self.lost_at:
            self.ended("lease_lost")
        elif now >= self.lapses_at and self.start_wanted:
            self.cancel("lease_lost")
        if self.times_out_at is not None and now >= self.times_out_at and not self.timed_out:
            with self._lock:
                self.timed_out = True
                self.beat_at = min(self.beat_at, now)
            self.cancel("lease_lost")

    def next_event_at(self, now: float) -> float:
        """When the clock has something to say next; infinity where never."""
        events = [self.report_at] if self.over is not None else [self.report_at, self.lost_at]
        if self.start_wanted:
            events.append(self.lapses_at)
        if self.times_out_at is not None and not self.timed_out:
            events.append(self.times_out_at)
        return min((at for at in events if at > now), default=_NEVER)

    # --- What the body and the worker say

    def cancel(self, reason: CancelReason) -> None:
        """Asks the body to stop."""
        if self.cancellation.set(reason):
            self._refuse_start(reason)
            self.stop_body()

    def want_start(self) -> "Future[None]":
        """What a body waits for before its effect: done when the daemon knows; Cancelled where it must not begin."""
        with self._lock:
            if self._start is None:
                self._start = Future()
                if self.started:
                    self._start.set_result(None)
            ticket = self._start
        if self.cancellation.reason is not None:
            self._refuse_start(self.cancellation.reason)
        if not ticket.done():
            self.announce()
        return ticket

    def let_go(self) -> None:
        """Forgets its body and its listeners: the lease is settled, and nothing that comes now means anything."""
        self.stop_body = self.when_over = self.announce = nothing

    def _refuse_start(self, reason: CancelReason) -> None:
        with self._lock:
            ticket = None if self.started else self._start
        if ticket is not None:
            _settle(ticket, Cancelled(reason))

    def _beat_seconds(self) -> float:
        # A body that ran out of time waits for the daemon's word: it comes soon, and is worth asking for.
        every = self.lease.heartbeat_seconds
        return min(every, BEAT_AFTER_TIMEOUT_SECONDS) if self.timed_out else every


def _settle(ticket: "Future[None]", error: Exception | None) -> None:
    """Settles a ticket once: the clock and an answer may both want to."""
    try:
        if error is None:
            ticket.set_result(None)
        else:
            ticket.set_exception(error)
    except InvalidStateError:
        pass


def nothing() -> None:
    """Stands where nobody listens."""
