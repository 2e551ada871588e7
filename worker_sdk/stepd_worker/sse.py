"""Owns the reading of server-sent events: lines in, events out."""

from collections.abc import AsyncIterable, AsyncIterator
from typing import NamedTuple


class ServerEvent(NamedTuple):
    """One event: its id, empty where it has none, and its data."""

    id: str
    data: str


async def read_events(lines: AsyncIterable[bytes]) -> AsyncIterator[ServerEvent]:
    """Reads events as the lines come. Comments are passed over; one that the end cuts off is dropped."""
    event_id, data = "", list[str]()
    async for raw in lines:
        line = raw.decode("utf-8").rstrip("\r\n")
        if not line:
            if data:
                yield ServerEvent(event_id, "\n".join(data))
            event_id, data = "", []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "id":
            event_id = value
        elif name == "data":
            data.append(value)
