"""Owns what a body is handed beside its input: who it works for, whether to stop, and what it tells on the way."""

import asyncio
import contextvars
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from functools import cached_property, partial
from typing import Any

import msgspec

from stepd_protocol.leases import ErrorInfo, LeaseExecution, Usage
from stepd_protocol.names import Delivery, Effect, SpanKind
from stepd_worker.errors import Cancelled
from stepd_worker.held import Cancellation, Held
from stepd_worker.open_span import OpenSpan
from stepd_worker.state import StatePatch
from stepd_worker.values import encode

logger = logging.getLogger("stepd_worker.body")


class PreviousAttempt:
    """What the last attempt left, for a long body to go on from: its number (0 for none), progress and error."""

    def __init__(self, held: Held) -> None:
        previous = held.lease.previous
        self.attempt = previous.attempt
        self.progress: Any = msgspec.json.decode(previous.progress)
        self.error: ErrorInfo | None = previous.error


class Context:
    """One attempt, as its body sees it. All of it may be used from any thread."""

    def __init__(self, held: Held, *, is_async: bool) -> None:
        self._held = held
        self._is_async = is_async
        self._callbacks: list[Callable[[], object]] = []

    # --- What it works on

    @property
    def execution(self) -> LeaseExecution:
        """id, workflow, version, correlation, tenant, labels, created_at."""
        return self._held.lease.execution

    @property
    def step(self) -> str:
        return self._held.lease.step

    @property
    def index(self) -> int | None:
        """Which item or round this is, under `foreach` and `repeat`."""
        return self._held.lease.index

    @property
    def attempt(self) -> int:
        """Spent attempts + 1."""
        return self._held.lease.attempt

    @property
    def max_attempts(self) -> int:
        return self._held.lease.max_attempts

    @property
    def effect(self) -> Effect:
        return self._held.lease.effect

    @property
    def delivery(self) -> Delivery:
        return self._held.lease.delivery

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this step: what to hand to the outside service."""
        return self._held.lease.idempotency_key

    @property
    def fence(self) -> int:
        """Names this attempt, and only ever grows for a step: an outside store can refuse an older one."""
        return self._held.lease.fence

    @cached_property
    def state(self) -> StatePatch:
        """The execution's state; what is set here is sent with the outcome."""
        return StatePatch(bytes(self._held.lease.state))

    @cached_property
    def previous(self) -> PreviousAttempt:
        """What the last attempt left."""
        return PreviousAttempt(self._held)

    @cached_property
    def log(self) -> "logging.LoggerAdapter[logging.Logger]":
        """A logger whose lines name the execution, the step and the attempt."""
        return _BodyLogger(logger, {"execution": self.execution.id, "step": self.step, "attempt": self.attempt})

    def changed_state(self) -> bytes | None:
        """The patch of the state; None for none. A state that was never looked at is not even decoded."""
        return self.state.patch() if "state" in vars(self) else None

    # --- Whether to go on

    @property
    def cancelled(self) -> Cancellation:
        """An event, `.is_set()` and `.wait(seconds)`, that asks the body to stop; `.reason` says why."""
        return self._held.cancellation

    @property
    def seconds_left(self) -> float:
        """How long the attempt lasts, by this process's clock, if no further heartbeat gets through: until the lease
        lapses, or the attempt's time is over. What must end before that is bounded by it."""
        held = self._held
        ends_at = held.lapses_at if held.times_out_at is None else min(held.lapses_at, held.times_out_at)
        return max(ends_at - time.monotonic(), 0.0)

    def raise_if_cancelled(self) -> None:
        """Raises Cancelled where the body is asked to stop."""
        reason = self._held.cancellation.reason
        if reason is not None:
            raise Cancelled(reason)

    def on_cancel(self, callback: Callable[[], object]) -> None:
        """Calls back once when the body is asked to stop: an async body's on its loop, a plain one's on a thread of
        its own. At once where that was so already."""
        # In the context of who asks for it: what it traces belongs there, whichever thread calls it.
        self._callbacks.append(partial(contextvars.copy_context().run, callback))
        if self._held.cancellation.is_set():
            self.run_callbacks()

    def run_callbacks(self) -> None:
        """Calls each callback that was not called yet."""
        while self._callbacks:
            callback = self._callbacks.pop()
            try:
                callback()
            except BaseException:  # a sys.exit() in it ends nothing but itself
                logger.exception("A callback of step %r for its cancellation failed", self.step)

    @property
    def has_callbacks(self) -> bool:
        return bool(self._callbacks)

    def begin_effect(self) -> Awaitable[None]:
        """Says that the effect begins, and returns when the daemon knows; `await` it in an async body.

        For steps declared with `begins_effect`; does nothing for one that needs no such word. Raises Cancelled where
        the effect must not begin.
        """
        self.raise_if_cancelled()
        if self._held.started:
            return _Done()
        ticket = self._held.want_start()
        if self._is_async:
            return asyncio.wrap_future(ticket)
        ticket.result()
        return _Done()

    # --- What it tells

    def progress(self, value: Any) -> None:
        """Says how far it is, any JSON: shown by the next heartbeat, and handed to the next attempt. Raises ValueError
        for what is no JSON."""
        self._held.progress = encode(value)

    def set_usage(
        self,
        *,
        model: str,
        input_tokens: int = 0,
        cache_read_tokens: int = 0,
        cache_write_tokens: int = 0,
        output_tokens: int = 0,
        reasoning_tokens: int = 0,
    ) -> None:
        """Says what the attempt used of one model in all, in place of the sum over its spans. The last word counts."""
        usage = Usage(
            model=model,
            input_tokens=input_tokens,
            cache_read_tokens=cache_read_tokens,
            cache_write_tokens=cache_write_tokens,
            output_tokens=output_tokens,
            reasoning_tokens=reasoning_tokens,
        )
        self._held.usage = {**self._held.usage, model: usage}

    def span(self, name: str, *, kind: SpanKind = "internal", **attributes: Any) -> OpenSpan:
        """Records a span: `with ctx.span("model call") as span: span.usage(model=…, output_tokens=…)`."""
        return OpenSpan(self._held.spans, name, kind, attributes)


class _BodyLogger(logging.LoggerAdapter[logging.Logger]):
    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        about = self.extra or {}
        text = f"{about['execution']} {about['step']} #{about['attempt']}: {msg}"
        return text, {**kwargs, "extra": {**about, **(kwargs.get("extra") or {})}}


class _Done(Awaitable[None]):
    """What is done already, for a body that awaits it."""

    def __await__(self) -> Any:
        return iter(())
