"""The drawing of a workflow: nothing overlaps, everything stands right of what it needs, and big ones stay quick."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepd.engine.definition import Compiled, compile_definition
from stepd.ui.graph import BENDS_MAX, NODE_HEIGHT, NODE_WIDTH, Drawing, draw
from stepd_protocol.limits import Limits


def compiled(steps: list[dict[str, Any]]) -> Compiled:
    found = compile_definition("drawn", msgspec.json.encode({"steps": steps}), Limits())
    assert isinstance(found, Compiled), found
    return found


def drawn(steps: list[dict[str, Any]]) -> Drawing:
    return draw(compiled(steps).steps)


def step(id_: str, *needs: str, **more: Any) -> dict[str, Any]:
    return {"id": id_, "effect": "read_only", "needs": list(needs), **more}


def check(drawing: Drawing) -> None:
    """No box lies over another or outside, and every edge leads to the right."""
    place = {node.ordinal: node for node in drawing.nodes}
    for one, other in combinations(drawing.nodes, 2):
        assert abs(one.x - other.x) >= NODE_WIDTH or abs(one.y - other.y) >= NODE_HEIGHT, (one, other)
    for node in drawing.nodes:
        assert 0 <= node.x <= drawing.width - NODE_WIDTH
        assert 0 <= node.y <= drawing.height - NODE_HEIGHT
    for edge in drawing.edges:
        assert place[edge.source].x + NODE_WIDTH < place[edge.target].x


def test_a_chain_stands_in_one_row() -> None:
    drawing = drawn([step("a"), step("b", "a"), step("c", "b")])
    check(drawing)
    assert len({node.y for node in drawing.nodes}) == 1
    assert [(edge.source, edge.target) for edge in drawing.edges] == [(0, 1), (1, 2)]


def test_what_follows_from_other_edges_is_not_drawn() -> None:
    drawing = drawn([step("a"), step("b", "a"), step("c", "a", "b")])
    assert [(edge.source, edge.target) for edge in drawing.edges] == [(0, 1), (1, 2)]


def test_branches_stand_above_each_other() -> None:
    drawing = drawn([step("a"), step("b", "a"), step("c", "a"), step("d", "b", "c")])
    check(drawing)
    _, b, c, _ = drawing.nodes
    assert b.x == c.x
    assert b.y < c.y


def test_a_compensation_hangs_on_the_step_it_undoes() -> None:
    book = {"id": "book", "effect": "idempotent_write", "compensate": "unbook"}
    drawing = drawn([book, {"id": "unbook", "effect": "idempotent_write"}, step("pay", "book")])
    check(drawing)
    assert [(edge.source, edge.target, edge.undoes) for edge in drawing.edges] == [(0, 1, True), (0, 2, False)]


def test_a_step_may_stand_before_what_it_needs() -> None:
    drawing = drawn([step("late", "early"), step("early")])
    check(drawing)


def test_crossings_are_undone_where_they_can_be() -> None:
    drawing = drawn([step("a"), step("b"), step("x", "b"), step("y", "a")])
    a, b, x, y = drawing.nodes
    assert (a.y < b.y) == (y.y < x.y)


@given(st.data())
def test_any_graph_is_drawn_without_overlaps(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 14))
    steps = []
    for number in range(count):
        needs = data.draw(st.sets(st.integers(0, number - 1), max_size=4)) if number else set()
        steps.append(step(f"s{number}", *(f"s{need}" for need in sorted(needs))))
    check(drawn(steps))


@pytest.mark.parametrize("width", [1, 20])
def test_five_hundred_steps_are_placed_with_a_bounded_number_of_bends(width: int) -> None:
    steps = [
        step(f"s{number}", *(f"s{need}" for need in range(max(0, number - 2 * width), number, 2)))
        for number in range(500)
    ]
    whole = compiled(steps).steps
    drawing = draw(whole)
    assert len({(node.x, node.y) for node in drawing.nodes}) == 500
    assert sum(edge.path.count("H") for edge in drawing.edges) <= BENDS_MAX
