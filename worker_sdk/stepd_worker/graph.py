"""Owns how the steps of a definition hang together: who needs whom, who undoes whom, and what is wrong with that."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import UNSET

from stepd_protocol.definitions import Step
from stepd_protocol.problems import FieldFault

PlacedFault = tuple[int, FieldFault]
"""A fault, and the place of the step that has it."""


def undoers(steps: Sequence[Step]) -> dict[str, list[str]]:
    """Ids of the compensations, each with the ids of the steps that it undoes."""
    undone: dict[str, list[str]] = {}
    for step in steps:
        if isinstance(step.compensate, str):
            undone.setdefault(step.compensate, []).append(step.id)
    return undone


def resolved_needs(steps: Sequence[Step]) -> dict[str, tuple[str, ...]]:
    """What each step needs: as written, else the step before it, passing over compensations; only what is there."""
    outside, ids = undoers(steps), {step.id for step in steps}
    needs: dict[str, tuple[str, ...]] = {}
    before: tuple[str, ...] = ()
    for step in steps:
        if step.id in outside:
            needs[step.id] = ()
            continue
        written = before if isinstance(step.needs, msgspec.UnsetType) else tuple(step.needs)
        needs[step.id] = tuple(one for one in dict.fromkeys(written) if one in ids and one not in outside)
        before = (step.id,)
    return needs


def ancestors(needs: Mapping[str, Sequence[str]], step: str) -> set[str]:
    """All steps that come before one."""
    found: set[str] = set()
    left = list(needs[step])
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            left.extend(needs[one])
    return found


def graph_faults(steps: Sequence[Step], *, complete: bool) -> Iterator[PlacedFault]:
    """Faults between steps. While they are not `complete`, a name that isn't there may be declared later."""
    places = {step.id: place for place, step in reversed(list(enumerate(steps)))}
    outside = undoers(steps)
    for place, step in enumerate(steps):
        if places[step.id] != place:
            yield _fault(place, "id", f"step {places[step.id]} has the id {step.id} too")
        yield from _need_faults(place, step, places, outside, complete)
        yield from _compensate_faults(place, step, places, complete)
        if step.id in outside:
            yield from _compensation_faults(place, step, outside[step.id])
    circle = _circle(resolved_needs(steps))
    if circle:
        path = " → ".join([*circle, circle[0]])
        yield _fault(places[circle[0]], "needs", f"the steps need each other in a circle: {path}")


def _need_faults(
    place: int, step: Step, places: Mapping[str, int], outside: Mapping[str, list[str]], complete: bool
) -> Iterator[PlacedFault]:
    written = [] if isinstance(step.needs, msgspec.UnsetType) or step.id in outside else step.needs
    seen: set[str] = set()
    for name in written:
        if name not in places:
            if complete:
                yield _fault(place, "needs", f"there is no step {name}")
        elif name == step.id:
            yield _fault(place, "needs", "a step cannot need itself")
        elif name in outside:
            message = f"{name} undoes {outside[name][0]} and stands outside the graph, so nothing can need it"
            yield _fault(place, "needs", message)
        elif name in seen:
            yield _fault(place, "needs", f"{name} stands twice")
        seen.add(name)


def _compensate_faults(place: int, step: Step, places: Mapping[str, int], complete: bool) -> Iterator[PlacedFault]:
    if not isinstance(step.compensate, str):
        return
    if step.compensate == step.id:
        yield _fault(place, "compensate", "a step cannot undo itself")
    elif complete and step.compensate not in places:
        yield _fault(place, "compensate", f"there is no step {step.compensate}")


def _compensation_faults(place: int, step: Step, undone: Sequence[str]) -> Iterator[PlacedFault]:
    if len(undone) > 1:
        message = f"it can undo one step only, and {' and '.join(undone)} name it in compensate"
        yield _fault(place, None, message)
    if step.kind not in (UNSET, "task"):
        yield _fault(place, "kind", f"it undoes {undone[0]}, so it is a task")
    for field in ("needs", "when", "foreach", "compensate"):
        if getattr(step, field) not in (UNSET, None):
            message = f"it undoes {undone[0]} and stands outside the graph, so it has no {field}"
            yield _fault(place, field, message)


def _circle(needs: Mapping[str, Sequence[str]]) -> list[str]:
    """Steps that need each other in a circle; none where there is none."""
    left = dict(needs)
    while ready := [step for step, needed in left.items() if not any(one in left for one in needed)]:
        for step in ready:
            del left[step]
    if not left:
        return []
    walked = [next(iter(left))]
    while True:
        following = next(one for one in left[walked[-1]] if one in left)
        if following in walked:
            return walked[walked.index(following) :]
        walked.append(following)


def _fault(place: int, field: str | None, message: str) -> PlacedFault:
    path = f"/steps/{place}" if field is None else f"/steps/{place}/{field}"
    return place, FieldFault(path=path, message=message)
