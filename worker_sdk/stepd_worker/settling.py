"""Owns the sending of outcomes: the same bytes until there is an answer, and the reaction to each answer."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import Raw

from stepd_protocol.leases import Lease
from stepd_protocol.limits import Limits
from stepd_worker.heartbeat import REFUSED_BODY
from stepd_worker.held import Held
from stepd_worker.reports import Report, after_refusal
from stepd_worker.retry import Backoff, is_no_answer
from stepd_worker.timing import Timing
from stepd_worker.transport import Answer, NoAnswer, Transport, problem_of

logger = logging.getLogger("stepd_worker")

T = TypeVar("T")


class Dealt(NamedTuple):
    """Leases that an answer brought, and the clock they count from."""

    leases: list[Lease]
    sent_at: float
    held_seconds: float


class Replied(NamedTuple):
    """An answer, when the call that got it was sent, and what it says if it took an outcome."""

    answer: Answer
    sent_at: float
    taken: "Taken | None" = None


class Taken(msgspec.Struct):
    """What a worker needs of the answer to a complete or fail. Without `late` it is no daemon's answer."""

    late: bool
    leases: list[Raw] = []
    held_seconds: float = 0
    warnings: list[str] = []


@dataclass
class Sender:
    """The worker's calls over the shared transport."""

    transport: Transport
    key_refused: Callable[[Answer], None]
    timing: Timing
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    new_backoff: Callable[[], Backoff] = field(default=Backoff)
    limits: Limits = field(default_factory=Limits)
    """Known from the registration."""

    async def settle(self, held: Held, report: Report) -> Dealt | None:
        """Sends an outcome until it is answered, and returns what its `next` was dealt; None for nothing.

        With a refused key it is given up five minutes after the step can have been taken back.
        """
        said: Report | None = report
        while said is not None:
            if len(said.body) > self.limits.request_bytes:
                # Not even sent: the daemon would cut the connection on the way, and that reads like no answer.
                said = self._after_refusal(held, said, self._too_large(said))
                continue
            replied = await self._until_answered(held, said)
            if replied is None:
                logger.error("The outcome of step %r (lease %s) was given up", held.lease.step, held.id)
                return None
            answer = replied.answer
            if replied.taken is not None:
                return self._taken(held, said, replied, replied.taken)
            if not _leaves_lease_alone(answer):
                self._log_refusal(held, answer)
                return None
            said = self._after_refusal(held, said, f"{problem_of(answer).get('detail', '')}")
        logger.error("The outcome of step %r (lease %s) was given up: it was refused", held.lease.step, held.id)
        return None

    def _after_refusal(self, held: Held, refused: Report, why: str) -> Report | None:
        logger.error("The daemon cannot take the outcome of step %r: %s", held.lease.step, why)
        return after_refusal(held, refused, why)

    def _too_large(self, said: Report) -> str:
        return f"The {said.call} has {len(said.body)} bytes; {self.limits.request_bytes} are allowed"

    async def once(self, path: str, body: bytes, read_seconds: float) -> Replied:
        """Sends one call once. Raises NoAnswer."""
        sent_at = self.clock()
        return Replied(await self.transport.send("POST", path, body, read_seconds=read_seconds), sent_at)

    async def _until_answered(self, held: Held, report: Report) -> Replied | None:
        path, backoff = f"/v1/leases/{held.id}/{report.call}", self.new_backoff()
        while True:
            retry_after = None
            try:
                replied = await self.once(path, report.body, self.timing.read)
            except NoAnswer as fault:
                logger.info("The outcome of step %r is sent again: %s", held.lease.step, fault)
            else:
                answer = replied.answer
                if answer.status in (401, 403):
                    self.key_refused(answer)
                    if self.clock() >= held.lost_at + self.timing.give_up_after_lost:
                        return None
                    await self.pause(self.timing.refused_key)
                    continue
                if answer.status == 200:
                    replied = replied._replace(taken=decoded(answer, Taken))
                if replied.taken is not None or not (answer.status == 200 or is_no_answer(answer.status)):
                    return replied
                retry_after = answer.retry_after
                logger.info("The outcome of step %r is sent again: %d", held.lease.step, answer.status)
            await self.pause(backoff.delay_seconds(retry_after))

    def _taken(self, held: Held, report: Report, replied: Replied, taken: Taken) -> Dealt | None:
        held.spans.sent(report.spans)
        for warning in taken.warnings:
            logger.warning("The outcome of step %r was taken: %s", held.lease.step, warning)
        return Dealt(readable(taken.leases), replied.sent_at, taken.held_seconds)

    def _log_refusal(self, held: Held, answer: Answer) -> None:
        problem = problem_of(answer)
        logger.warning(
            "The outcome of step %r (execution %s, attempt %d) was not taken: %s",
            held.lease.step,
            held.lease.execution.id,
            held.lease.attempt,
            problem.get("reason") or problem.get("detail") or answer.status,
        )


def decoded(answer: Answer, kind: type[T]) -> T | None:
    """An answer's body; None where it is none of a daemon's, but say of a proxy: then it was no answer."""
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except msgspec.MsgspecError as fault:
        logger.warning("An answer is none of a stepd daemon's: %s", fault)
        return None


def readable(leases: Sequence[Raw]) -> list[Lease]:
    """The leases that this SDK can read; one that it can't lapses, and goes to a worker that can."""
    found = []
    for raw in leases:
        try:
            found.append(msgspec.json.decode(raw, type=Lease))
        except msgspec.MsgspecError as fault:
            logger.error("A lease cannot be read and is left to others: %s", fault)
    return found


def _leaves_lease_alone(answer: Answer) -> bool:
    """Whether a refusal was of the bytes alone: a 422 with `settled` has settled the attempt, 404 and 409 end it."""
    if answer.status == 422:
        return "settled" not in problem_of(answer)
    return answer.status in REFUSED_BODY
