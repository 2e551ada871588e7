"""Owns the socket that the daemon listens on: where, whether that is the machine's own address, and dead peers."""

import socket
from typing import Final, NamedTuple

from stepd.http.loopback import is_loopback_address

BACKLOG: Final = 1024
# A client whose machine or network vanished says nothing: the kernel asks it, and gives up when nothing comes back.
KEEPALIVE_IDLE_SECONDS: Final = 30
KEEPALIVE_INTERVAL_SECONDS: Final = 10
KEEPALIVE_PROBES: Final = 3
UNREAD_SECONDS: Final = 60
"""A client that takes nothing of its answer for so long is cut off."""


class BindRefused(Exception):
    """The address can't be listened on; `str()` of it says why and the way out."""


class Listening(NamedTuple):
    """A socket that listens, and what is to be said of it."""

    socket: socket.socket
    host: str
    """Numeric, as it was bound."""
    port: int

    @property
    def is_loopback(self) -> bool:
        return is_loopback_address(self.host)

    @property
    def authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def listen(bind: str) -> Listening:
    """Listens on `host:port`; connections wait until they are served. Raises BindRefused."""
    host, port = host_and_port(bind)
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise BindRefused(f"--bind {bind}: {error.strerror or error}") from None
    try:
        _prepare(listener)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise BindRefused(f"--bind {bind}: {error.strerror}; stop what listens there, or give another --bind") from None
    name = listener.getsockname()
    return Listening(listener, str(name[0]), int(name[1]))


def host_and_port(bind: str) -> tuple[str, int]:
    """What `--bind` says, not looked up. Raises BindRefused."""
    host, colon, port = bind.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65_535 or (":" in host and not bracketed):
        raise BindRefused(f"--bind {bind}: write host:port, like 127.0.0.1:7117 or [::1]:7117")
    if not host:
        raise BindRefused(f"--bind {bind}: name the address; 0.0.0.0{bind} is every one of this machine")
    return host.strip("[]"), int(port)


def _prepare(listener: socket.socket) -> None:
    """Options that the accepted connections inherit."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # Not every system has these; without them a vanished client is noticed when its wait is over.
    for name, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE_SECONDS),
        ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_SECONDS),
        ("TCP_KEEPCNT", KEEPALIVE_PROBES),
        ("TCP_USER_TIMEOUT", UNREAD_SECONDS * 1000),
    ):
        if (option := getattr(socket, name, None)) is not None:
            listener.setsockopt(socket.IPPROTO_TCP, option, value)
    listener.setblocking(False)
