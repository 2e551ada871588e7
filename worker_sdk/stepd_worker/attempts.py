"""Owns one attempt from its lease to what is to be said of it: may it begin, does it, and how it ended."""

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from stepd_protocol.leases import Heartbeat, Lease
from stepd_worker.bodies import Threads, start_body
from stepd_worker.events import tell, wait_at_most
from stepd_worker.heartbeat import BeatAnswer, Heartbeats, obey_refusal
from stepd_worker.held import Held
from stepd_worker.outcomes import NOT_BEGUN, TOO_LATE, Completed, Failed, Outcome, Stopped, invalid_input
from stepd_worker.reports import wanted
from stepd_worker.retry import Backoff, is_no_answer
from stepd_worker.settling import Sender, decoded
from stepd_worker.state import Ancestors
from stepd_worker.transport import NoAnswer
from stepd_worker.workflow import Body

logger = logging.getLogger("stepd_worker")

BodyKey = tuple[str, str, str]
"""Workflow, version and step."""

NOT_ANNOUNCED = Failed("interrupted", "The daemon could not be told that the step begins", effect="none")


class Attempts:
    """Runs bodies. While `stopping` is set, none begins."""

    def __init__(
        self,
        bodies: Mapping[BodyKey, Body],
        sender: Sender,
        heartbeats: Heartbeats,
        threads: Threads,
        stopping: asyncio.Event,
    ) -> None:
        self._bodies = bodies
        self._sender = sender
        self._heartbeats = heartbeats
        self._threads = threads
        self._stopping = stopping

    async def run(self, held: Held) -> Completed | Failed | None:
        """Runs a lease's body and returns what is to be said of it; None for nothing.

        Cancelling the caller leaves the body alone and has its last word said.
        """
        outcome = await self._outcome(held)
        if isinstance(outcome, Stopped) and held.timed_out and held.over is None:
            await self._until_over(held)
        return wanted(held, outcome)

    async def _outcome(self, held: Held) -> Outcome:
        lease = held.lease
        body = self._bodies.get((lease.execution.workflow, lease.execution.version, lease.step))
        if body is None or body.effect != lease.effect:
            return _unservable(lease, body)
        if self._stopping.is_set():
            return NOT_BEGUN
        now = self._sender.clock()
        held.check_clock(now)
        if held.over is not None or now >= held.lapses_at:
            # The loop was held up, or the answer was: another worker may have the step by now.
            return TOO_LATE
        try:
            arguments = arguments_of(body, lease)
        except (ValueError, msgspec.MsgspecError) as fault:
            return invalid_input(fault)
        announces = lease.start_required and not body.begins_effect
        held.beats = not announces
        self._heartbeats.add(held)
        if announces:
            refused = await self._announce(held)
            if refused is not None:
                return refused
        return await self._run_body(body, held, arguments)

    async def _run_body(self, body: Body, held: Held, arguments: tuple[Any, ...]) -> Outcome:
        done = start_body(body, held, arguments, self._threads)
        held.running = True
        try:
            return await done
        except asyncio.CancelledError:
            # The worker's time is over and the body did not stop: what is left to say is that it was interrupted.
            _uncancel()
            logger.error("The body of step %r did not stop in time and was left behind", held.lease.step)
            return Stopped(None if held.started else "none")
        finally:
            held.running = False

    # --- Before anything may happen outside

    async def _announce(self, held: Held) -> Outcome | None:
        """Tells the daemon that the step begins; None when it knows and nobody wants it stopped, else the outcome."""
        backoff = self._sender.new_backoff()
        while held.over is None and not held.timed_out:
            left = held.lapses_at - self._sender.clock()
            if left <= 0:
                return NOT_ANNOUNCED
            if self._stopping.is_set():
                return NOT_BEGUN
            said = await self._say_started(held, min(self._sender.timing.beat, left), backoff)
            if not isinstance(said, float):
                return said
            await self._pause(min(said, left))
        if held.over is None:
            self._heartbeats.resume(held)
        return Stopped("none")

    async def _say_started(self, held: Held, read_seconds: float, backoff: Backoff) -> Outcome | float | None:
        """Sends one heartbeat with `started`; seconds to wait before the next where that settled nothing."""
        body = msgspec.json.encode(Heartbeat(fence=held.lease.fence, started=True))
        try:
            replied = await self._sender.once(f"/v1/leases/{held.id}/heartbeat", body, read_seconds)
        except NoAnswer:
            return backoff.delay_seconds()
        answer = replied.answer
        if answer.status == 200:
            said = decoded(answer, BeatAnswer)
            return backoff.delay_seconds() if said is None else self._begun(held, replied.sent_at, said)
        if answer.status in (401, 403):
            self._sender.key_refused(answer)
            return self._sender.timing.refused_key
        if is_no_answer(answer.status):
            return backoff.delay_seconds(answer.retry_after)
        if answer.status == 409:
            obey_refusal(held, replied.sent_at, answer)
        elif answer.status == 404:
            held.ended("lease_lost")
        else:
            logger.error("The daemon refuses the start of step %r: %s", held.lease.step, answer.status)
        return NOT_ANNOUNCED if held.over is None else Stopped("none")

    def _begun(self, held: Held, sent_at: float, said: BeatAnswer) -> Outcome | None:
        held.renewed(sent_at, said.lease_seconds, started=said.cancel is None)
        self._heartbeats.resume(held)
        if said.cancel is not None:
            held.asked_to_stop()
            return Stopped("none")
        return NOT_BEGUN if self._stopping.is_set() else None

    async def _pause(self, seconds: float) -> None:
        """Waits so long, but not beyond the moment from which nothing may begin."""
        await wait_at_most(self._stopping, seconds)

    # --- After it was told to stop

    async def _until_over(self, held: Held) -> None:
        """Waits for the daemon's word on an attempt that ran out of time; heartbeats ask for it."""
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        held.when_over = partial(tell, loop, over)
        try:
            if held.over is None:
                await over.wait()
        except asyncio.CancelledError:
            _uncancel()


def _unservable(lease: Lease, body: Body | None) -> Failed:
    execution = lease.execution
    what = f"step {lease.step!r} of {execution.workflow!r} version {execution.version!r}"
    why = (
        f"This worker has no body for {what}"
        if body is None
        else f"This worker's body for {what} is a {body.effect}, the lease's step a {lease.effect}"
    )
    return Failed("unservable", why, effect="none")


def arguments_of(body: Body, lease: Lease) -> tuple[Any, ...]:
    """What a body is handed after its context. Raises ValueError or MsgspecError where its type can't be made of it."""
    given = bytes(lease.input)
    value = msgspec.json.decode(given) if body.input_type is None else body.input_type.decode(given)
    return (value, Ancestors(lease.steps)) if body.takes_steps else (value,)


def _uncancel() -> None:
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()
