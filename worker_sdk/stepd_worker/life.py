"""Owns one life of a worker: it registers, works in its slots, and ends in order when it is told to."""

import asyncio
import logging
import uuid
from collections.abc import Coroutine, Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec

from stepd_protocol.definitions import RegisteredWorkflow
from stepd_protocol.leases import Lease
from stepd_worker.attempts import Attempts, BodyKey
from stepd_worker.bodies import Threads
from stepd_worker.claims import Claims, Following, Identity
from stepd_worker.errors import WorkerRefused
from stepd_worker.heartbeat import Heartbeats
from stepd_worker.held import Held
from stepd_worker.outcomes import NOT_BEGUN
from stepd_worker.reports import report
from stepd_worker.retry import is_no_answer
from stepd_worker.settling import Dealt, Sender
from stepd_worker.slots import Slots
from stepd_worker.timing import Timing
from stepd_worker.tracing import watch_provider
from stepd_worker.transport import Answer, Endpoint, NoAnswer, Transport, api_error
from stepd_worker.workflow import Body, Workflow

logger = logging.getLogger("stepd_worker")

SPANS_POLL_SECONDS: Final = 0.02


class Life:
    """Made and run on the loop that it works on; `stop` may be called from any thread."""

    def __init__(
        self,
        endpoint: Endpoint,
        name: str,
        workflows: Sequence[Workflow],
        *,
        concurrency: int,
        drain_seconds: float,
        timing: Timing,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._workflows = workflows
        self._drain_seconds = drain_seconds
        self._timing = timing
        self._endpoint = endpoint
        self._transport = Transport(endpoint)
        self._sender = Sender(self._transport, self._key_refused, timing)
        self._slots = Slots(concurrency)
        self._threads = Threads(concurrency)
        self._heartbeats = Heartbeats(endpoint, self._key_refused, timing)
        self._claims = Claims(Identity(name, str(uuid.uuid4())), self._sender, self._slots, self._begin, self._register)
        self._bodies: dict[BodyKey, Body] = {}
        self._held: dict[str, Held] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._refused: WorkerRefused | None = None
        self._stopping = asyncio.Event()
        """No claim is made and no body begins."""
        self._told = asyncio.Event()
        """Somebody wants it to end: the drain's time counts from here."""
        self._at_once = asyncio.Event()
        self._attempts = Attempts(self._bodies, self._sender, self._heartbeats, self._threads, self._stopping)

    async def run(self) -> None:
        """Works until it is told to stop. Raises WorkerRefused where the daemon does not let it work."""
        watch_provider()
        self._heartbeats.start()
        claiming = self._loop.create_task(self._claim())
        try:
            await self._stopping.wait()
            await self._drain(claiming)
        except asyncio.CancelledError:
            self._stop(drain=False)
            await self._drain(claiming)
            raise
        finally:
            claiming.cancel()
            await self._close()
        if self._refused is not None:
            raise self._refused

    def stop(self, *, drain: bool) -> None:
        """Ends it: after its bodies, or at once."""
        try:
            self._loop.call_soon_threadsafe(self._stop, drain)
        except RuntimeError:  # the loop is closed: it has ended
            pass

    def _stop(self, drain: bool) -> None:
        if not self._told.is_set() or not drain:
            how = f"bodies may run on for {self._drain_seconds:g} s" if drain else "at once"
            logger.info("Stopping with %d leases in hand: %s", len(self._held), how)
        self._stopping.set()
        self._told.set()
        if not drain:
            self._at_once.set()

    # --- Claims

    async def _claim(self) -> None:
        try:
            await self._register()
            await self._claims.run()
        except WorkerRefused as refusal:
            self._refuse(refusal)
        except Exception as fault:
            logger.exception("Claiming failed")
            self._refuse(WorkerRefused(f"Claiming failed: {fault}"))

    async def _register(self) -> None:
        registered = [await self._register_one(workflow) for workflow in self._workflows]
        for workflow, answer in zip(self._workflows, registered, strict=True):
            for step, body in workflow.bodies.items():
                self._bodies[workflow.name, answer.version, step] = body
        self._claims.serves = [w.serves(r.version) for w, r in zip(self._workflows, registered, strict=True)]
        self._claims.service = registered[0].service
        self._sender.limits = self._heartbeats.limits = registered[0].protocol.limits
        self._claims.wait_seconds = min([self._timing.wait, *(r.protocol.wait_seconds_max for r in registered)])
        names = ", ".join(f"{answer.name} {answer.version}" for answer in registered)
        logger.info("Serving %s with %d slots at %s", names, self._slots.total, self._endpoint.url)

    async def _register_one(self, workflow: Workflow) -> RegisteredWorkflow:
        content = msgspec.json.encode(workflow.definition())
        path, backoff = f"/v1/workflows/{quote(workflow.name, safe='')}", self._sender.new_backoff()
        while True:
            retry_after = None
            try:
                answer = await self._transport.send("PUT", path, content, read_seconds=self._timing.read)
            except NoAnswer as fault:
                logger.warning("Registering %s goes on: %s", workflow.name, fault)
            else:
                if answer.status in (200, 201):
                    return msgspec.json.decode(answer.body, type=RegisteredWorkflow)
                if not is_no_answer(answer.status):
                    raise WorkerRefused(f"The workflow {workflow.name!r} was not registered: {api_error(answer)}")
                retry_after = answer.retry_after
                logger.warning("Registering %s goes on after an answer of %d", workflow.name, answer.status)
            await self._sender.pause(backoff.delay_seconds(retry_after))

    def _key_refused(self, answer: Answer) -> None:
        """A call was answered with 401 or 403, on the loop or on the heartbeats' thread."""
        refusal = WorkerRefused(f"The daemon refuses this worker's key: {api_error(answer)}")
        try:
            self._loop.call_soon_threadsafe(self._refuse, refusal)
        except RuntimeError:  # the loop is closed: the worker has ended
            pass

    def _refuse(self, refusal: WorkerRefused) -> None:
        if self._refused is None:
            self._refused = refusal
            logger.error("%s", refusal)
        self._stopping.set()

    # --- Slots

    def _begin(self, dealt: Dealt, reserved: int) -> None:
        """Puts the leases of a claim into the slots that it had reserved."""
        self._fill(dealt, reserved)

    def _fill(self, dealt: Dealt, reserved: int, *, own_slot: bool = False) -> Held | None:
        """Puts leases into slots, the first into the caller's own if it has one: that one is returned."""
        own: Held | None = None
        for lease in dealt.leases:
            held = self._hold(lease, dealt)
            if held is None:
                continue
            if own_slot and own is None:
                own = held
            elif reserved > 0:
                reserved -= 1
                self._slots.take()
                self._spawn(self._work(held))
            else:
                self._spawn(self._give_back(held))
        self._slots.release(reserved)
        return own

    def _hold(self, lease: Lease, dealt: Dealt) -> Held | None:
        """A lease in hand; None where it was there already: the same id is the same lease, just renewed."""
        known = self._held.get(lease.id)
        if known is not None:
            known.renewed(dealt.sent_at + dealt.held_seconds, lease.lease_seconds, started=False)
            return None
        held = self._held[lease.id] = Held(lease, dealt.sent_at, dealt.held_seconds)
        return held

    async def _work(self, held: Held) -> None:
        """Keeps one slot busy, lease after lease, until an outcome brings no other."""
        try:
            current: Held | None = held
            while current is not None:
                current = await self._one(current)
        finally:
            self._slots.leave()

    async def _one(self, held: Held) -> Held | None:
        following: Following | None = None
        dealt: Dealt | None = None
        try:
            said = await self._attempts.run(held)
            if said is not None:
                held.spans.tell_dropped(held.lease.step)
                await self._send_spans_ahead(held)
                if held.over is None and not self._stopping.is_set():
                    following = self._claims.following()
                last_word = report(held, said, following.body if following else None, self._sender.limits)
                held.spans.close()
                dealt = await self._sender.settle(held, last_word)
        finally:
            held.spans.close()
            self._heartbeats.remove(held)
            self._held.pop(held.id, None)
            held.let_go()
            if dealt is None and following is not None:
                self._slots.release(following.reserved)
        if dealt is None or following is None:
            return None
        return self._fill(dealt, following.reserved, own_slot=True)

    async def _send_spans_ahead(self, held: Held) -> None:
        """Lets heartbeats take what spans an outcome's call has no room for, so that no tokens go uncounted."""
        if not held.spans:
            return
        give_up_at = self._sender.clock() + self._timing.last_words
        while held.spans.exceeds_call() and held.over is None and self._sender.clock() < give_up_at:
            self._heartbeats.hurry(held)
            await self._sender.pause(SPANS_POLL_SECONDS)

    async def _give_back(self, held: Held) -> None:
        """Returns a lease for which there is no slot; it was never begun."""
        try:
            await self._sender.settle(held, report(held, NOT_BEGUN))
        finally:
            self._held.pop(held.id, None)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("A slot failed; its lease will lapse", exc_info=task.exception())

    # --- The end

    async def _drain(self, claiming: "asyncio.Task[None]") -> None:
        """Lets bodies end; at the latest when the drain's time is over they are told to, and called interrupted."""
        withdrawal = self._loop.create_task(self._claims.withdraw(claiming, self._timing.last_words))
        hurry = self._loop.create_task(_set(self._at_once))
        await asyncio.wait({withdrawal, hurry}, return_when=asyncio.FIRST_COMPLETED)
        for task in (withdrawal, hurry, claiming):
            task.cancel()
        if self._refused is not None:
            # Nobody is in a hurry: the outcomes are sent until they are taken or given up, unless somebody stops that.
            await self._until_idle(self._told)
        await self._until_idle(self._at_once, self._drain_seconds)
        if not self._tasks:
            return
        for held in list(self._held.values()):
            held.cancel("shutting_down")
        never = asyncio.Event()
        hurried = self._at_once.is_set()
        last_words = self._timing.last_words_at_once if hurried else self._timing.last_words
        await self._until_idle(never if hurried else self._at_once, last_words)
        for task in list(self._tasks):
            task.cancel()
        await self._until_idle(never, last_words)
        for held in self._held.values():
            logger.error("The outcome of step %r (lease %s) could not be sent in time", held.lease.step, held.id)

    async def _until_idle(self, unless: asyncio.Event, seconds: float | None = None) -> None:
        """Waits until no lease is in hand, unless an event or the end of so many seconds comes first."""
        ends_at = None if seconds is None else self._loop.time() + seconds
        event = self._loop.create_task(_set(unless))
        try:
            while self._tasks and not event.done():
                left = None if ends_at is None else ends_at - self._loop.time()
                if left is not None and left <= 0:
                    return
                await asyncio.wait({*self._tasks, event}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            event.cancel()

    async def _close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        hurried = self._at_once.is_set()
        patience = self._timing.last_words_at_once if hurried else self._timing.last_words
        await self._heartbeats.stop(patience)
        self._threads.close()
        await self._transport.close()


async def _set(event: asyncio.Event) -> None:
    await event.wait()
