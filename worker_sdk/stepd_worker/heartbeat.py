"""Owns the heartbeats: one thread and one connection, so that no body that holds up the loop can lose a lease.

The thread also keeps the leases' clocks: it is what stops a body when no answer comes. Only a single call into C that
keeps the interpreter's lock for longer than a lease lasts can hold it up.
"""

import asyncio
import logging
import random
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from stepd_protocol.leases import CancelWish, Heartbeat
from stepd_protocol.limits import Limits
from stepd_worker.connection import PlainConnection
from stepd_worker.events import tell, wait_at_most
from stepd_worker.held import Held, nothing
from stepd_worker.pulse import Pulse
from stepd_worker.reports import FIELDS_BYTES, telemetry_of
from stepd_worker.retry import Backoff, is_no_answer
from stepd_worker.timing import Timing
from stepd_worker.transport import Answer, Endpoint, NoAnswer, problem_of

logger = logging.getLogger("stepd_worker")

# A lease may have so little time left that its beat must not wait longer for an answer.
SHORTEST_READ_SECONDS: Final = 0.05
SHORTEST_WAIT_SECONDS: Final = 0.1
PART_OF_PERIOD: Final = 0.9
AFTER_OWN_FAULT_SECONDS: Final = 0.5
REFUSED_BODY: Final = frozenset({400, 413, 415, 422})


class BeatAnswer(msgspec.Struct):
    """What a worker needs of a heartbeat's answer."""

    lease_seconds: float
    cancel: CancelWish | None = None
    warnings: list[str] = []


class Heartbeats:
    """Beats for every lease that was added until it is removed. `key_refused` is called from this thread."""

    def __init__(
        self,
        endpoint: Endpoint,
        key_refused: Callable[[Answer], None],
        timing: Timing,
        *,
        clock: Callable[[], float] = time.monotonic,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self.limits = Limits()
        """Known from the registration."""
        self._connection = PlainConnection(endpoint)
        self._key_refused = key_refused
        self._timing = timing
        self._clock = clock
        self._uniform = uniform
        self._held: dict[str, Held] = {}
        self._changed = threading.Condition()
        self._wakes_at = float("inf")
        self._news = False
        self._stopping = False
        self._when_ended: Callable[[], None] = nothing
        self._look: Callable[[float], None] = lambda now: None
        self._thread = threading.Thread(target=self._run, name="stepd-heartbeats", daemon=True)

    def start(self) -> None:
        """Starts the thread, which also watches over the running loop whenever it is awake."""
        self._look = Pulse(self._timing.loop_still).look
        self._thread.start()

    async def stop(self, seconds: float) -> None:
        """Ends the thread; waits so long for a beat that is in flight.

        The thread itself tells: a wait on the loop's pool of threads could stand behind bodies that hold all of them.
        """
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        with self._changed:
            self._when_ended = partial(tell, loop, ended)
            self._stopping = True
            self._changed.notify()
        if self._thread.is_alive():
            await wait_at_most(ended, seconds)

    def add(self, held: Held) -> None:
        """Begins to beat for a lease, first when its `beat_at` has come."""
        held.announce = lambda: self.hurry(held)
        with self._changed:
            self._held[held.id] = held
            self._wake_for(held)

    def resume(self, held: Held) -> None:
        """Begins to beat for a lease whose clock alone was kept so far."""
        with self._changed:
            held.beats = True
            self._wake_for(held)

    def remove(self, held: Held) -> None:
        """Ends the beats of a lease; an answer that is still under way means nothing."""
        with self._changed:
            self._held.pop(held.id, None)

    def run_once(self) -> float:
        """Looks at every clock and sends the most overdue beat; returns the seconds until there is more to do."""
        now = self._clock()
        with self._changed:
            self._news = False
            leases = list(self._held.values())
        for held in leases:
            held.check_clock(now)
            self._report_stuck(held, now)
        beating = [held for held in leases if held.beats]
        next_event = min((held.next_event_at(now) for held in leases), default=float("inf"))
        due = min(beating, key=lambda held: held.beat_at, default=None)
        if due is not None and due.beat_at <= now:
            longest = min(self._timing.beat, due.lease.heartbeat_seconds * PART_OF_PERIOD, next_event - now)
            self._try_to_beat(due, now, max(longest, SHORTEST_READ_SECONDS))
            return 0
        return min(next_event, due.beat_at if due is not None else float("inf")) - now

    # --- One beat

    def _try_to_beat(self, held: Held, now: float, read_seconds: float) -> None:
        """What goes wrong with one lease's beat is that lease's alone: the others' turn comes."""
        try:
            self._beat(held, now, read_seconds)
        except Exception:
            logger.exception("A heartbeat of step %r failed; the next goes without telemetry", held.lease.step)
            held.beats_plainly = True
            self._later(held, now, None)

    def _beat(self, held: Held, now: float, read_seconds: float) -> None:
        started = held.lease.start_required and (held.started or held.start_wanted)
        progress, usage, spans = self._telemetry(held)
        message = Heartbeat(
            fence=held.lease.fence,
            started=started,
            progress=UNSET if progress is None else Raw(progress),
            usage=usage,
            spans=Raw(msgspec.json.encode(spans)) if spans else UNSET,
        )
        body = msgspec.json.encode(message)
        try:
            answer = self._connection.post(f"/v1/leases/{held.id}/heartbeat", body, read_seconds)
        except NoAnswer as fault:
            logger.debug("A heartbeat of lease %s got no answer: %s", held.id, fault)
            self._later(held, now, None)
            return
        if held.id not in self._held:
            return
        if answer.status == 200:
            if held.backoff is not None:
                held.backoff.reset()
            if progress is not None and held.progress is progress:
                held.progress = None
            held.spans.sent(len(spans))
            self._taken(held, now, answer, started=started)
        else:
            self._not_taken(held, now, answer)

    def _telemetry(self, held: Held) -> tuple[bytes | None, Raw | UnsetType, list[Raw]]:
        """Progress, usage and spans as far as the daemon takes them: a beat that is too large would not arrive."""
        if held.beats_plainly:
            return None, UNSET, []
        progress = held.progress
        size = len(progress or b"")
        if size > self.limits.progress_bytes:
            logger.warning("The progress of step %r has %d bytes and was dropped", held.lease.step, size)
            progress, size = None, 0
            held.progress = None
        room = self.limits.request_bytes - size - FIELDS_BYTES
        return progress, *telemetry_of(held, room)

    def _taken(self, held: Held, sent_at: float, answer: Answer, *, started: bool) -> None:
        try:
            said = msgspec.json.decode(answer.body, type=BeatAnswer)
        except msgspec.MsgspecError:  # not a daemon's, but say a proxy's: no answer
            self._later(held, sent_at, None)
            return
        for warning in said.warnings:
            logger.warning("A heartbeat of step %r: %s", held.lease.step, warning)
        # The wish comes first: a start that is answered with it must not go ahead.
        if said.cancel is not None:
            held.asked_to_stop()
        held.renewed(sent_at, said.lease_seconds, started=started and said.cancel is None)

    def _not_taken(self, held: Held, sent_at: float, answer: Answer) -> None:
        if answer.status in (401, 403):
            self._key_refused(answer)
            held.beat_at = sent_at + self._timing.refused_key
        elif answer.status == 404:
            held.ended("lease_lost")
        elif answer.status == 409:
            obey_refusal(held, sent_at, answer)
        elif answer.status in REFUSED_BODY and not held.beats_plainly:
            held.beats_plainly = True
            logger.warning("A heartbeat of step %r is sent without its telemetry: %s", held.lease.step, answer.status)
        else:
            self._later(held, sent_at, answer.retry_after if is_no_answer(answer.status) else None)

    def _later(self, held: Held, sent_at: float, retry_after: str | None) -> None:
        if held.backoff is None:
            held.backoff = Backoff(self._uniform)
        now = max(self._clock(), sent_at)
        delay = held.backoff.delay_seconds(retry_after)
        if retry_after is None and now < held.lapses_at:
            # However long it went unanswered, there is a beat shortly before the lease lapses: it may save it.
            delay = min(delay, max((held.lapses_at - now) / 2, SHORTEST_WAIT_SECONDS))
        held.beat_at = now + delay

    # --- The thread

    def _run(self) -> None:
        delay = 0.0
        while self._sleep(delay):
            try:
                self._look(self._clock())
                delay = self.run_once()
            except Exception:
                logger.exception("A heartbeat failed")
                delay = AFTER_OWN_FAULT_SECONDS
        self._connection.close()
        self._when_ended()

    def _sleep(self, seconds: float) -> bool:
        """Sleeps until then, or until there is news; False when it is time to end."""
        with self._changed:
            if seconds > 0 and not self._news and not self._stopping:
                self._wakes_at = self._clock() + seconds
                self._changed.wait(min(seconds, threading.TIMEOUT_MAX))
                self._wakes_at = float("inf")
            return not self._stopping

    def _wake_for(self, held: Held) -> None:
        """Wakes the thread where it would sleep too long for this lease.

        Under load most leases are gone long before the thread would look at them: it is not woken for those.
        """
        first = min(held.lost_at, held.times_out_at or held.lost_at, held.beat_at if held.beats else held.lost_at)
        if first < self._wakes_at:
            self._news = True
            self._changed.notify()

    def hurry(self, held: Held) -> None:
        """Has the next beat of a lease sent at once."""
        with self._changed:
            held.beat_at = self._clock()
            self._news = True
            self._changed.notify()

    def _report_stuck(self, held: Held, now: float) -> None:
        """Says which bodies go on although they were told to stop: each keeps its slot."""
        reason = held.cancellation.reason
        if reason is None or not held.running:
            return
        if held.report_at == float("inf"):
            held.report_at = now + self._timing.stuck
            held.told_at = now
        elif now >= held.report_at:
            told = now - held.told_at
            held.report_at = now + told
            logger.warning(
                "The body of step %r (execution %s) runs on, %d s after it was told to stop (%s): its slot stays taken",
                held.lease.step,
                held.lease.execution.id,
                told,
                reason,
            )


def obey_refusal(held: Held, sent_at: float, answer: Answer) -> None:
    """Acts on a 409: each of the four reasons has its own reaction; one that isn't known is taken for `lease_lost`."""
    problem = problem_of(answer)
    match problem.get("reason"):
        case "lease_expired":
            left = problem.get("reclaim_seconds")
            held.expired(sent_at, held.lease.reclaim_seconds if left is None else float(left))
        case "execution_ended":
            held.ended("execution_ended")
        case "already_settled":
            held.ended("already_settled")
        case _:
            held.ended("lease_lost")
