"""Short ways to write definitions in tests; every field that a test doesn't give is left to its default."""

from uuid import uuid4

from tests.support.client import Json

AT_ONCE = {"max_attempts": 3, "initial_seconds": 0}
ONCE = {"max_attempts": 1}


def unique(prefix: str = "t") -> str:
    """A name that no other test uses, so that tests can share a daemon with each other and with anybody."""
    return f"{prefix}-{uuid4().hex}"


def task(id: str = "work", effect: str = "read_only", **fields: Json) -> dict[str, Json]:
    """A task that says its id and effect, and what else is given."""
    return {"id": id, "effect": effect, **fields}


def read(id: str = "work", **fields: Json) -> dict[str, Json]:
    return task(id, "read_only", **fields)


def safe_write(id: str = "work", **fields: Json) -> dict[str, Json]:
    """A write that may be repeated: delivered at least once unless `fields` say otherwise."""
    return task(id, "idempotent_write", **fields)


def write(id: str = "work", **fields: Json) -> dict[str, Json]:
    """A write that may not be repeated: delivered at most once, so its leases must be started."""
    return task(id, "non_idempotent_write", **fields)


def wait(id: str = "wait", event: str = "go", **fields: Json) -> dict[str, Json]:
    """A step that waits for a signal."""
    return {"id": id, "kind": "wait", "event": event, **fields}


def sleep_step(id: str = "sleep", **fields: Json) -> dict[str, Json]:
    """A step that lets time pass."""
    return {"id": id, "kind": "sleep", **fields}


def decision(id: str = "decision", *rules: Json, **fields: Json) -> dict[str, Json]:
    """A step that evaluates a table of rules."""
    return {"id": id, "kind": "decision", "rules": list(rules), **fields}


def cel(expression: str) -> dict[str, str]:
    """A template's expression."""
    return {"$cel": expression}


def brief(lease: float = 0.1, reclaim: float = 30) -> dict[str, Json]:
    """Fields of a step whose lease lapses after `lease` seconds and is taken back `reclaim` seconds later."""
    return {"lease_seconds": lease, "reclaim_seconds": reclaim}
