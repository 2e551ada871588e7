"""JSON Pointers into the state."""

from copy import deepcopy
from typing import Any

import pytest

from stepd.engine.pointers import PointerFault, apply_updates, child_pointer, parse_pointer


@pytest.mark.parametrize(
    ("updates", "expected"),
    [
        ([], {"a": {"b": 1}, "list": [1, {"k": 2}], "0": 0}),
        ([("/a/b", 2)], {"a": {"b": 2}, "list": [1, {"k": 2}], "0": 0}),
        ([("/x/y/z", 3)], {"a": {"b": 1}, "list": [1, {"k": 2}], "0": 0, "x": {"y": {"z": 3}}}),
        ([("/list/0", [])], {"a": {"b": 1}, "list": [[], {"k": 2}], "0": 0}),
        ([("/list/1/k", None)], {"a": {"b": 1}, "list": [1, {"k": None}], "0": 0}),
        ([("/0", 1)], {"a": {"b": 1}, "list": [1, {"k": 2}], "0": 1}),
        ([("/", 1), ("/a~1b/c~0d", 2)], {"a": {"b": 1}, "list": [1, {"k": 2}], "0": 0, "": 1, "a/b": {"c~d": 2}}),
        ([("/a", []), ("/list", {}), ("/list/0", 1)], {"a": [], "list": {"0": 1}, "0": 0}),
        ([("/x", {"y": 1}), ("/x/z", 2)], {"a": {"b": 1}, "list": [1, {"k": 2}], "0": 0, "x": {"y": 1, "z": 2}}),
        ([("/~01", 1)], {"a": {"b": 1}, "list": [1, {"k": 2}], "0": 0, "~1": 1}),
    ],
)
def test_updates_change_a_copy(updates: list[tuple[str, Any]], expected: dict[str, Any]) -> None:
    state: dict[str, Any] = {"a": {"b": 1}, "list": [1, {"k": 2}], "0": 0}
    before, given = deepcopy(state), deepcopy(updates)
    assert apply_updates(state, updates) == expected
    assert state == before
    assert updates == given


@pytest.mark.parametrize(
    ("pointer", "reason"),
    [
        ("", "begins with /"),
        ("a", "begins with /"),
        ("/a~2", "neither ~0 nor ~1"),
        ("/a~", "neither ~0 nor ~1"),
        ("/list/-", "only existing places"),
        ("/list/2", "place 2 of an array that has 2"),
        ("/list/2/k", "place 2 of an array that has 2"),
        ("/list/00", "no place in it"),
        ("/list/x", "no place in it"),
        ("/list/٣", "no place in it"),
        ("/list/99999999999999999999", "no place in it"),
        ("/a/b/c", "goes through 'b', which is neither"),
        ("/list/0/c", "goes through '0', which is neither"),
        ("/none/c", "goes through 'none', which is neither"),
    ],
)
def test_places_that_cannot_be_set(pointer: str, reason: str) -> None:
    with pytest.raises(PointerFault, match=reason):
        apply_updates({"a": {"b": 1}, "list": [1, 2], "none": None}, [(pointer, 1)])


def test_pointers_are_written_as_they_are_read() -> None:
    assert parse_pointer(child_pointer(child_pointer("", "a/b~1"), 3)) == ("a/b~1", "3")
