"""A PostgreSQL database's URL as a person may see it."""

from __future__ import annotations

from typing import Final

SCHEMES: Final = ("postgresql", "postgres")
HIDDEN: Final = "…"
SECRETS: Final = frozenset({"password", "sslpassword"})


def is_postgres(url: str) -> bool:
    """Whether the URL names a PostgreSQL database."""
    scheme, mark, _ = url.partition("://")
    return bool(mark) and scheme in SCHEMES


def without_secrets(url: str) -> str:
    """The URL with its passwords left out, also where one has signs in it that should have been escaped."""
    scheme, mark, rest = url.partition("://")
    place, question, query = rest.partition("?")
    if "@" in query:
        return f"{scheme}{mark}{HIDDEN}"
    user, at, host = place.rpartition("@")
    name, colon, _ = user.partition(":")
    shown = "&".join(_shown(part) for part in query.split("&"))
    return f"{scheme}{mark}{name}{colon and f':{HIDDEN}'}{at}{host}{question}{shown}"


def _shown(part: str) -> str:
    name, equals, _ = part.partition("=")
    return f"{name}{equals}{HIDDEN}" if name in SECRETS else part
