"""Owns what counts as this machine's own: addresses to listen on, and names and origins a browser may be sent by."""

from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit


def is_loopback_address(address: str) -> bool:
    """Whether a numeric address is the machine's own."""
    try:
        return ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


@lru_cache(maxsize=256)
def is_loopback_host(host: str | None) -> bool:
    """Whether a Host header names the machine itself; a page that a foreign name was made to lead here by does not."""
    name = _name(host or "")
    return name == "localhost" or is_loopback_address(name)


def is_own_origin(origin: str, host: str) -> bool:
    """Whether a page of this origin came from the very address that it now calls."""
    return urlsplit(origin).scheme in ("http", "https") and origin.partition("://")[2].lower() == host.lower()


def _name(host: str) -> str:
    """The host without its port, lower case, an IPv6 address without brackets."""
    try:
        return (urlsplit(f"//{host}").hostname or "") if not {*host} & set("/?#@ ") else ""
    except ValueError:
        return ""
