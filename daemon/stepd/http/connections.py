"""Owns the end of a connection whose client has gone: hypercorn would keep an idle one for all its keep-alive time."""

from hypercorn.asyncio import run
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.events import Event, Updated


class Connection(TCPServer):
    """One connection, over as soon as its client has closed it and its last call has ended."""

    _left = False
    """The client sends nothing more: there is no idle time to be counted."""

    async def protocol_send(self, event: Event) -> None:
        if not (self._left and isinstance(event, Updated)):
            await super().protocol_send(event)

    async def _read_data(self) -> None:
        await super()._read_data()
        # The connection's tasks are waited for next; the one that counts idle seconds would be waited for in vain.
        self._left = True
        await self.idle_task.stop()


def let_go_of_closed() -> None:
    """Makes hypercorn serve such connections from now on; it has no setting for that."""
    run.TCPServer = Connection  # type: ignore[attr-defined] # a module's global is how hypercorn finds its class
