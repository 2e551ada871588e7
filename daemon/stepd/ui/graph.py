"""Places the steps of a workflow for a drawing: layers from left to right, few crossings, edges as curves."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct

from stepd.engine.definition import CompiledStep

NODE_WIDTH: Final = 176
NODE_HEIGHT: Final = 46
LAYER_GAP: Final = 56
ROW_GAP: Final = 18
MARGIN: Final = 8
SWEEPS: Final = 4
BENDS_MAX: Final = 4_000
"""Places that long edges are led through; a graph that would need more gets them drawn straight."""


class Node(Struct, frozen=True):
    """A step's box: its ordinal and its upper left corner, in pixels."""

    ordinal: int
    x: int
    y: int


class Edge(Struct, frozen=True):
    """A line between two steps, as the path data of SVG; ``undoes``: the second is the first one's compensation."""

    source: int
    target: int
    path: str
    undoes: bool


class Drawing(Struct, frozen=True):
    """A graph with its places; all in pixels."""

    width: int
    height: int
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


def draw(steps: Sequence[CompiledStep]) -> Drawing:
    """Places every step right of all that it needs, a compensation right of the step it undoes."""
    links = _links(steps)
    layers = _layers(steps)
    chains = [_chain(link, layers, at) for at, link in enumerate(links)]
    if sum(len(chain) - 2 for chain in chains) > BENDS_MAX:
        chains = [_Chain((link.source, link.target)) for link in links]
    rows = _ordered(_filled(layers, chains), chains)
    height = max(len(row) for row in rows)
    places = {
        name: (MARGIN + number * (NODE_WIDTH + LAYER_GAP), _top(place, len(row), height))
        for number, row in enumerate(rows)
        for place, name in enumerate(row)
    }
    return Drawing(
        width=2 * MARGIN + len(rows) * NODE_WIDTH + (len(rows) - 1) * LAYER_GAP,
        height=2 * MARGIN + height * NODE_HEIGHT + (height - 1) * ROW_GAP,
        nodes=tuple(Node(step.ordinal, *places[step.ordinal]) for step in steps),
        edges=tuple(
            Edge(link.source, link.target, _path([places[name] for name in chain]), link.undoes)
            for link, chain in zip(links, chains, strict=True)
        ),
    )


class _Link(Struct, frozen=True):
    source: int
    target: int
    undoes: bool = False


class _Bend(Struct, frozen=True):
    """A place between two steps through which a long edge is led."""

    link: int
    layer: int


_Name = int | _Bend
_Chain = tuple[_Name, ...]


def _links(steps: Sequence[CompiledStep]) -> list[_Link]:
    """Who waits for whom, without what follows from the others."""
    links = []
    for step in steps:
        if step.undoes is not None:
            links.append(_Link(step.undoes, step.ordinal, undoes=True))
            continue
        implied = {above for need in step.needs for above in steps[need].ancestors}
        links += [_Link(need, step.ordinal) for need in step.needs if need not in implied]
    return links


def _layers(steps: Sequence[CompiledStep]) -> list[int]:
    """The layer of each step, by ordinal: needs may stand behind those who need them in a definition."""
    layers: dict[int, int] = {}
    open_ = [step.ordinal for step in reversed(steps)]
    while open_:
        step = steps[open_[-1]]
        above = step.needs if step.undoes is None else (step.undoes,)
        missing = [one for one in above if one not in layers]
        if missing:
            open_ += missing
            continue
        layers[step.ordinal] = 1 + max((layers[one] for one in above), default=-1)
        open_.pop()
    return [layers[step.ordinal] for step in steps]


def _chain(link: _Link, layers: Sequence[int], at: int) -> _Chain:
    """What an edge goes through, layer by layer."""
    between = range(layers[link.source] + 1, layers[link.target])
    return (link.source, *(_Bend(at, layer) for layer in between), link.target)


def _filled(layers: Sequence[int], chains: Sequence[_Chain]) -> list[list[_Name]]:
    rows: list[list[_Name]] = [[] for _ in range(max(layers) + 1)]
    for ordinal, layer in enumerate(layers):
        rows[layer].append(ordinal)
    for chain in chains:
        for bend in chain[1:-1]:
            assert isinstance(bend, _Bend)
            rows[bend.layer].append(bend)
    return rows


def _ordered(rows: list[list[_Name]], chains: Sequence[_Chain]) -> list[list[_Name]]:
    """Rows in which each has its place near the middle of what it is tied to: sweeps to and fro."""
    before: dict[_Name, list[_Name]] = {}
    after: dict[_Name, list[_Name]] = {}
    for chain in chains:
        for left, right in pairwise(chain):
            before.setdefault(right, []).append(left)
            after.setdefault(left, []).append(right)
    for sweep in range(SWEEPS):
        forward = sweep % 2 == 0
        numbers = range(1, len(rows)) if forward else range(len(rows) - 2, -1, -1)
        for number in numbers:
            fixed = rows[number - 1] if forward else rows[number + 1]
            _sort(rows[number], fixed, before if forward else after)
    return rows


def _sort(row: list[_Name], fixed: Sequence[_Name], ties: dict[_Name, list[_Name]]) -> None:
    places = {name: place / max(len(fixed) - 1, 1) for place, name in enumerate(fixed)}
    own = {name: place / max(len(row) - 1, 1) for place, name in enumerate(row)}

    def middle(name: _Name) -> float:
        tied = [places[other] for other in ties.get(name, ()) if other in places]
        return sum(tied) / len(tied) if tied else own[name]

    row.sort(key=middle)


def _top(place: int, count: int, height: int) -> int:
    """Where a box begins; each layer stands in the middle of the drawing's height."""
    step = NODE_HEIGHT + ROW_GAP
    return MARGIN + (height - count) * step // 2 + place * step


def _path(places: Sequence[tuple[int, int]]) -> str:
    """A curve from the right side of the first box through those between to the left side of the last one."""
    half = NODE_HEIGHT // 2
    x, y = places[0][0] + NODE_WIDTH, places[0][1] + half
    parts = [f"M{x} {y}"]
    for number, (left, top) in enumerate(places[1:], 1):
        is_last = number == len(places) - 1
        middle = (x + left) // 2
        parts.append(f"C{middle} {y} {middle} {top + half} {left} {top + half}")
        x, y = left, top + half
        if not is_last:
            x += NODE_WIDTH
            parts.append(f"H{x}")
    return "".join(parts)
