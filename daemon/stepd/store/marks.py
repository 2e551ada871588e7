"""Texts as a database can hold them that knows no NUL: one stands as a mark and a 0, and the mark as itself and a 1."""

from __future__ import annotations

from typing import Final

MARK: Final = "\uf8f0"


def to_text(value: str) -> str:
    """A text as it can be held."""
    if "\0" in value or MARK in value:
        return value.replace(MARK, f"{MARK}1").replace("\0", f"{MARK}0")
    return value


def from_text(held: str) -> str:
    """The text that is held so."""
    return held.replace(f"{MARK}0", "\0").replace(f"{MARK}1", MARK) if MARK in held else held
