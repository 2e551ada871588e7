"""Values on their way into JSON, and what a body sees of the state and of the steps before it."""

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from msgspec import Raw
from pydantic import BaseModel

from stepd_protocol.leases import AncestorStep
from stepd_worker.state import Ancestors, StatePatch
from stepd_worker.values import Unencodable, encode


class Model(BaseModel):
    n: int


@dataclass
class Data:
    models: list[Model]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (10**40, b"1" + b"0" * 40),
        (1.0, b"1.0"),
        (None, b"null"),
        ({"a": [None, "\x00"]}, b'{"a":[null,"\\u0000"]}'),
        (Data([Model(n=1)]), b'{"models":[{"n":1}]}'),
    ],
)
def test_what_has_json(value: Any, text: bytes) -> None:
    assert encode(value) == text


def _circle() -> list[Any]:
    circle: list[Any] = []
    circle.append(circle)
    return circle


@pytest.mark.parametrize(
    "value",
    [float("nan"), {"a": [1, float("inf")]}, Data([]).__class__, object(), "\ud800", _circle(), {"a": -float("inf")}],
)
def test_what_has_none_is_never_sent_as_something_else(value: Any) -> None:
    with pytest.raises(Unencodable):
        encode(value)


def test_the_patch_is_what_was_set() -> None:
    state = StatePatch(b'{"a": 1, "b": 2}')
    assert state.patch() is None
    assert (state["a"], len(state), list(state), "c" in state, state.get("c")) == (1, 2, ["a", "b"], False, None)
    assert state.patch() is None
    state["a"] = 5
    state["c"] = None
    assert msgspec.json.decode(state.patch() or b"") == {"a": 5, "c": None}


def test_a_value_changed_in_place_is_part_of_the_patch() -> None:
    state = StatePatch(b'{"seen": [1], "other": [2], "deep": {"a": {}}}')
    state["seen"].append(2)
    assert state["other"] == [2]
    state["deep"]["a"]["b"] = 1
    assert msgspec.json.decode(state.patch() or b"") == {"seen": [1, 2], "deep": {"a": {"b": 1}}}


def test_what_the_state_cannot_do() -> None:
    state = StatePatch(b"{}")
    state["a"] = 1
    with pytest.raises(TypeError, match="set it to None"):
        del state["a"]
    with pytest.raises(TypeError, match="text"):
        state[1] = 2  # type: ignore[index] # the fault under test


def test_ancestors() -> None:
    steps = Ancestors(
        {
            "fetch": AncestorStep(status="succeeded", output=Raw(b'{"rows": 3}')),
            "skipped": AncestorStep(status="skipped"),
            "big": AncestorStep(status="succeeded", omitted=True),
        }
    )
    assert steps["fetch"].output == steps.fetch.output == {"rows": 3}
    assert (steps.skipped.status, steps.skipped.output) == ("skipped", None)
    assert list(steps) == ["fetch", "skipped", "big"]
    with pytest.raises(LookupError, match=r'input, like cel\("steps.big.output"\)'):
        _ = steps.big.output
    with pytest.raises(KeyError, match="fetch, skipped, big"):
        _ = steps["fetsch"]
    with pytest.raises(AttributeError, match="fetsch"):
        _ = steps.fetsch
