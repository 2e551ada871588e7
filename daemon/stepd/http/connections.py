"""Owns the end of a connection whose client has gone: hypercorn would keep an idle one for all its keep-alive time."""

from hypercorn.asyncio import run
from hypercorn.asyncio.tcp_server import TCPServer


class Connection(TCPServer):
    """One connection, over as soon as its client has closed it."""

    async def _read_data(self) -> None:
        await super()._read_data()
        # The connection's tasks are waited for next; the one that counts its idle seconds is of no use any more.
        await self.idle_task.stop()


def let_go_of_closed() -> None:
    """Makes hypercorn serve such connections from now on; it has no setting for that."""
    run.TCPServer = Connection  # type: ignore[attr-defined] # a module's global is how hypercorn finds its class
