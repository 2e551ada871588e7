"""Owns the following of one execution until it has ended or needs reconciliation, through stops of the daemon."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Final, Protocol, TypeAlias

from stepd_protocol.names import ENDED_STATUSES
from stepd_worker import ApiError, Client, StepdError, Unreachable
from stepd_worker.retry import is_no_answer

Json: TypeAlias = dict[str, Any]
Trouble: TypeAlias = Callable[[StepdError | None], None]

SETTLED: Final = ENDED_STATUSES | {"reconciliation_required"}
TICK_SECONDS: Final = 0.1
# The view also changes without an event: a step is blocked once its last worker hasn't been heard of for a while.
REFRESH_SECONDS: Final = 5.0
# How long a daemon may be away before whoever watches is told that it doesn't come back.
PATIENCE_SECONDS: Final = 120.0
AGAIN_SECONDS: Final = 0.5
CHILDREN_DEEP: Final = 3
CHILDREN_MAX: Final = 12
"""So many children are fetched for one look, with those of children."""


class Display(Protocol):
    """Who is shown the execution. All calls come from one thread."""

    @property
    def shows_children(self) -> bool:
        """Whether steps that wait for a child are to have its view with them, as `child_view`."""

    def view(self, view: Json) -> None:
        """The execution as it is now."""

    def event(self, event: Mapping[str, Any]) -> None:
        """The next event of its journal; what was before comes first."""

    def trouble(self, fault: StepdError | None) -> None:
        """The daemon doesn't answer; None when it does again."""

    def tick(self) -> None:
        """Time has passed."""


async def follow(client: Client, execution_id: str, display: Display) -> Json:
    """Shows an execution until it has ended or needs reconciliation; its view then.

    Raises ApiError for a refusal, and Unreachable, or ApiError, when the daemon is away for two minutes.
    """
    follower = _Follower(client, execution_id, display)
    display.view(await follower.fetched())
    ticking = asyncio.create_task(follower.tick())
    try:
        async for event in follower.events():
            display.event(event)
            follower.is_stale = True
            if event["type"].removeprefix("execution.") in SETTLED:
                view = await follower.view()
                # One that needed reconciliation may have gone on since.
                if event["type"] == f"execution.{view['status']}":
                    return view
        return await follower.view()
    finally:
        ticking.cancel()


async def events_to_the_end(
    client: Client, execution_id: str, after: int, trouble: Trouble
) -> AsyncGenerator[Json, None]:
    """The journal beyond an event until the execution has ended; a stream that broke is taken up where it broke.

    `trouble` hears each time that the daemon doesn't answer, and None with each event. Raises as `follow` does.
    """
    last, deadline = after, time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            async for event in client.events.aio(execution_id, after=last, live=True):
                trouble(None)
                last, deadline = event["seq"], time.monotonic() + PATIENCE_SECONDS
                yield event
            return
        except StepdError as fault:
            _endure(fault, deadline, trouble)
            await asyncio.sleep(AGAIN_SECONDS)


class _Follower:
    """One execution that is being followed: its events as they come, and its view when they have made it stale."""

    def __init__(self, client: Client, execution_id: str, display: Display) -> None:
        self.is_stale = False
        self._client = client
        self._id = execution_id
        self._display = display

    def events(self) -> AsyncGenerator[Json, None]:
        """The journal from its beginning, to its end."""
        return events_to_the_end(self._client, self._id, 0, self._display.trouble)

    async def view(self) -> Json:
        """The view as it is now, shown and returned, as soon as the daemon answers."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                view = await self.fetched()
            except StepdError as fault:
                _endure(fault, deadline, self._display.trouble)
            else:
                self._display.view(view)
                return view

    async def fetched(self) -> Json:
        """The view, with those of its children where they are shown. Raises StepdError."""
        view = await self._client.get.aio(self._id)
        if self._display.shows_children:
            await self._add_children(view, CHILDREN_DEEP, [CHILDREN_MAX])
        return view

    async def _add_children(self, view: Json, deep: int, left: list[int]) -> None:
        """A child that the key may not read, or that is gone, is left out."""
        for step in view["steps"]:
            if "child" not in step or not left[0]:
                continue
            left[0] -= 1
            try:
                step["child_view"] = await self._client.get.aio(step["child"])
            except ApiError as fault:
                if is_no_answer(fault.status):
                    raise
            else:
                if deep > 1:
                    await self._add_children(step["child_view"], deep - 1, left)

    async def tick(self) -> None:
        """Lets time pass for the display, and fetches the view where events came since, and now and then."""
        fetched = time.monotonic()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            if self.is_stale or time.monotonic() > fetched + REFRESH_SECONDS:
                self.is_stale, fetched = False, time.monotonic()
                await self._refresh()
            self._display.tick()

    async def _refresh(self) -> None:
        try:
            self._display.view(await self.fetched())
        except StepdError:
            # The stream of events meets the same trouble and says so.
            self.is_stale = True


def _endure(fault: StepdError, deadline: float, trouble: Trouble) -> None:
    """Says that the daemon is away; raises what can't pass, or has lasted too long."""
    if not may_pass(fault) or time.monotonic() > deadline:
        raise fault
    trouble(fault)


def may_pass(fault: StepdError) -> bool:
    """Whether the daemon is away, and may be back soon."""
    return isinstance(fault, Unreachable) or (isinstance(fault, ApiError) and is_no_answer(fault.status))
