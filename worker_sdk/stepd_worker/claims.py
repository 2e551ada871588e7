"""Owns the asking for work: the long poll that serves free slots, and the claim that rides on an outcome."""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Raw

from stepd_protocol.leases import ClaimRequest, NextClaim, Serves
from stepd_protocol.limits import CLAIM_LEASES_MAX
from stepd_worker.errors import WorkerRefused
from stepd_worker.retry import is_no_answer
from stepd_worker.settling import Dealt, Sender, decoded, readable
from stepd_worker.slots import Slots
from stepd_worker.transport import NoAnswer, api_error

logger = logging.getLogger("stepd_worker")

PATH: Final = "/v1/leases/claim"


class Claimed(msgspec.Struct):
    """What a worker needs of a claim's answer."""

    leases: list[Raw]
    held_seconds: float
    service: str


@dataclass(frozen=True)
class Identity:
    """Who claims: a worker's name, and this life of it."""

    worker: str
    instance: str


@dataclass(frozen=True)
class Following:
    """The claim that rides on an outcome, and how many slots it has reserved besides the one that it leaves."""

    body: bytes
    reserved: int


@dataclass(frozen=True)
class _Parked:
    """A claim under way: sent again under the same id until it is answered."""

    claim_id: str
    reserved: int


class Claims:
    """Claims as many leases as slots are free, never more. `begin` takes what a claim with so many slots was dealt."""

    def __init__(
        self,
        identity: Identity,
        sender: Sender,
        slots: Slots,
        begin: Callable[[Dealt, int], None],
        register: Callable[[], Awaitable[None]],
    ) -> None:
        self.serves: list[Serves] = []
        self.service = ""
        """The service that the worker registered with."""
        self.wait_seconds = sender.timing.wait
        self._identity = identity
        self._sender = sender
        self._slots = slots
        self._begin = begin
        self._register = register
        self._parked: _Parked | None = None
        self._answered_service: str | None = None
        self._withdrawn = False

    async def run(self) -> None:
        """Claims until it is withdrawn. Raises WorkerRefused where the daemon takes no claims from this worker."""
        while not self._withdrawn:
            await self._slots.wait_free()
            if self._answered_service not in (None, self.service):
                logger.warning("Another service answers: registering with it")
                await self._register()
            asked_at = self._sender.clock()
            parked = _Parked(_new_id(), self._slots.reserve(CLAIM_LEASES_MAX))
            self._parked = parked
            dealt = await self._until_answered(parked)
            self._parked = None
            self._begin(dealt, parked.reserved)
            if not dealt.leases and self._sender.clock() - asked_at < self._sender.timing.empty_claim:
                await self._sender.pause(self._sender.timing.empty_claim)

    def following(self) -> Following:
        """The claim to ride on an outcome: for the slot that it leaves, and what else is free and unreserved."""
        reserved = self._slots.reserve(CLAIM_LEASES_MAX - 1)
        claim = NextClaim(
            worker=self._identity.worker,
            instance=self._identity.instance,
            claim_id=_new_id(),
            serves=self.serves,
            max=1 + reserved,
        )
        return Following(msgspec.json.encode(claim), reserved)

    async def withdraw(self, polling: "asyncio.Task[None]", seconds: float) -> None:
        """Ends the long poll so that no lease is dealt unseen: the same claim is sent once more and not to be held.

        The daemon then answers the parked one empty, or both with the same leases; `begin` gets them, to give back.
        """
        self._withdrawn = True
        parked = self._parked
        if parked is not None:
            try:
                replied = await self._sender.once(PATH, self._body(parked, 0), seconds)
                claimed = decoded(replied.answer, Claimed) if replied.answer.status == 200 else None
                if claimed is not None:
                    self._begin(Dealt(readable(claimed.leases), replied.sent_at, claimed.held_seconds), 0)
            except NoAnswer as fault:
                logger.info("The parked claim could not be withdrawn: %s", fault)
            await asyncio.wait({polling}, timeout=min(seconds, self._sender.timing.empty_claim))
        polling.cancel()

    async def _until_answered(self, parked: _Parked) -> Dealt:
        """Sends a claim, the same bytes again while no answer comes."""
        body, backoff = self._body(parked, self.wait_seconds), self._sender.new_backoff()
        while True:
            retry_after = None
            try:
                replied = await self._sender.once(PATH, body, self.wait_seconds + self._sender.timing.read_margin)
            except NoAnswer as fault:
                logger.warning("Claiming goes on: %s", fault)
            else:
                answer = replied.answer
                claimed = decoded(answer, Claimed) if answer.status == 200 else None
                if claimed is not None:
                    self._answered_service = claimed.service
                    return Dealt(readable(claimed.leases), replied.sent_at, claimed.held_seconds)
                if answer.status != 200 and not is_no_answer(answer.status):
                    raise WorkerRefused(f"The daemon takes no claims from this worker: {api_error(answer)}")
                retry_after = answer.retry_after
                logger.warning("Claiming goes on after an answer of %d", answer.status)
            await self._sender.pause(backoff.delay_seconds(retry_after))

    def _body(self, parked: _Parked, wait_seconds: float) -> bytes:
        return msgspec.json.encode(
            ClaimRequest(
                worker=self._identity.worker,
                instance=self._identity.instance,
                claim_id=parked.claim_id,
                max=parked.reserved,
                wait_seconds=wait_seconds,
                serves=self.serves,
            )
        )


def _new_id() -> str:
    return str(uuid.uuid4())
