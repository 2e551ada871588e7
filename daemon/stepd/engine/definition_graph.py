"""The graph of a definition's steps: who needs whom, without cycles, and who comes before whom."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Graph:
    """Ordinals of steps by ordinal; a step outside the graph has none."""

    needs: tuple[tuple[int, ...], ...]
    successors: tuple[tuple[int, ...], ...]
    ancestors: tuple[tuple[int, ...], ...]
    """Nearest first; at one distance the later in the definition first."""


def build_graph(needs: Sequence[tuple[int, ...]]) -> Graph:
    """Returns the graph of steps that need each other so."""
    successors: list[list[int]] = [[] for _ in needs]
    for ordinal, needed in enumerate(needs):
        for one in needed:
            successors[one].append(ordinal)
    return Graph(tuple(needs), tuple(tuple(following) for following in successors), tuple(_all_ancestors(needs)))


def cycles(needs: Sequence[tuple[int, ...]]) -> Iterator[list[int]]:
    """Yields cycles of ordinals, each step in one of them at most, until none is left without those."""
    open_steps = {ordinal: set(needed) for ordinal, needed in enumerate(needs)}
    while True:
        _peel(open_steps)
        if not open_steps:
            return
        cycle = _one_cycle(open_steps)
        yield cycle
        for ordinal in cycle:
            del open_steps[ordinal]


def _peel(open_steps: dict[int, set[int]]) -> None:
    """Takes out, again and again, the steps that need none of those that are left."""
    dependents: dict[int, list[int]] = {}
    for ordinal, needed in open_steps.items():
        needed.intersection_update(open_steps)
        for one in needed:
            dependents.setdefault(one, []).append(ordinal)
    ready = [ordinal for ordinal, needed in open_steps.items() if not needed]
    while ready:
        ordinal = ready.pop()
        del open_steps[ordinal]
        for dependent in dependents.get(ordinal, ()):
            open_steps[dependent].discard(ordinal)
            if not open_steps[dependent]:
                ready.append(dependent)


def _one_cycle(open_steps: Mapping[int, set[int]]) -> list[int]:
    walked: list[int] = []
    ordinal = min(open_steps)
    while ordinal not in walked:
        walked.append(ordinal)
        ordinal = min(open_steps[ordinal])
    return walked[walked.index(ordinal) :]


def _all_ancestors(needs: Sequence[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
    """Sets of ordinals are the bits of integers here: a graph may have tens of thousands of edges."""
    masks = [sum(1 << one for one in needed) for needed in needs]
    found: list[tuple[int, ...]] = []
    for ordinal, needed in enumerate(needs):
        if len(needed) == 1 and needed[0] < ordinal:
            found.append((needed[0], *found[needed[0]]))
        else:
            found.append(_ancestors(ordinal, masks))
    yield from found


def _ancestors(ordinal: int, masks: Sequence[int]) -> tuple[int, ...]:
    found: list[int] = []
    seen = 1 << ordinal
    level = masks[ordinal]
    while level:
        nearest = _bits(level)
        found.extend(nearest)
        seen |= level
        level = 0
        for one in nearest:
            level |= masks[one]
        level &= ~seen
    return tuple(found)


def _bits(mask: int) -> list[int]:
    """Returns the places of the bits that are set, the highest first."""
    places: list[int] = []
    while mask:
        places.append(mask.bit_length() - 1)
        mask ^= 1 << places[-1]
    return places
