"""Owns what an examination finds: one finding a check, how bad it is, and the way out."""

from typing import Any, Literal, TypeAlias

from msgspec import Struct

Severity: TypeAlias = Literal["ok", "warning", "wrong"]


class Finding(Struct, frozen=True):
    """What one check found. `check` is its name, the same in every release; `way_out` says what to do."""

    check: str
    status: Severity
    message: str
    way_out: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {"check": self.check, "status": self.status, "message": self.message, "way_out": self.way_out}


def ok(check: str, message: str) -> Finding:
    """Nothing is the matter."""
    return Finding(check, "ok", message)


def warning(check: str, message: str, way_out: str) -> Finding:
    """It works so, and somebody should look at it."""
    return Finding(check, "warning", message, way_out)


def wrong(check: str, message: str, way_out: str) -> Finding:
    """It doesn't work so."""
    return Finding(check, "wrong", message, way_out)


def counted(count: int, one: str, many: str) -> str:
    """`1 step`, `2,000 steps`."""
    return f"{count:,} {one if count == 1 else many}"
