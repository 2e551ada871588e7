"""What a decision will surely want to see, so that a store can load it at once; the rest it asks for by ``Missing``."""

from __future__ import annotations

from stepd.engine import commands as c
from stepd.engine.definition import Compiled
from stepd.engine.expressions import References
from stepd.engine.model import GRAPH_DONE, NO_INDEX, Attempt, Execution, Step, input_name, output_name, previous_name
from stepd.engine.work import Need


def needs_of_lease(definition: Compiled, execution: Execution, row: Step) -> list[Need]:
    """What leasing this row shows: its input, the state, the last attempt, its ancestors' outputs."""
    names = ["state", input_name(row.ordinal, row.index) if row.own_input else "input"]
    if row.has_previous:
        names.append(previous_name(row.ordinal, row.index))
    ancestors = definition.steps[row.ordinal].ancestors[:8]
    names += [output_name(ordinal, NO_INDEX) for ordinal in ancestors if execution.graph[ordinal] in "sC"]
    return [*_whole(definition, row.ordinal), *(Need("payload", name) for name in names)]


def needs_of_call(definition: Compiled, execution: Execution, command: c.Command, attempt: Attempt) -> list[Need]:
    """What a worker's call on this attempt needs, if it is accepted."""
    rows = [Need("step", "", attempt.ordinal, attempt.index), *_whole(definition, attempt.ordinal)]
    match command:
        case c.Complete():
            needs = [*rows, *_after(definition, execution, attempt)]
            return [*needs, Need("payload", "state")] if command.state else needs
        case c.Fail():
            return rows
        case c.Heartbeat() if command.started and attempt.status == "leased":
            return rows
        case _:
            return []


def needs_of_next(definition: Compiled, execution: Execution, ordinal: int) -> list[Need]:
    """What leasing the steps behind this one shows, besides what its success brings."""
    names = dict.fromkeys(("state", "input")) if definition.steps[ordinal].successors else {}
    for successor in definition.steps[ordinal].successors:
        ancestors = definition.steps[successor].ancestors[:8]
        names |= {output_name(one, NO_INDEX): None for one in ancestors if execution.graph[one] in "sC"}
    return [Need("payload", name) for name in names]


def _whole(definition: Compiled, ordinal: int) -> list[Need]:
    """The step's own row, in which its items are counted."""
    return [Need("step", "", ordinal, NO_INDEX)] if definition.steps[ordinal].has_items else []


def _after(definition: Compiled, execution: Execution, attempt: Attempt) -> list[Need]:
    """What is read when this has succeeded: by those that become ready, or by the finish; of a round, by its end."""
    ordinal = attempt.ordinal
    if definition.steps[ordinal].has_items:
        return _after_round(definition, attempt)
    others_open = (execution.graph[:ordinal] + execution.graph[ordinal + 1 :]).strip(GRAPH_DONE)
    if not others_open:
        return [Need("own_rows"), *_reads(definition, definition.finish_references, ordinal)]
    needs: list[Need] = []
    for successor in definition.steps[ordinal].successors:
        needs += _reads(definition, definition.steps[successor].references, ordinal)
    return needs


def _after_round(definition: Compiled, attempt: Attempt) -> list[Need]:
    compiled = definition.steps[attempt.ordinal]
    if compiled.repeat is None:
        return []
    needs = _reads(definition, compiled.repeat.references, attempt.ordinal)
    if compiled.repeat.next is None and compiled.input is not None:
        needs.append(Need("payload", input_name(attempt.ordinal, attempt.index)))
    return needs


def _reads(definition: Compiled, references: References, known: int) -> list[Need]:
    needs = [Need("payload", root) for root in references.roots if root in ("input", "state")]
    for step in references.outputs:
        ordinal = definition.by_id[step]
        if ordinal != known:
            needs += [Need("step", "", ordinal, NO_INDEX), Need("payload", output_name(ordinal, NO_INDEX))]
    return needs
