"""Checks the steps of a definition against each other: ids, needs, cycles, compensations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stepd.engine.definition_fields import Fields
from stepd.engine.definition_graph import Graph, build_graph, cycles
from stepd.engine.scope import ExpressionScope
from stepd_protocol.definitions import STEP_FIELDS
from stepd_protocol.names import STEP_KINDS, StepKind


@dataclass(frozen=True, slots=True)
class Outline:
    """A step as far as the others must know of it."""

    fields: Fields
    id: str | None
    """None where it has none that can be used."""
    kind: StepKind
    needs: list[str] | None
    """None where they were left out."""
    undoes: list[str]
    """Ids of the steps that name this one in `compensate`."""


@dataclass(frozen=True, slots=True)
class Skeleton:
    """The steps of a definition and how they hang together."""

    outlines: list[Outline]
    by_id: Mapping[str, int]
    graph: Graph

    def scope_of(self, ordinal: int) -> ExpressionScope:
        """What the expressions of a step may name: the steps before it; of a compensation also the item it undoes."""
        before = _Before(self.by_id, frozenset(self.ancestors_of(ordinal)))
        undone = self.undone_by(ordinal)
        return ExpressionScope(frozenset({"input", "state"}) | self._of_each(undone), before, self.by_id)

    def ancestors_of(self, ordinal: int) -> tuple[int, ...]:
        """The steps before it, nearest first. Before a compensation are the step it undoes, and those before that."""
        undone = self.undone_by(ordinal)
        return self.graph.ancestors[ordinal] if undone is None else (undone, *self.graph.ancestors[undone])

    def undone_by(self, ordinal: int) -> int | None:
        """The step that this one undoes, where it is a compensation."""
        undoes = self.outlines[ordinal].undoes
        return self.by_id.get(undoes[0]) if undoes else None

    def compensation_of(self, ordinal: int) -> int | None:
        """The compensation of a step, where it has one."""
        named = self.outlines[ordinal].fields.given.get("compensate")
        return self.by_id.get(named) if isinstance(named, str) else None

    def _of_each(self, undone: int | None) -> frozenset[str]:
        """What stands for each success of a step that is repeated."""
        given = {} if undone is None else self.outlines[undone].fields.given
        if given.get("foreach") is not None:
            return frozenset({"item", "index"})
        return frozenset({"index"} if given.get("repeat") is not None else ())

    def scope_of_finish(self) -> ExpressionScope:
        """What `outcome`, `updates` and `output` may name: all steps of the graph."""
        in_graph = frozenset(ordinal for ordinal in self.by_id.values() if not self.outlines[ordinal].undoes)
        return ExpressionScope(frozenset({"input", "state"}), _Before(self.by_id, in_graph), self.by_id)


class _Before:
    """The ids of some steps."""

    def __init__(self, by_id: Mapping[str, int], ordinals: frozenset[int]) -> None:
        self._by_id = by_id
        self._ordinals = ordinals

    def __contains__(self, id_: object) -> bool:
        return isinstance(id_, str) and self._by_id.get(id_) in self._ordinals


def read_skeleton(steps: Sequence[Fields]) -> Skeleton:
    """Reads ids, kinds, needs and compensations, with every fault in them."""
    outlines = [_outline(fields) for fields in steps]
    by_id: dict[str, int] = {}
    for ordinal, outline in enumerate(outlines):
        if outline.id is not None:
            if outline.id in by_id:
                outline.fields.fault("id", f"step {by_id[outline.id]} has the id {outline.id} too")
            by_id.setdefault(outline.id, ordinal)
    for outline in outlines:
        _read_compensate(outline, outlines, by_id)
    for outline in outlines:
        _check_compensation(outline)
    needs = [_resolved_needs(ordinal, outlines, by_id) for ordinal in range(len(outlines))]
    needs = _without_cycles(needs, outlines)
    return Skeleton(outlines, by_id, build_graph(needs))


def _outline(fields: Fields) -> Outline:
    id_ = fields.required_name("id")
    kind = fields.choice("kind", STEP_KINDS, "task")
    foreign = {
        field: f"a {kind} has no {field}, it belongs to a {' or '.join(others)}"
        for field in fields.given.keys() - STEP_FIELDS[kind]
        if (others := [other for other in STEP_KINDS if field in STEP_FIELDS[other]])
    }
    fields.refuse_others(STEP_FIELDS[kind], foreign)
    return Outline(fields, id_, kind, fields.names("needs"), [])


def _read_compensate(outline: Outline, outlines: Sequence[Outline], by_id: Mapping[str, int]) -> None:
    is_given = outline.fields.given.get("compensate") is not None
    if outline.kind != "task" and not (outline.kind == "workflow" and is_given):
        return  # a workflow step's is part of the digest only where it is given: it came later than a task's
    target = outline.fields.name("compensate")
    if target is None:
        return
    if target not in by_id:
        outline.fields.fault("compensate", f"there is no step {target}")
    elif target == outline.id:
        outline.fields.fault("compensate", "a step cannot undo itself")
    else:
        outlines[by_id[target]].undoes.append(outline.id or "")


def _check_compensation(outline: Outline) -> None:
    if not outline.undoes:
        return
    fields = outline.fields
    if len(outline.undoes) > 1:
        fields.fault(None, f"it can undo one step only, and {' and '.join(outline.undoes)} name it in compensate")
    if outline.kind != "task":
        fields.fault("kind", f"it undoes {outline.undoes[0]}, so it is a task")
    for field in ("needs", "when", "foreach", "repeat", "compensate"):
        if fields.given.get(field) is not None:
            fields.fault(field, f"it undoes {outline.undoes[0]} and stands outside the graph, so it has no {field}")


def _resolved_needs(ordinal: int, outlines: Sequence[Outline], by_id: Mapping[str, int]) -> tuple[int, ...]:
    outline = outlines[ordinal]
    if outline.undoes:
        return ()
    if outline.needs is None:
        before = next((one for one in range(ordinal - 1, -1, -1) if not outlines[one].undoes), None)
        return () if before is None else (before,)
    found: dict[int, None] = {}
    for name in outline.needs:
        fault = _need_fault(name, outline, outlines, by_id)
        if fault is None and by_id[name] in found:
            fault = f"{name} stands twice"
        if fault is None:
            found[by_id[name]] = None
        else:
            outline.fields.fault("needs", fault)
    return tuple(found)


def _need_fault(name: str, outline: Outline, outlines: Sequence[Outline], by_id: Mapping[str, int]) -> str | None:
    if name not in by_id:
        return f"there is no step {name}"
    if name == outline.id:
        return "a step cannot need itself"
    undone = outlines[by_id[name]].undoes
    return f"{name} undoes {undone[0]} and stands outside the graph, so nothing can need it" if undone else None


def _without_cycles(needs: list[tuple[int, ...]], outlines: Sequence[Outline]) -> list[tuple[int, ...]]:
    """Notes each cycle at one of its steps, and cuts it, so that the checks that follow have a graph."""
    left = list(needs)
    for cycle in cycles(needs):
        ids = [outlines[ordinal].id or str(ordinal) for ordinal in cycle]
        outlines[cycle[0]].fields.fault("needs", f"the steps need each other in a circle: {' → '.join([*ids, ids[0]])}")
        for ordinal in cycle:
            left[ordinal] = ()
    return left
