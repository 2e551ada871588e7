"""Keys as tests make them: through the API, each with a client that shows it."""

from collections.abc import Sequence
from dataclasses import dataclass

from tests.support.client import Answer, Http
from tests.support.definitions import unique

KEYS = "/v1/admin/keys"


@dataclass(frozen=True, slots=True)
class Key:
    """A key, and the client of whoever has it."""

    id: str
    name: str
    secret: str
    http: Http

    def revoke(self, admin: Http) -> None:
        assert admin.send("DELETE", f"{KEYS}/{self.id}").expect(204) is None


def ask_for_key(admin: Http, *scopes: str, name: str | None = None, tenants: Sequence[str] | None = None) -> Answer:
    """Asks for a key under a name of its own unless one is given; for all tenants unless some are given."""
    body = {"name": name or unique(), "scopes": list(scopes)}
    return admin.post(KEYS, body if tenants is None else body | {"tenants": list(tenants)})


def make_key(admin: Http, *scopes: str, name: str | None = None, tenants: Sequence[str] | None = None) -> Key:
    made = ask_for_key(admin, *scopes, name=name, tenants=tenants).expect(201)
    return Key(made["id"], made["name"], made["secret"], Http(admin.url, made["secret"]))
