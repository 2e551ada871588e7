"""What an operator says of steps, judged before anything is changed: what each of them becomes, or why it can't be."""

from __future__ import annotations

from typing import Literal, TypeAlias, assert_never

import msgspec

from stepd.engine.accepting import output_faults, patched
from stepd.engine.canonical import digest
from stepd.engine.commands import error_json
from stepd.engine.definition import CompiledStep
from stepd.engine.model import NO_INDEX, Attempt, Step, output_name, stale_name
from stepd.engine.renewing import follows_items
from stepd.engine.resolutions import Result
from stepd.engine.standing import is_compensation
from stepd.engine.verdicts import Row, is_write, judge, worst
from stepd.engine.work import StepKey, Work

TOLD = frozenset({"uncertain", "failed"})
"""Statuses of the steps that an operator tells of."""

_ROWS: dict[str, Row] = {"retryable": "again", "interrupted": "again", "cancelled": "unservable"}
_UNSPENT = frozenset({"interrupted", "cancelled"})


class Telling(msgspec.Struct, frozen=True):
    """What a step becomes. ``spent`` and ``effect`` are those of its attempts that count from here on."""

    ordinal: int
    index: int
    becomes: Literal["succeeded", "failed", "again"]
    output: bytes = b"null"
    error: bytes = b"null"
    effect: str = "none"
    spent: int = 0


class Wrong(msgspec.Struct, frozen=True):
    """Why a result can't be taken; ``place`` is a JSON Pointer below it."""

    place: str
    message: str
    is_output: bool = False


class Foreign(msgspec.Struct, frozen=True):
    """A step whose stored effect isn't the definition's."""


Judged: TypeAlias = Telling | Wrong | Foreign | None


class _Late(msgspec.Struct):
    """A late outcome as it is kept."""

    outcome: Literal["complete", "fail"]
    output: msgspec.Raw = msgspec.Raw(b"null")
    state: dict[str, msgspec.Raw] = {}
    class_: str = msgspec.field(name="class", default="fatal")
    message: str = ""
    effect: str | None = None
    details: msgspec.Raw | None = None


_late = msgspec.json.Decoder(_Late).decode


class Judgement:
    """Judges results one by one; the state they lead to gathers in ``state``."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._rows = {(row.ordinal, row.index): row for row in work.rows()}
        self._seen: set[StepKey] = set()
        self.state: bytes | None = None
        """None while no result changes it."""

    def judge(self, result: Result) -> Judged:
        """What the step becomes; None where the result says what stands already. Raises Missing."""
        row = self._find(result)
        if isinstance(row, Wrong):
            return row
        compiled = self._work.definition.steps[row.ordinal]
        if row.declared_effect != (compiled.effect or ""):
            return Foreign()
        if row.status == "succeeded":
            return self._same(row, result)
        if row.status not in TOLD:
            return Wrong("/step", f"step {row.step} is {row.status}: only what failed or became uncertain is told")
        if result.outcome != "succeeded" and (result.output is not None or result.state is not None):
            return Wrong("/outcome", f"output and state belong to succeeded, not to {result.outcome}")
        match result.outcome:
            case "succeeded":
                return self._by_hand(compiled, row, result)
            case "absent":
                return Telling(row.ordinal, row.index, "again")
            case "as_reported":
                return self._as_reported(compiled, row)
            case _:
                assert_never(result.outcome)

    def untold(self) -> list[Step]:
        """The uncertain rows that no result named."""
        doubtful = [(key, row) for key, row in self._rows.items() if row.status == "uncertain"]
        return [row for key, row in doubtful if key not in self._seen and not follows_items(row)]

    def was_named(self, row: Step) -> bool:
        """Whether a result named the row."""
        return (row.ordinal, row.index) in self._seen

    def _find(self, result: Result) -> Step | Wrong:
        ordinal = self._work.definition.by_id.get(result.step)
        if ordinal is None:
            return Wrong("/step", f"there is no step {result.step}")
        row = self._rows.get((ordinal, result.index)) or self._undoing(ordinal, result.index)
        if row is not None and follows_items(row):
            return Wrong("/index", f"step {result.step} has items: name each by its index")
        if row is None:
            what = f"step {result.step}" if result.index == NO_INDEX else f"item {result.index} of step {result.step}"
            return Wrong("/step", f"{what} was never begun: only what failed or became uncertain is told")
        if (ordinal, row.index) in self._seen:
            return Wrong("/step", f"step {result.step} is told twice")
        self._seen.add((ordinal, row.index))
        return row

    def _undoing(self, ordinal: int, index: int) -> Step | None:
        """What undoes items stands once in a view, and undoes one at a time: without an index, that one is meant."""
        if index != NO_INDEX or not is_compensation(self._work, ordinal):
            return None
        return next((row for key, row in self._rows.items() if key[0] == ordinal and row.status in TOLD), None)

    def _same(self, row: Step, result: Result) -> Wrong | None:
        """A step that succeeded may be named again with what it has."""
        stored = self._work.payload(output_name(row.ordinal, row.index)) or b"null"
        if result.outcome == "succeeded" and digest(stored) == digest(result.output or b"null"):
            return None
        return Wrong("/outcome", f"step {row.step} has succeeded, and its output stands")

    def _by_hand(self, compiled: CompiledStep, row: Step, result: Result) -> Telling | Wrong:
        if compiled.manual_result == "refused":
            return Wrong("/outcome", f"step {row.step} says manual_result: refused; its output can't be made up")
        output = result.output or b"null"
        patch = msgspec.json.decode(result.state or b"{}", type=dict[str, msgspec.Raw])
        return self._succeeded(row, output, patch)

    def _as_reported(self, compiled: CompiledStep, row: Step) -> Telling | Wrong:
        attempt = self._late_attempt(row)
        if attempt is None:
            return Wrong("/outcome", f"no worker has sent an outcome of step {row.step} that came too late")
        late = _late(self._work.payload(stale_name(attempt.id)) or b"{}")
        if late.outcome == "fail":
            return self._late_failure(compiled, row, attempt, late)
        judged = self._succeeded(row, bytes(late.output), late.state)
        if isinstance(judged, Wrong):
            return Wrong("/outcome", f"what its worker reported leaves step {row.step} uncertain: {judged.message}")
        return judged

    def _succeeded(self, row: Step, output: bytes, patch: dict[str, msgspec.Raw]) -> Telling | Wrong:
        stands = self._work.payload("state") if self.state is None else self.state
        state = patched(stands or b"{}", patch) if patch else None
        is_list = row.index == NO_INDEX and self._work.definition.steps[row.ordinal].foreach is not None
        faults = output_faults(self._work, row.ordinal, output, state, is_list=is_list)
        if faults:
            place, message = faults[0]
            return Wrong(place, message, is_output=place.startswith("/output"))
        self.state = self.state if state is None else state
        return Telling(row.ordinal, row.index, "succeeded", output=output)

    def _late_attempt(self, row: Step) -> Attempt | None:
        """The attempt whose late outcome counts: a complete before a fail, then the later one's."""
        late = [one for one in self._work.attempts() if one.stale and _is_of(one, row)]
        outcomes = {one.id: _late(self._work.payload(stale_name(one.id)) or b"{}").outcome for one in late}
        return max(late, key=lambda one: (outcomes[one.id] == "complete", one.fence), default=None)

    def _late_failure(self, compiled: CompiledStep, row: Step, attempt: Attempt, late: _Late) -> Telling | Wrong:
        """The failure table's word, as if the outcome had come in time."""
        effect = self._effect(compiled, row, attempt, late.effect)
        spent = row.spent - (late.class_ in _UNSPENT)
        table_row = _ROWS.get(late.class_, "fatal")
        if table_row == "again" and spent >= compiled.max_attempts:
            table_row = "exhausted"
        verdict = judge(table_row, compiled, effect)
        goes_on = self._work.execution.direction == "forward" or is_compensation(self._work, row.ordinal)
        if verdict == "uncertain" or (verdict != "failed" and effect != "none" and not goes_on):
            return Wrong("/outcome", f"what its worker reported leaves step {row.step} uncertain")
        if verdict == "failed":
            details = None if late.details is None else bytes(late.details)
            error = error_json(late.class_, late.message, details)
            return Telling(row.ordinal, row.index, "failed", error=error, effect=effect, spent=spent)
        return Telling(row.ordinal, row.index, "again", effect=effect, spent=spent)

    def _effect(self, compiled: CompiledStep, row: Step, attempt: Attempt, reported: str | None) -> str:
        """The step's effect: the worst that its attempts since its last fresh budget left, with this one's own word."""
        if reported == "absent" or not is_write(compiled):
            return "none"
        effect = reported or "unknown"
        for other in self._work.attempts():
            if _is_of(other, row) and other.id != attempt.id and other.fence > row.fresh_fence:
                effect = worst(effect, other.effect)
        return effect


def _is_of(attempt: Attempt, row: Step) -> bool:
    return (attempt.ordinal, attempt.index) == (row.ordinal, row.index)
